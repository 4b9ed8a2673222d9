"""Settings of pilots are checked before a run is written, and a job that cannot be packed is told."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.pilots.packing import CombinedExecutor
from longshore.services.batch.pilots.setup import pilot_settings
from longshore.services.slurm.service import SlurmService


def test_settings_of_pilots_come_from_the_executor() -> None:
    found = pilot_settings({"pilot": {"cpus": 3, "memory_b": 5}, "signals": [2, 15], "grace_s": 1.0})
    assert (found.cpus, found.memory_b, found.signals, found.grace_s) == (3, 5, (2, 15), 1.0)
    assert found.count == 4


@pytest.mark.parametrize(("settings", "kind"), [({}, BatchExecutor), ({"pilot": {}}, CombinedExecutor)])
def test_only_runs_that_want_pilots_have_them(settings: dict[str, Any], kind: type) -> None:
    assert type(SlurmService().executor(settings)) is kind
