"""Programs, processes, background calls, and caches and rate limits that processes share."""
