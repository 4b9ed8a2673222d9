"""Names of DAG nodes that are not numbered jobs."""

from __future__ import annotations

from typing import Final

FINAL_NODE: Final = "final"
"""Node of the final job."""
BPS_FINAL_NODE: Final = "finalJob"
"""The same in a DAG that BPS made; its other nodes have the names of their jobs."""
JOIN_NODE: Final = "wms_noop_g"
"""Beginning of nodes without a job, before their number; BPS's report takes nodes of such names for no jobs."""
