"""Batches as job arrays: submitted, watched, judged."""
