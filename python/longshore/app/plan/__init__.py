"""From tasks to a workflow: clusters, profiles and checks."""
