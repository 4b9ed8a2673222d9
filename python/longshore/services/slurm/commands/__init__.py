"""Slurm's programs, and what they print."""
