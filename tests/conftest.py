"""What every test gets: an environment of its own, and the command line as a program."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.bps.tally import PROPERTY, table
from tests.bps_environment import BpsEnvironment, find_environment, is_required
from tests.command import Cli, CommandResult, CommandServer
from tests.depth import DEPTH, examples
from tests.figures import FIGURE

import longshore
from longshore.sites.inherited_environment import is_excluded

# How long an example takes says something of the machine, and nothing of what is tested. What a fixture gives is one
# for all examples of a property: a folder, most of the time. Examples are the same each time, except by night, so that
# whether a change passes depends on the change: a red CI that a second run turns green teaches to run it twice.
settings.register_profile(
    "house",
    deadline=None,
    max_examples=examples(),
    derandomize=DEPTH != "night",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("house")

_PACKAGE_PARENT = Path(longshore.__file__).resolve().parent.parent

# Collecting makes no garbage worth looking for; `pytest_collection_finish` enables it again.
gc.disable()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As after `nohup bin/test &`: commands under test would never see an interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # As after `nohup bin/test`.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

_KEPT = frozenset({"LONGSHORE_POOLS"})
"""Variables that speak to the tests, not to Longshore."""


@pytest.fixture(autouse=True)
def own_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, away from its `tmp_path`, and no variable that changes what Longshore does or says."""
    home = tmp_path_factory.mktemp("home")
    for name in os.environ:
        if (name.startswith(("LONGSHORE_", "BPS_")) and name not in _KEPT) or is_excluded(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    return home


@pytest.fixture
def retries_of_bps(own_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries as in BPS: five for all causes together, and the other budgets also where a test wants none of these.

    The tests of the defaults are those of the configuration and of the policy.
    """
    for key, value in (("NUMBER_OF_RETRIES", 5), ("ON_LOST", 1), ("ON_PREEMPTED", 20), ("ON_TRANSFER", 3)):
        monkeypatch.setenv(f"LONGSHORE_{'' if key.startswith('N') else 'RETRY_'}{key}", str(value))
    for key in ("ON_MEMORY", "ON_TIME"):
        monkeypatch.setenv(f"LONGSHORE_RETRY_{key}", "null")


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    """Runs commands without the start of an interpreter."""
    server = CommandServer(_with_package({}))
    yield server
    server.close()


def _with_package(env: Mapping[str, str]) -> dict[str, str]:
    """The environment, in which the package under test is found from any directory, however this process found it."""
    path = os.pathsep.join(filter(None, [str(_PACKAGE_PARENT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **env}


@pytest.fixture
def cli(tmp_path: Path, command_server: CommandServer) -> Cli:
    """The command line in a process of its own, started in `tmp_path` unless told otherwise."""

    def run(
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float = 120,
    ) -> CommandResult:
        words, folder, whole = [*map(str, args)], cwd or tmp_path, _with_package(env or {})
        if command_server.serves(whole, stdin):
            return command_server.run(words, cwd=folder, env=whole, stdin=stdin, timeout=timeout)
        # Variables of the interpreter, or more input than a pipe holds.
        done = subprocess.run(
            [sys.executable, "-m", "longshore", *words],
            cwd=folder,
            env=whole,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return CommandResult(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    return run


@pytest.fixture(scope="session")
def bps() -> BpsEnvironment:
    """The environment with the real BPS; a test that uses it is marked `bps`."""
    found = find_environment()
    assert found is not None, "LONGSHORE_TEST_BPS names no environment with the real BPS"
    return found


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests beside the real BPS where it is missing; each worker begins with what takes long."""
    if not is_required() and find_environment() is None:
        skip = pytest.mark.skip(reason="there is no environment with the real BPS: `bin/test --all` makes it")
        for item in items:
            if item.get_closest_marker("bps"):
                item.add_marker(skip)
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        items[:] = _dealt(items, int(workers))


_LONG_FOLDERS = frozenset({"bps", "e2e", "faults", "fuzz", "house", "services", "simulation", "two_users"})
"""Folders of tests that start processes, or search for long."""


def _group(item: pytest.Item) -> str:
    """Say what a test stays together with: those of its pool, those with LSST's packages, its folder or file, none."""
    words = " ".join([item.nodeid, *getattr(item, "fixturenames", ())])
    folder = item.path.parent
    if folder.name == "house" and item.path.name == "test_checks.py":
        return "0 checks"
    if item.get_closest_marker("live"):
        return f"1 {next((pool for pool in ('condor', 'sge') if pool in words), 'slurm')}"
    if item.get_closest_marker("lsst"):
        return "1 lsst"
    is_long = item.get_closest_marker("full") or _LONG_FOLDERS.intersection(item.path.parts)
    # These share what is made once: syntax trees of the package, an interpreter for all users.
    return f"2 {folder if folder.name in {'house', 'two_users'} else item.path}" if is_long else ""


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Order tests for workers that each begin with an equal share of the list, and then take from the ends of others.

    A share begins with the tests of a pool, so that not every worker starts every pool, goes on with long ones, and
    ends with short ones: those are left to be taken, and nobody waits for a long test at the end.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(_group(item), []).append(item)
    short = groups.pop("", [])
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for _, group in sorted(groups.items(), key=lambda pair: (pair[0][0], -len(pair[1]))):
        min(shares, key=len).extend(group)
    number = len(items)
    dealt: list[pytest.Item] = []
    for left in range(workers, 0, -1):
        # The size that xdist gives it.
        size = number // left
        share = shares[workers - left]
        room = max(0, size - len(share))
        dealt += share + short[:room]
        del short[:room]
        number -= size
    return dealt + short


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests, which live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print figures that tests measured, and what they compared with the real BPS as a table per kind."""
    reports = [report for each in terminalreporter.stats.values() for report in each]
    properties = [found for report in reports for found in getattr(report, "user_properties", ())]
    if figures := dict.fromkeys(value for name, value in properties if name == FIGURE):
        terminalreporter.section("figures")
        terminalreporter.write("\n".join([*figures, ""]))
    if lines := table(value for name, value in properties if name == PROPERTY):
        terminalreporter.section("beside the real BPS")
        terminalreporter.write("\n".join([*lines, ""]))
