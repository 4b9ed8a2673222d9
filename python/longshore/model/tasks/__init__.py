"""Tasks, the files they use, and clusters of them."""
