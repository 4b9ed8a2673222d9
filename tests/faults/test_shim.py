"""The preloaded library sees all that a run writes, and lets exactly the chosen call fail."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.faults.disk import Chosen, read_state
from tests.faults.injection import name_fault, parse_fault
from tests.faults.scenarios import record
from tests.faults.shim import SHORT, CallClass, Fault, Shim
from tests.faults.small_run import JOBS, Effect
from tests.faults.trace import Kind, read_trace

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.no_cover]

CALLS = """
import os
os.mkdir("a")
folder = os.open("a", os.O_RDONLY)
file = os.open("x", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=folder)
os.write(file, b"one")
os.pwrite(file, b"two", 7)
os.writev(file, [b"3", b"4"])
os.fsync(file)
os.ftruncate(file, 8)
os.rename("x", "y", src_dir_fd=folder, dst_dir_fd=folder)
os.link("a/y", "z")
os.unlink("y", dir_fd=folder)
os.symlink("z", "s")
os.fsync(folder)
os.mkdir("b", dir_fd=folder)
os.rmdir("a/b")
with open("z", "ab") as stream:
    stream.write(b"five")
"""


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Shim(folder, tmp_path)


def run_python(shim: Shim, program: str, fault: Fault | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=shim.folder,
        env={**os.environ, **shim.variables(fault)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stderr


def test_each_call_is_recorded_with_its_path(shim: Shim) -> None:
    assert run_python(shim, CALLS) == ""
    steps = [
        (step.kind.name.lower(), *(path.removeprefix(f"{shim.folder}/") for path in (step.path, step.target) if path))
        for step in read_trace(shim.trace)
    ]
    assert steps == [
        ("mkdir", "a"),
        ("open", "a/x"),
        *[("write", "a/x")] * 3,
        ("sync", "a/x"),
        ("truncate", "a/x"),
        ("rename", "a/x", "a/y"),
        ("link", "a/y", "z"),
        ("unlink", "a/y"),
        ("symlink", "s", "z"),
        ("sync", "a"),
        ("mkdir", "a/b"),
        ("rmdir", "a/b"),
        ("write", "z"),
    ]
    writes = [(step.offset, step.data) for step in read_trace(shim.trace) if step.kind is Kind.WRITE]
    assert writes == [(0, b"one"), (7, b"two"), (3, b"34"), (8, b"five")]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(CallClass.WRITE, 2, errno.EIO), "[Errno 5]"),
        (Fault(CallClass.SYNC, 1, errno.ENOSPC), "[Errno 28]"),
        (Fault(CallClass.RENAME, 1, errno.EACCES), "[Errno 13]"),
        (Fault(CallClass.OPEN, 1, errno.EMFILE), "[Errno 24]"),
        (Fault(CallClass.MKDIR, 2, errno.ENOSPC), "[Errno 28]"),
        (Fault(CallClass.UNLINK, 1, errno.EIO), "[Errno 5]"),
    ],
)
def test_the_chosen_call_fails(shim: Shim, fault: Fault, error: str) -> None:
    assert error in run_python(shim, CALLS, fault)
    assert [(step.flags, step.offset) for step in read_trace(shim.trace) if step.kind is Kind.FAULT] == [
        (fault.kind, fault.error)
    ]


def test_half_a_write_is_made(shim: Shim) -> None:
    program = "import os; print(os.write(os.open('x', os.O_WRONLY | os.O_CREAT), b'12345678'))"
    assert run_python(shim, program, Fault(CallClass.WRITE, 1, SHORT)) == ""
    assert (shim.folder / "x").read_bytes() == b"1234"


@pytest.mark.parametrize(
    "start", ["os.fork()", "subprocess.run(['true'])", "os.posix_spawn('/bin/true', ['true'], {})"]
)
def test_the_start_of_a_process_fails(shim: Shim, start: str) -> None:
    # `subprocess` tries again in another way.
    fault = Fault(CallClass.SPAWN, 1, errno.EAGAIN, times=2)
    assert "[Errno 11]" in run_python(shim, f"import os, subprocess; {start}", fault)


def test_a_failure_is_read_as_it_is_written() -> None:
    for fault in (Fault(CallClass.WRITE, 7, SHORT), Fault(CallClass.SPAWN, 1, errno.EAGAIN, 3)):
        assert parse_fault(name_fault(fault)) == fault


@pytest.mark.parametrize("name", ["retries", "engine-killed"])
def test_the_records_of_a_run_make_the_folder_that_the_run_made(tmp_path: Path, name: str) -> None:
    recording = record(name, tmp_path)
    for step in recording.steps:
        recording.disk.apply(step)
    made, found = recording.disk.state(Chosen.MOST, Random(0)), read_state(recording.run.base)
    # Jobs write their logs themselves.
    different = {path for path in made.keys() | found.keys() if made.get(path, "") != found.get(path, "")}
    assert not {path for path in different if not path.startswith("work/run/logs/")}
    assert {Effect("done", job, 1) for job in JOBS if job not in "ac"} <= set(
        recording.effects_after(len(recording.steps))
    )
