"""Commands that show runs and jobs: report, status, logs, explain, show-job, draw, events."""
