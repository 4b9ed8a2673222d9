"""An interruption while the program starts: one line, status 130, and never a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from longshore.cli.interrupts import delay_interrupts, deliver_interrupts

LINE = "longshore: interrupted: the command had not begun"

PROGRAM = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *others):
        if name == {module!r}:
            for _ in range({times}):
                os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from longshore.cli.start import main
main()
"""


def interrupted(module: str, *args: str, times: int = 1, at: Path) -> subprocess.CompletedProcess[str]:
    """Run the program, which interrupts itself when it is about to import a module."""
    command = [sys.executable, "-c", PROGRAM.format(module=module, times=times), *args]
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["longshore.cli.main", "click", "longshore.cli.report", "longshore.cli.options"])
def test_an_interrupt_during_imports_prints_one_line(module: str, tmp_path: Path) -> None:
    done = interrupted(module, "report", at=tmp_path)
    assert (done.stderr.strip(), done.stdout, done.returncode) == (LINE, "", 130)


def test_an_interrupt_during_imports_is_a_document_for_programs(tmp_path: Path) -> None:
    done = interrupted("click", "report", "--json", at=tmp_path)
    assert json.loads(done.stdout)["error"]["code"] == "interrupted"
    assert (done.stderr.strip(), done.returncode) == (LINE, 130)


def test_an_interrupt_before_the_first_import(tmp_path: Path) -> None:
    done = interrupted("longshore.cli.interrupts", "report", at=tmp_path)
    assert (done.stderr, done.stdout, done.returncode) == ("longshore: interrupted\n", "", 130)


def test_a_second_interrupt_does_not_wait_for_imports(tmp_path: Path) -> None:
    done = interrupted("click", "report", times=2, at=tmp_path)
    assert (done.stderr, done.stdout, done.returncode) == ("longshore: interrupted\n", "", 130)


def test_an_interrupt_while_an_error_is_reported(tmp_path: Path) -> None:
    done = interrupted("longshore.cli.error_text", "status", "missing-run", at=tmp_path)
    assert (done.stderr, done.stdout, done.returncode) == ("longshore: interrupted\n", "", 130)


def test_a_caller_that_ignores_interrupts_is_obeyed() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        delay_interrupts()
        deliver_interrupts()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


UNWINDING = """
import multiprocessing, os, signal, sys, time
from longshore.cli.interrupts import end_as_terminated, termination_status, unwind_at_termination
unwind_at_termination()
"""


def test_a_worker_that_is_forked_ends_by_a_termination() -> None:
    code = UNWINDING + (
        "there, here = os.pipe()\n"
        "def work():\n    os.write(here, b'+')\n    time.sleep(600)\n"
        "worker = multiprocessing.get_context('fork').Process(target=work)\n"
        "worker.start()\nos.read(there, 1)\nworker.terminate()\nworker.join()\n"
        "print(worker.exitcode, termination_status())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == ("-15 0\n", "")


def test_a_termination_that_was_caught_does_not_hide_a_later_one() -> None:
    code = UNWINDING + (
        "for number in (signal.SIGTERM, signal.SIGHUP):\n"
        "    try:\n"
        "        os.kill(os.getpid(), number)\n"
        "        os.kill(os.getpid(), signal.SIGHUP)\n"
        "        time.sleep(600)\n"
        "    except KeyboardInterrupt:\n"
        "        print(termination_status(), flush=True)\n"
        "    time.sleep(0.4)\n"
        "end_as_terminated()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("143\n129\n", "", -signal.SIGHUP)
