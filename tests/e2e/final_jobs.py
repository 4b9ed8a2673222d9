"""Runs with a final job whose jobs record their names."""

from __future__ import annotations

from pathlib import Path

NOTE = 'echo "$LONGSHORE_JOB_NAME" >> {notes}'
COMMON = f"notes: ${{PWD}}/notes\nresources: {{cpus: 1}}\nrequestMemory: 10\nrunQuantumCommand: '{NOTE}'\n"
FINAL = "finalJob: {command1: 'echo final >> {notes}'}\n"


def said(folder: Path) -> list[str]:
    """Return the recorded names in order."""
    return (folder / "notes").read_text("utf-8").split()
