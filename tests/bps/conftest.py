"""The real BPS in a process that serves all tests of a worker, and the count of what was compared."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator

import pytest
from tests.bps.beside import Beside, RealBps
from tests.bps.tally import PROPERTY, Tally
from tests.bps_environment import BpsEnvironment


@pytest.fixture(scope="session")
def beside(bps: BpsEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """The real BPS and Longshore, for cases."""
    with warnings.catch_warnings():
        # Astropy misses the folders of a home that is new.
        warnings.simplefilter("ignore")
        importlib.import_module("lsst.pipe.base.quantum_graph")
    root = tmp_path_factory.mktemp("beside")
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    # A graph takes a second or two, and one serves all workers of a session.
    graphs = tmp_path_factory.getbasetemp().parent / f"graphs-{session}" if session else root / "graphs"
    graphs.mkdir(exist_ok=True)
    real = RealBps(bps, root / "bps.log")
    yield Beside(real, root, graphs)
    real.close()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """What a test compared; the summary of all tests has the sums."""
    tally = Tally()
    yield tally
    request.node.user_properties.append((PROPERTY, tally.counts()))
