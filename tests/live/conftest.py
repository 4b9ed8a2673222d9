"""Schedulers that tests of a session share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.live.pools import SlurmPool, slurm


@pytest.fixture(scope="session")
def slurm_without_accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmPool]:
    """Slurm with nothing that remembers: no sacct, no QOS."""
    with slurm(tmp_path_factory.mktemp("slurm"), accounting=False) as pool:
        yield pool


@pytest.fixture(scope="session")
def slurm_with_accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmPool]:
    """Slurm with slurmdbd."""
    with slurm(tmp_path_factory.mktemp("slurmdbd"), accounting=True) as pool:
        yield pool


@pytest.fixture(params=[True, False], ids=["accounting", "no-accounting"])
def slurm_pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SlurmPool:
    """Slurm, once with accounting and once without."""
    name = "slurm_with_accounting" if request.param else "slurm_without_accounting"
    pool: SlurmPool = request.getfixturevalue(name)
    monkeypatch.setenv("SLURM_CONF", str(pool.conf))
    return pool
