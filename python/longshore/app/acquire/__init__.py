"""Stage `acquire`: from a payload to its graph of tasks."""
