"""Sections whose parts set the requests of jobs; without other imports, as completion of keys needs them at once."""

from __future__ import annotations

from typing import Final

PART_SECTIONS: Final = ("pipetask", "cluster")
"""Sections with a part per label of a task, and per cluster."""
