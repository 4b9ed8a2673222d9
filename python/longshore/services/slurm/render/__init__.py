"""Rendering of a batch as the script for sbatch: options and template."""
