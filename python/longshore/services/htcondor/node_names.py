"""Names of DAG nodes that are not numbered jobs."""

from __future__ import annotations

from typing import Final

FINAL_NODE: Final = "final"
"""Node of the final job."""
