"""Programs and processes, and calls that are shared or limited."""
