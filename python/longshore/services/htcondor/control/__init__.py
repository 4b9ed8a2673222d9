"""Changes to a DAG that runs or ended."""
