"""Commands that look at runs and jobs."""
