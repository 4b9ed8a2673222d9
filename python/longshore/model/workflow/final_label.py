"""Label of the final job; reports need it, and nothing else of jobs."""

from __future__ import annotations

from typing import Final

FINAL_LABEL: Final = "finalJob"
"""Label of the job that runs after all others."""
