"""Contract with plug-ins: services, executors, sources of tasks and clustering algorithms."""
