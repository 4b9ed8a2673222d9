"""Longshore loads workflows onto compute sites: layered YAML in, jobs on a workload manager out."""

__version__ = "0.1.0"
