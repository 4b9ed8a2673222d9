"""What end-to-end tests on a real pool of HTCondor's share: the command line of a user who has one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.condor_pools import CondorPool
from tests.live.runs import LiveSite

SITE = "wmsServiceClass: htcondor\ncomputeSite: here\nsite: {here: {}}\n"


@dataclass(frozen=True, kw_only=True)
class CondorSite(LiveSite):
    """A user's command line where a pool is."""

    head = SITE

    pool: CondorPool

    def memory_mb(self, attempt: Mapping[str, Any]) -> int:
        """The memory that the slot of an attempt had."""
        return int(attempt["extra"]["MemoryProvisioned"])

    def job(self, run: Path, name: str) -> str:
        """What HTCondor calls the job of a run that is in its queue; empty where there is none."""
        mark = json.loads((run / "run.json").read_text("utf-8"))
        known = f"{mark['id']}-{mark['key']}" if mark.get("key") else mark["id"]
        constraint = f'LongshoreRun == "{known}" && LongshoreName == "{name}" && JobUniverse == 5'
        rows = self.pool.queue("ClusterId", constraint=constraint)
        return rows[0][0] if rows else ""
