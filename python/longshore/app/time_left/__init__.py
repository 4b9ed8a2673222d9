"""Time left of a live run, as a range."""
