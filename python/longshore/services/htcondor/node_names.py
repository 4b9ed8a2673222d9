"""Names of DAG nodes that belong to no job of the workflow's own."""

from __future__ import annotations

from typing import Final

FINAL: Final = "final"
"""Node of the final job."""
