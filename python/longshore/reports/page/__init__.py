"""The page of a run: an HTML report in one file."""
