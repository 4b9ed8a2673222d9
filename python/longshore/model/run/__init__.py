"""A run: submissions, attempts, events, states and reports."""
