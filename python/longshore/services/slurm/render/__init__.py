"""Rendering of a batch as the script for sbatch: options, template, launcher and nice value."""
