"""Staging of jobs' files: the command that stages a job, what it recorded, and checks before submission."""
