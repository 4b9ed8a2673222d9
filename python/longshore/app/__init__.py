"""One module per thing a user can do."""
