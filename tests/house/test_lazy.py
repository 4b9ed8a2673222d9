"""The command line starts fast: what only some commands need is imported by those."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from longshore.model import event, report, submission, workflow

SOURCE = Path(__file__).resolve().parents[2] / "python"
HEAVY = ("networkx", "jinja2", "jsonschema", "rich")

PROBE = """
import sys
from longshore.cli.start import main

try:
    main()
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


LOOKS = (*HEAVY, "yaml", "tarfile")
"""What commands that look at a run do not need; their time is measured by `tests.house.measure`, not listed here."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run of one job that succeeded."""
    folder = tmp_path_factory.mktemp("lazy")
    (folder / "script.sh").write_text("#!/bin/sh\n", "utf-8")
    (folder / "script.yaml").write_text('customJob: {executable: script.sh, arguments: ""}\n', "utf-8")
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "longshore", "submitcmd", "script.yaml", "--wait", "--json"],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["submit_dir"])


@pytest.mark.parametrize(
    "args",
    [["status", "RUN"], ["report"], ["report", "RUN"], ["stats", "RUN"], ["events", "RUN"], ["ping"]],
    ids=" ".join,
)
def test_a_look_imports_nothing_heavy(args: list[str], run: Path, tmp_path: Path) -> None:
    words = [str(run) if word == "RUN" else word for word in args]
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=LOOKS), *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:", done.stdout


def test_a_submission_imports_what_its_payload_needs(tmp_path: Path) -> None:
    task = {"name": "a", "id": "a", "parents": [], "children": [], "inputFiles": [], "outputFiles": []}
    graph = {"name": "one", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [task], "files": []}}}
    (tmp_path / "one.json").write_text(json.dumps(graph), "utf-8")
    (tmp_path / "one.yaml").write_text("wfformat: one.json\nrunQuantumCommand: 'true'\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=HEAVY), "submit", "one.yaml", "--wait"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:", done.stdout


@pytest.mark.parametrize(
    "module",
    [event, report, submission, workflow],
    ids=lambda each: str(each.__name__),
)
def test_annotations_of_decoded_records_are_no_text(module: ModuleType) -> None:
    """Msgspec evaluates text, at each start of each command."""
    found = [
        f"{name}.{field}"
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
        for field, annotation in kind.__annotations__.items()
        if isinstance(annotation, str)
    ]
    assert not found


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
