"""Reports on a run and its jobs: states, counts, failures, time left."""
