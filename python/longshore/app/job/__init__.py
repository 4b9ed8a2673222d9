"""One job of a run: why it is in its state and what it runs, as records and in words."""
