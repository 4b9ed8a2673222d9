"""One job or many runs, looked into."""
