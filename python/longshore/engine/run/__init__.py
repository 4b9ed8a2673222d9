"""The loop that drives a run, and the service around it."""
