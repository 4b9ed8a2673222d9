"""Submission of a DAG to the schedd, exactly once: checks, recovery, rescue file."""
