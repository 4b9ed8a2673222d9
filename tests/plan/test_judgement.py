"""All who judge a run before it is submitted come to one verdict, with one exit status per kind of fault."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.plan.judges import CONFIGURATION, FAULTS, REQUEST, SERVICE, Fault, join, judge_all, write_programs
from tests.services.slurm.recorded import ANSWERS

ENFORCED = f"{ANSWERS['scontrol show config']}AccountingStorageEnforce = associations,limits,qos\n"
PAIRS = [found for pair in combinations(FAULTS.values(), 2) if (found := join(*pair)) is not None]


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, own_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm whose answers were recorded."""
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setenv("PATH", write_programs(tmp_path / "bin", {**ANSWERS, "scontrol show config": ENFORCED}))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_all_judge_a_profile_alike(fault: Fault, tmp_path: Path) -> None:
    assert judge_all(tmp_path, fault.profile) == dict.fromkeys(
        ("ping", "site check", "config lint --probe", "submit"), fault.status
    )


OTHERS: Final = {
    "this machine": ({"service": "local"}, 0),
    "too much memory": ({"service": "local", "requestMemory": "900 TiB"}, REQUEST),
    "too many processors": ({"service": "local", "requestCpus": 100_000}, REQUEST),
    "a resource without an amount": ({"service": "local", "requestResources": {"tape": 1}}, REQUEST),
    "a wrong value": ({"service": "local", "umask": "9z"}, CONFIGURATION),
    "no configuration of HTCondor": ({"service": "htcondor"}, SERVICE),
    "no programs of LSF": ({"service": "lsf"}, SERVICE),
    "no such service": ({"service": "slrum"}, SERVICE),
    "a service that cannot be imported": ({"service": "no_such_package.Service"}, SERVICE),
    "a disabled site": ({"service": "local", "disabled": "moved"}, CONFIGURATION),
}


@pytest.mark.parametrize(("profile", "status"), OTHERS.values(), ids=OTHERS.keys())
def test_all_judge_other_services_alike(
    profile: dict[str, Any], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONDOR_CONFIG", raising=False)
    assert set(judge_all(tmp_path, profile).values()) == {status}


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(fault=st.sampled_from(PAIRS))
def test_of_two_faults_what_must_be_mended_first_counts(fault: Fault, tmp_path: Path) -> None:
    assert set(judge_all(tmp_path, fault.profile).values()) == {fault.status}
