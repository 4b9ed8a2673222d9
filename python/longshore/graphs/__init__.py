"""Graphs of tasks, read from pipelines, graph files, recorded workflows and quantum graphs."""
