"""All who judge a run before it is submitted come to one verdict beside a real Slurm."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from tests.live.pools import SlurmPool
from tests.plan.judges import FAULTS, join, judge_all

pytestmark = pytest.mark.live

_PAIRS = 20
"""Pairs of faults that are tried, beside each fault alone."""


def test_all_judge_profiles_alike(
    slurm_with_accounting: SlurmPool, tmp_path: Path, own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm_with_accounting.conf))
    pairs = [found for pair in combinations(FAULTS.values(), 2) if (found := join(*pair)) is not None]
    wrong = {}
    for fault in (*FAULTS.values(), *Random(0).sample(pairs, _PAIRS)):
        judged = judge_all(tmp_path, fault.profile)
        if set(judged.values()) != {fault.status}:
            wrong[str(fault.profile)] = (fault.status, judged)
    assert wrong == {}


def test_without_a_default_partition_all_refuse_a_job_that_names_none(
    slurm_with_accounting: SlurmPool, tmp_path: Path, own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = slurm_with_accounting
    monkeypatch.setenv("SLURM_CONF", str(pool.conf))
    pool.run("scontrol", "update", "PartitionName=main", "Default=NO")
    try:
        assert set(judge_all(tmp_path, {}).values()) == {7}
        assert set(judge_all(tmp_path, {"queue": "main"}).values()) == {0}
    finally:
        pool.run("scontrol", "update", "PartitionName=main", "Default=YES")
