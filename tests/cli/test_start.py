"""The process of the program starts with few modules, and ends at once, without loss of what is left to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "python"

LATER = """
import atexit, threading

def work():
    threading.main_thread().join()
    atexit.register(print, "registered later")
    print("thread")

threading.Thread(target=work).start()
"""
LAST_LINES = """
import sys
sys.path.insert(0, {source!r})
sys.argv = ["longshore", *{words!r}]
from longshore.cli.start import run_program
run_program()
"""


def run_code(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run code, and then the program with arguments, in a new process."""
    whole = code + LAST_LINES.format(source=str(SOURCE), words=words)
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("words", "status"), [(["--version"], 0), (["no-command"], 2)])
def test_threads_and_functions_at_exit_are_awaited(words: list[str], status: int) -> None:
    done = run_code(LATER, *words)
    assert done.returncode == status, done.stderr
    assert done.stdout.splitlines()[-2:] == ["thread", "registered later"]


def test_functions_registered_before_the_program_are_called() -> None:
    done = run_code("import atexit\natexit.register(print, 'registered before')\n", "no-command")
    assert done.returncode == 2
    assert done.stdout == "registered before\n"
    assert "there is no command" in done.stderr


def test_the_end_skips_the_clearing_of_modules() -> None:
    code = "class Last:\n    def __del__(self): print('cleared')\nlast = Last()\n"
    assert "cleared" not in run_code(code, "--version").stdout
    assert "cleared" in run_code("import atexit\natexit.register(int)\n" + code, "--version").stdout


def test_code_of_users_and_plug_ins_ends_as_python_ends(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("notes = open('notes', 'w')\nnotes.write('kept')\n", "utf-8")
    code = (
        f"import os, sys\nsys.path[:0] = [{str(SOURCE)!r}, {str(tmp_path)!r}]\nos.chdir({str(tmp_path)!r})\n"
        "from longshore.config.plugins import Plugin\nPlugin('a', 'theirs', 'notes').load()\n"
    )
    assert run_code(code, "--version").returncode == 0
    assert (tmp_path / "notes").read_text("utf-8") == "kept"


STAND_INS = """
import sys

sys.path.insert(0, {source!r})
from longshore.cli.light_imports import import_libraries

import_libraries()
absent = {{"ast", "gettext", "inspect", "ipaddress", "locale", "ntpath", "platform", "textwrap", "traceback"}}
assert not absent & set(sys.modules)
import click.core, logging, pathlib, uuid

texts = ["", " one\\tline ", "two\\n    lines\\n", "\\n\\n  indented\\n    more\\n\\n"]
cleaned = [click.core.inspect.cleandoc(text) for text in texts]
system = uuid.platform.system() if hasattr(uuid, "platform") else ""  # not in every version of Python
assert click.core.inspect.isfunction(click.core.inspect.signature)
assert logging.traceback.format_exception_only(ValueError("why")) == ["ValueError: why\\n"]
assert pathlib.Path("/a b").as_uri() == "file:///a%20b"
assert [click.core._("text"), *(click.core.ngettext("one", "many", number) for number in (0, 1, 2))] == [
    "text", "many", "one", "many"
]
assert not hasattr(click.core.inspect, "no_such_name")

import inspect, platform, traceback

assert cleaned == [inspect.cleandoc(text) for text in texts], cleaned
assert system in ("", platform.system())
assert click.core.inspect.signature is inspect.signature
assert inspect is not click.core.inspect
assert traceback.format_exc is logging.traceback.format_exc
print("done")
"""


def test_libraries_find_the_modules_that_were_postponed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STAND_INS.format(source=str(SOURCE))], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr
