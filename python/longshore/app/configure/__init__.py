"""Configuration of a run: from YAML, environment and command line to a resolved run."""
