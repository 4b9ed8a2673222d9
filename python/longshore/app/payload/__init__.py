"""Payload readers: the tasks, pipelines and files of a payload."""
