"""Inspection of one job or many runs: lists, explanations, logs and graphs."""
