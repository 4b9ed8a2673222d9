"""Rendering of a workflow into the DAG, its submit descriptions and their helper files."""
