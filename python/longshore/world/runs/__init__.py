"""Run directories, and the user's state directory: the registry, claims and label histories."""
