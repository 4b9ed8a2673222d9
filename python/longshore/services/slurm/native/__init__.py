"""Runs whose dependencies Slurm itself keeps."""
