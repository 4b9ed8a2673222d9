"""Detaching: a session of its own, and a scope of systemd's where that outlives a logout."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from longshore.system.detached import choose_detach_method, start_detached

SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is the whole PATH but for the system's own."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "sleep"):
        (folder / name).symlink_to(Path("/bin") / name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    (folder / name).chmod(0o755)


def test_without_systemd_it_is_a_session(programs: Path) -> None:
    how = choose_detach_method()
    assert how.prefix == ()
    assert "survives the terminal" in how.description


@pytest.mark.parametrize("answer", ["echo no", "echo yes; exit 1", "exit 1", "echo", "exec sleep 30"])
def test_a_user_who_does_not_linger_gets_a_session(
    programs: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.system.detached._SYSTEMD_TIMEOUT_S", 0.3)
    program(programs, "loginctl", answer)
    program(programs, "systemd-run", "exit 1")
    assert choose_detach_method().prefix == ()


def test_a_user_who_lingers_gets_a_scope(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs, "loginctl", "echo yes")
    program(programs, "systemd-run", "exit 1")
    how = choose_detach_method()
    assert how.prefix == SCOPE
    assert "survives logging out" in how.description
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert choose_detach_method().prefix == ()


def test_a_loginctl_that_cannot_be_executed_is_none(programs: Path) -> None:
    (programs / "loginctl").write_text("no program\n", "utf-8")
    (programs / "loginctl").chmod(0o755)
    program(programs, "systemd-run", "exit 1")
    assert choose_detach_method().prefix == ()


def test_a_detached_process_has_a_session_and_a_log_and_no_input(tmp_path: Path, programs: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("before\n", "utf-8")
    line = 'read x; echo "read $?"; echo "at $(pwd)" $A >&2; sleep 0.2'
    process, how = start_detached(["sh", "-c", line], log=log, variables={"A": "given"})
    assert how.prefix == ()
    assert os.getsid(process.pid) == process.pid
    assert process.wait(120) == 0
    assert log.read_text("utf-8") == f"before\nread 1\nat {tmp_path} given\n"


def test_a_scope_runs_the_command_with_its_words(tmp_path: Path, programs: Path) -> None:
    program(programs, "loginctl", "echo yes")
    program(programs, "systemd-run", 'echo "$*"; while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    log = tmp_path / "engine.log"
    process, how = start_detached(["sh", "-c", 'echo "$1"', "sh", "a  b"], log=log)
    assert how.prefix == SCOPE
    assert process.wait(120) == 0
    assert log.read_text("utf-8").splitlines()[-1] == "a  b"


def test_a_missing_program_raises_an_error(tmp_path: Path, programs: Path) -> None:
    with pytest.raises(FileNotFoundError):
        start_detached(["no-such-program"], log=tmp_path / "engine.log")
    with pytest.raises(OSError, match="nowhere"):
        start_detached(["sh"], log=tmp_path / "nowhere" / "engine.log")
    time.sleep(0)
