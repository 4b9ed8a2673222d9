"""Interventions in a live run, and plans of restarts."""
