"""The state of a run and how events change it."""
