"""Runs that were submitted before: how they are found, opened and followed."""
