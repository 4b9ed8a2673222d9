"""The state of a run and of its jobs, summed up."""
