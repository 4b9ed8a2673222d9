"""Runs that were submitted: found, opened and followed, with their state by their events."""
