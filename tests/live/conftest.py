"""Schedulers that the tests of a session share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.condor_pools import CondorPool, condor
from tests.live.condor_runs import CondorSite
from tests.live.pools import SlurmPool, slurm
from tests.live.runs import DIALECT_SITES, DialectSite, SlurmSite
from tests.live.sge_pools import SgePool, SgeSite, sge, sge_of_two_hosts
from tests.services.lsf.lsf_fixtures import lsf_programs, lsf_site

from longshore.contract.service import RunPaths
from longshore.rundir.liveness import kill_local_engine

__all__ = ["lsf_programs", "lsf_site"]


@pytest.fixture(autouse=True)
def _retries(retries_of_bps: None) -> None:
    """Most tests say how often they retry by ``numberOfRetries`` alone."""


@pytest.fixture(scope="session")
def slurm_without_accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmPool]:
    """Slurm without accounting: no sacct, no QOS."""
    with slurm(tmp_path_factory.mktemp("slurm"), accounting=False) as pool:
        yield pool


@pytest.fixture(scope="session")
def slurm_with_accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmPool]:
    """Slurm with slurmdbd."""
    with slurm(tmp_path_factory.mktemp("slurmdbd"), accounting=True) as pool:
        yield pool


@pytest.fixture(scope="session")
def condor_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CondorPool]:
    """An HTCondor pool."""
    with condor(tmp_path_factory.mktemp("condor")) as pool:
        yield pool


@pytest.fixture
def condor_pool(condor_session: CondorPool, monkeypatch: pytest.MonkeyPatch) -> CondorPool:
    """An HTCondor pool in the environment of this process and its children."""
    monkeypatch.setenv("CONDOR_CONFIG", str(condor_session.config))
    monkeypatch.setenv("PATH", condor_session.path)
    return condor_session


@pytest.fixture
def condor_site(condor_pool: CondorPool, cli: Cli, tmp_path: Path) -> Iterator[CondorSite]:
    """A user's command line beside an HTCondor pool."""
    yield CondorSite(cli=cli, pool=condor_pool, folder=tmp_path)
    # What a test left, because it failed or because that was its point, must not be in the way of the next.
    condor_pool.run("condor_rm", "-all", check=False)


@pytest.fixture(params=[True, False], ids=["accounting", "no-accounting"])
def slurm_pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SlurmPool:
    """Slurm, once with accounting and once without."""
    name = "slurm_with_accounting" if request.param else "slurm_without_accounting"
    pool: SlurmPool = request.getfixturevalue(name)
    monkeypatch.setenv("SLURM_CONF", str(pool.conf))
    return pool


@pytest.fixture
def slurm_site(slurm_pool: SlurmPool, cli: Cli, tmp_path: Path, own_environment: Path) -> Iterator[SlurmSite]:
    """A site ``cluster``, on both kinds of cluster."""
    yield from _site(slurm_pool, cli, tmp_path, own_environment)


@pytest.fixture
def bare_site(
    slurm_without_accounting: SlurmPool, cli: Cli, tmp_path: Path, own_environment: Path
) -> Iterator[SlurmSite]:
    """A site ``cluster`` without accounting."""
    yield from _site(slurm_without_accounting, cli, tmp_path, own_environment)


@pytest.fixture
def kept_site(slurm_with_accounting: SlurmPool, cli: Cli, tmp_path: Path, own_environment: Path) -> Iterator[SlurmSite]:
    """A site ``cluster`` with accounting."""
    yield from _site(slurm_with_accounting, cli, tmp_path, own_environment)


@pytest.fixture(params=DIALECT_SITES.values(), ids=list(DIALECT_SITES))
def dialect_site(request: pytest.FixtureRequest) -> DialectSite:
    """A user's site on each kind of pool of each dialect in turn."""
    found: DialectSite = request.getfixturevalue(request.param)
    return found


def _site(pool: SlurmPool, cli: Cli, folder: Path, home: Path) -> Iterator[SlurmSite]:
    site = SlurmSite(
        cli=cli, pool=pool, folder=folder, profile=home / ".config" / "longshore" / "sites" / "cluster.yaml"
    )
    site.describe()
    yield site
    # What a test left, because it failed or because that was its point, must not be in the way of the next.
    for card in folder.glob("**/run.json"):
        kill_local_engine(RunPaths(card.parent))
    pool.run("scancel", "--quiet", "--user=root", check=False)


@pytest.fixture(scope="session")
def sge_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SgePool]:
    """A Grid Engine."""
    with sge(tmp_path_factory.mktemp("sge")) as pool:
        yield pool


@pytest.fixture
def sge_pool(sge_session: SgePool, monkeypatch: pytest.MonkeyPatch) -> SgePool:
    """A Grid Engine whose ports this process and its children know."""
    for name, value in sge_session.variables.items():
        monkeypatch.setenv(name, value)
    return sge_session


@pytest.fixture(scope="session")
def sge_nodes_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SgePool]:
    """A Grid Engine of two hosts."""
    with sge_of_two_hosts(tmp_path_factory.mktemp("sge-nodes")) as pool:
        yield pool


@pytest.fixture
def sge_nodes_site(
    sge_nodes_session: SgePool, cli: Cli, tmp_path: Path, own_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SgeSite]:
    """A site ``cluster`` on a Grid Engine of two hosts."""
    for name, value in sge_nodes_session.variables.items():
        monkeypatch.setenv(name, value)
    for site in _sge_site(sge_nodes_session, cli, tmp_path, own_environment):
        site.describe(own="nodesEnvironment: nodes2")
        yield site


@pytest.fixture
def sge_site(sge_pool: SgePool, cli: Cli, tmp_path: Path, own_environment: Path) -> Iterator[SgeSite]:
    """A site ``cluster`` on Grid Engine."""
    yield from _sge_site(sge_pool, cli, tmp_path, own_environment)


def _sge_site(pool: SgePool, cli: Cli, folder: Path, home: Path) -> Iterator[SgeSite]:
    site = SgeSite(cli=cli, pool=pool, folder=folder, profile=home / ".config/longshore/sites/cluster.yaml")
    site.describe()
    yield site
    # What a test left, because it failed or because that was its point, must not be in the way of the next.
    for card in folder.glob("**/run.json"):
        kill_local_engine(RunPaths(card.parent))
    pool.run("qdel", "-f", "-u", "*", check=False)
