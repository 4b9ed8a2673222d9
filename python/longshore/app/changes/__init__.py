"""What changed since a run was prepared, and what becomes of its jobs."""
