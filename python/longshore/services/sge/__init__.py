"""Grid Engine as a workload manager."""
