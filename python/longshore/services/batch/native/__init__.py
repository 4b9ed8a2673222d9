"""Native runs: the workload manager keeps the dependencies, and no engine runs."""
