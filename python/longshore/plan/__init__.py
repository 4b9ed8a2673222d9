"""From tasks to jobs: clustering, commands, orderings and special jobs (pure)."""
