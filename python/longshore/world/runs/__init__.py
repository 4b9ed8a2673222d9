"""Run directories, and what the user's state directory holds of runs."""
