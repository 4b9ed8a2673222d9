"""A program runs with all it says in a file, and its status is what a shell would give."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from longshore.world.processes.program import run_to_file


def run(tmp_path: Path, script: str, **env: str) -> int:
    return run_to_file(["/bin/sh", "-c", script], tmp_path / "out", env={"PATH": os.environ["PATH"], **env})


def test_all_it_says_is_kept_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before\n", "utf-8")
    assert run(tmp_path, "echo one; echo two >&2; echo $X; read y || echo no input", X="three") == 0
    assert (tmp_path / "out").read_text("utf-8").split("\n") == ["before", "one", "two", "three", "no input", ""]


@pytest.mark.parametrize(("script", "status"), [("exit 37", 37), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_its_status_is_what_a_shell_would_give(tmp_path: Path, script: str, status: int) -> None:
    assert run(tmp_path, script) == status


def test_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        run_to_file(["nowhere-at-all"], tmp_path / "out", env={"PATH": "/bin"})
    assert caught.value.filename == "nowhere-at-all"


@pytest.mark.parametrize("moment", ["as it starts", "as it runs"])
def test_whoever_interrupts_us_ends_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    if moment == "as it starts":

        class Slow(subprocess.Popen[bytes]):
            """Comes back from starting a program only when the program has spoken."""

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                while not (tmp_path / "spoken").exists():
                    time.sleep(0.01)
                time.sleep(0.1)

        monkeypatch.setattr(subprocess, "Popen", Slow)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    script = f"trap 'echo asked; exit' TERM; kill -USR1 {os.getpid()}; touch {tmp_path}/spoken"
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, f"{script}; while :; do sleep 0.05; done")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "asked" in (tmp_path / "out").read_text("utf-8").split()  # its shell may say more
