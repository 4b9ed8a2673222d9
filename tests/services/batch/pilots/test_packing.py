"""Which jobs run in pilots, and what is said of those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from longshore.model.tasks import Scalar
from longshore.model.workflow import MIB, Request
from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.packing import PackingRule, is_wanted

PILOT = PilotSettings(cpus=4, memory_b=8000 * MIB, walltime_s=3600.0)
SITE = {"config": "/etc/slurm.conf", "features": ["fast"]}
RULE = PackingRule(pilot=PILOT, settings=SITE, attributes={"queue": "long"})
WANTED: Mapping[str, Scalar] = {"packing": "pilot"}


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request(cpus=4, memory_b=8000 * MIB, walltime_s=3540.0), ""),
        (Request(resources={"gpus": 0}), ""),
        (Request(cpus=5), "5 processors are more than a pilot's 4"),
        (Request(memory_b=8001 * MIB), "8001 MiB of memory are more than a pilot's 8000"),
        (Request(walltime_s=3541.0), "3541 s of run time are more than the 3540 s that a pilot has for jobs"),
        (Request(disk_b=1), "pilots do not count disk"),
        (Request(resources={"gpus": 1}), "pilots have no 'gpus'"),
    ],
)
def test_a_request_that_fits_runs_in_a_pilot(request_: Request, why: str) -> None:
    assert RULE.obstacle(WANTED, {}, request_) == why
    assert RULE.packs(WANTED, {}, request_) is not bool(why)


@pytest.mark.parametrize(
    ("attributes", "settings", "why"),
    [
        ({"queue": "long"}, SITE, ""),
        ({}, {**SITE, "container": "apptainer exec i.sif"}, ""),
        ({}, {"reserv": None, "directives": []}, ""),
        ({"queue": "short"}, {}, "'queue' is not that of the pilots"),
        ({"accountingGroup": "other"}, {}, "'accountingGroup' is not that of the pilots"),
        ({}, {**SITE, "features": ["slow"]}, "'features' is not that of the pilots"),
        ({}, {**SITE, "features": None}, "'features' is not that of the pilots"),
        ({}, {"directives": ["--exclusive"]}, "'directives' is not that of the pilots"),
        ({}, {**SITE, "launcher": "srun"}, "a launcher starts their commands"),
    ],
)
def test_jobs_with_other_terms_are_jobs_of_their_own(
    attributes: Mapping[str, Scalar], settings: Mapping[str, Any], why: str
) -> None:
    assert RULE.obstacle({**WANTED, **attributes}, settings, Request()) == why


@pytest.mark.parametrize("attributes", [{}, {"packing": "job"}, {"packing": True}])
def test_only_jobs_that_want_it_run_in_pilots(attributes: Mapping[str, Scalar]) -> None:
    assert not is_wanted(attributes)
    assert not RULE.packs(attributes, {}, Request())
