"""What only Slurm has: heterogeneous jobs, nice values from pressure, burst buffers, and native dependencies."""
