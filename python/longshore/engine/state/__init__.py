"""State of a run: jobs, attempts, barriers, resource pool, steering, and how events change them."""
