"""From a payload to its graph of tasks."""
