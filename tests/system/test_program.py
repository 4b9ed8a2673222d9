"""A program's output in a file, its exit status, and its end when Longshore is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.system.host import process_start_s
from longshore.system.programs import run_to_file


def run(tmp_path: Path, script: str, **env: str) -> int:
    return run_to_file(["/bin/sh", "-c", script], tmp_path / "out", env={"PATH": os.environ["PATH"], **env})


def test_output_and_errors_are_appended_in_order(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before\n", "utf-8")
    assert run(tmp_path, "echo one; echo two >&2; echo $X; read y || echo no input", X="three") == 0
    assert (tmp_path / "out").read_text("utf-8").split("\n") == ["before", "one", "two", "three", "no input", ""]


@pytest.mark.parametrize(("script", "status"), [("exit 37", 37), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_exit_status_is_as_a_shell_gives_it(tmp_path: Path, script: str, status: int) -> None:
    assert run(tmp_path, script) == status


def test_missing_program_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        run_to_file(["nowhere-at-all"], tmp_path / "out", env={"PATH": "/bin"})
    assert caught.value.filename == "nowhere-at-all"


@pytest.fixture
def interrupt_on_usr1() -> Iterator[None]:
    """Let SIGUSR1 interrupt this process as Ctrl-C would."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interrupt_on_usr1")
@pytest.mark.parametrize("moment", ["as it starts", "as it runs"])
def test_an_interrupt_ends_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    if moment == "as it starts":

        class SlowPopen(subprocess.Popen[bytes]):
            """Returns only after the program has written its file."""

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                while not (tmp_path / "written").exists():
                    time.sleep(0.01)
                time.sleep(0.1)

        monkeypatch.setattr(subprocess, "Popen", SlowPopen)
    script = f"trap 'echo asked; exit' TERM; kill -USR1 {os.getpid()}; touch {tmp_path}/written"
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, f"{script}; while :; do sleep 0.05; done")
    assert "asked" in (tmp_path / "out").read_text("utf-8").split()  # its shell may say more


@pytest.mark.usefixtures("interrupt_on_usr1")
def test_a_second_interrupt_kills_a_program_that_ignores_the_first(tmp_path: Path) -> None:
    # The program answers each request to end by another interrupt, and goes on.
    script = f"echo $$; trap 'kill -USR1 {os.getpid()}' TERM; kill -USR1 {os.getpid()}; while :; do sleep 0.05; done"
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, script)
    assert time.monotonic() - began < 8.0, "the grace period is 10 s"
    assert process_start_s(int((tmp_path / "out").read_text("utf-8").split()[0])) is None
