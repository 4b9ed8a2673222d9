"""Batches as Slurm job arrays: submission, monitoring, and classification of ended attempts."""
