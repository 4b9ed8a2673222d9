"""Slurm service: runs under Longshore's engine, or with dependencies kept by Slurm."""
