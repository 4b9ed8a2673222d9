"""The command line starts fast: what only some commands need is imported by those."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "python"
HEAVY = ("networkx", "jinja2", "jsonschema", "rich")

PROBE = """
import sys
from longshore.cli.main import main

try:
    main(sys.argv[1:])
except SystemExit as stop:
    status = stop.code or 0
else:
    status = 0
print("loaded:", *sorted(sys.modules.keys() & set({heavy!r})))
sys.exit(status)
"""


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["--version"],
        ["submit", "--help"],
        ["status", "--help"],
        ["report", "--help"],
        ["report", "--bps"],
        ["explain", "--help"],
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(args: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=HEAVY), *args],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_completion_of_keys_imports_nothing_heavy(tmp_path: Path) -> None:
    line = {"_LONGSHORE_COMPLETE": "bash_complete", "COMP_LINE": "longshore submit run.yaml --set slurm.q"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=HEAVY)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **line},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "plain,slurm.qos=" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_the_probe_sees_what_is_loaded(tmp_path: Path) -> None:
    """The test above would pass for ever if the probe were blind."""
    code = "import networkx" + PROBE.format(heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "networkx" in done.stdout.splitlines()[-1]
