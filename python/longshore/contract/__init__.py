"""What the author of a plugin reads: services, executors, sources and clustering algorithms."""
