"""Pilots: a few allocations of a batch system in which many short jobs run."""
