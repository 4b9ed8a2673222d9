"""From layers and payload to a run directory, handed to its service; and what changed since."""
