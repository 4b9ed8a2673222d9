"""The door to files, processes, clock and host, which a simulation can replace, and what is built on it."""
