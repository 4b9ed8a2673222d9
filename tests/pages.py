"""Turns what a page of the documentation says to type into commands that ran."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

DOC = Path(__file__).resolve().parents[1] / "doc"
_FENCE = re.compile(r"^```(\w+)?(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Fence(NamedTuple):
    """A piece of code of a page, as the page introduces it: ```` ```kind word=value ````."""

    kind: str
    word: str
    value: str
    text: str


def fences(page: Path) -> Iterator[Fence]:
    """The pieces of code of a page."""
    for found in _FENCE.finditer(page.read_text("utf-8")):
        yield Fence(*(group or "" for group in found.groups()))


def program(folder: Path) -> Path:
    """Make ``longshore`` a program in a folder of its own below `folder`; returns that folder."""
    path = folder / "bin" / "longshore"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m longshore "$@"\n', "utf-8")
    path.chmod(0o755)
    return path.parent


def typed(text: str, folder: Path, *, status: int = 0) -> None:
    """Type commands in a folder, which are to end with a status."""
    done = subprocess.run(
        ["/bin/sh", "-ec", text], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == status, f"{text}\n{done.stdout}\n{done.stderr}"


def type_page(page: Path, word: str, folder: Path, adapt: Callable[[str], str]) -> int:
    """Save each YAML file and type each command that a page marks with a word, and count the commands.

    Parameters
    ----------
    page
        The page.
    word
        The mark.
    folder
        Where.
    adapt
        Called before commands are typed; returns what is typed in their place.
    """
    number = 0
    for fence in fences(page):
        if fence.word != word:
            continue
        if fence.kind == "yaml":
            (folder / fence.value).parent.mkdir(exist_ok=True)
            (folder / fence.value).write_text(fence.text, "utf-8")
            continue
        number += 1
        typed(adapt(fence.text), folder)
    return number
