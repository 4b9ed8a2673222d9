"""All who judge a run before it is submitted come to one verdict, with one exit status per kind of fault."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.plan.judges import FAULTS, Fault, join, judge_all, write_programs
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


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(fault=st.sampled_from(PAIRS))
def test_of_two_faults_what_must_be_mended_first_counts(fault: Fault, tmp_path: Path) -> None:
    assert set(judge_all(tmp_path, fault.profile).values()) == {fault.status}
