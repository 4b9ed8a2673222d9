"""Plan of a workflow: clusters of tasks, job profiles and checks."""
