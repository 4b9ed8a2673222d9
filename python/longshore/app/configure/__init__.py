"""From YAML, environment and command line to a resolved run."""
