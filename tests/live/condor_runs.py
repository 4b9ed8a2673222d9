"""Command line of a user of a real HTCondor pool, for end-to-end tests."""

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
        constraint = f'{self._known(run)} && LongshoreName == "{name}" && JobUniverse == 5'
        rows = self.pool.queue("ClusterId", constraint=constraint)
        return rows[0][0] if rows else ""

    def queue_of(self, run: Path) -> list[list[str]]:
        """What of a run is in HTCondor's queue: number and universe of each job, DAGMan's among them."""
        return self.pool.queue("ClusterId", "JobUniverse", constraint=self._known(run))

    @staticmethod
    def card(run: Path) -> dict[str, Any]:
        """What a run directory says of itself."""
        found: dict[str, Any] = json.loads((run / "run.json").read_text("utf-8"))
        return found

    def _known(self, run: Path) -> str:
        """The constraint that all jobs of a run meet."""
        card = self.card(run)
        return f'LongshoreRun == "{card["id"]}-{card["key"]}"' if card.get("key") else f'LongshoreRun == "{card["id"]}"'
