"""Settings of pilots are checked before a run is written, and a job that cannot be packed is told."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.model.workflow import MIB
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.pilots.packing import CombinedExecutor
from longshore.services.batch.pilots.setup import OVERHEAD_B, pilot_settings
from longshore.services.slurm.service import SlurmService


def test_settings_of_pilots_come_from_the_executor() -> None:
    found = pilot_settings({"pilot": {"cpus": 3, "memory_b": 5}, "signals": [2, 15], "grace_s": 1.0})
    assert (found.cpus, found.memory_b, found.signals, found.grace_s) == (3, 5, (2, 15), 1.0)
    assert found.count == 4


def test_memory_follows_the_processors_where_it_is_not_written() -> None:
    assert pilot_settings({"pilot": {"cpus": 3}}).memory_b == 3 * 2048 * MIB
    assert pilot_settings({}).memory_b == 4 * 2048 * MIB


def test_what_is_not_written_of_a_pilot_is_within_the_ceilings_of_the_site() -> None:
    ceilings = {"cpus": 2, "memory": 3000 * MIB, "walltime": 600.0}
    found = pilot_settings({"pilot": {}, "ceilings": ceilings})
    assert (found.cpus, found.memory_b, found.walltime_s) == (2, 3000 * MIB - OVERHEAD_B, 600.0)
    found = pilot_settings({"pilot": {"nodes": 2}, "ceilings": ceilings})
    assert (found.cpus, found.memory_b) == (1, 1500 * MIB - OVERHEAD_B)
    # What is written is refused when it is too much, and so never changed.
    found = pilot_settings({"pilot": {"cpus": 9, "memory_b": 9000 * MIB, "walltime_s": 900.0}, "ceilings": ceilings})
    assert (found.cpus, found.memory_b, found.walltime_s) == (9, 9000 * MIB, 900.0)


@pytest.mark.parametrize(("settings", "kind"), [({}, BatchExecutor), ({"pilot": {}}, CombinedExecutor)])
def test_only_runs_that_want_pilots_have_them(settings: dict[str, Any], kind: type) -> None:
    assert type(SlurmService().executor(settings)) is kind
