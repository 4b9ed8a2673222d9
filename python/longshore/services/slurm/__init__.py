"""Slurm as a workload manager under our own engine."""
