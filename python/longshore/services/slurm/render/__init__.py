"""From a batch to the script that sbatch takes."""
