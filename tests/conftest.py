"""What every test gets: an environment of its own, and the command line as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.command import Cli, CommandResult

import longshore
from longshore.sites.environment import is_left_out

# How long an example takes says something of the machine, and nothing of what is tested.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

_PACKAGE_PARENT = Path(longshore.__file__).resolve().parent.parent

_KEPT = frozenset({"LONGSHORE_POOLS"})
"""Variables that speak to the tests, not to Longshore."""


@pytest.fixture(autouse=True)
def own_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, away from its `tmp_path`, and no variable that changes what Longshore does or says."""
    home = tmp_path_factory.mktemp("home")
    for name in os.environ:
        if (name.startswith(("LONGSHORE_", "BPS_")) and name not in _KEPT) or is_left_out(name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    return home


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command line in a process of its own, started in `tmp_path` unless told otherwise."""

    def run(
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float = 120,
    ) -> CommandResult:
        # The package under test is found from any directory, however this process found it.
        path = os.pathsep.join(filter(None, [str(_PACKAGE_PARENT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-m", "longshore", *map(str, args)],
            cwd=cwd or tmp_path,
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return CommandResult(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say above the last line what failed before the tests, where ``bin/test`` ran them."""
    if failed := os.environ.get("BIN_TEST_FAILED"):
        terminalreporter.write_line(f"bin/test: failed before the tests: {failed}", red=True)
