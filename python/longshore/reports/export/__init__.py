"""Exports of a run for other programs: a module per format, and one that reads of the run what they need."""
