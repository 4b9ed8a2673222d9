"""Exports of a run for other programs: each format has a module that renders it, and one module reads the run."""
