"""From a workflow to a run directory that a service takes."""
