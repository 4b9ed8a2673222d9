"""Workflows: jobs, their requests, attempt rules, and barriers between job groups."""
