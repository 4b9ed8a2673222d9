"""What is wrong with a configuration, and where."""
