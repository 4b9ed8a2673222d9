"""State of a run: jobs, attempts, barriers and steering, and how events change them; pure."""
