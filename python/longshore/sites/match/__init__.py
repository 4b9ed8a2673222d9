"""Matches sites with requests: limits, partitions, resource graphs and subsystems (pure)."""
