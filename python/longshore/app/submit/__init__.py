"""Submission of a run: transform, prepare, write the run directory, hand over to the service."""
