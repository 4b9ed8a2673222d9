"""Native Slurm runs (Slurm keeps the dependencies), and the engine as a Slurm job."""
