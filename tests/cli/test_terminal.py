"""What an output stream can show follows from the stream and a few variables of the environment."""

from __future__ import annotations

import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from fcntl import ioctl
from typing import TextIO

import pytest

from longshore.cli.terminal import can_redraw, has_color, is_terminal, measure_terminal

XTERM = {"TERM": "xterm-256color"}


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    """A terminal of 132 columns and 43 rows."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 43, 132, 0, 0))
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        yield stream
    os.close(ours)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (XTERM, True),
        ({}, False),
        ({"TERM": "dumb"}, False),
        (XTERM | {"NO_COLOR": "1"}, False),
        (XTERM | {"NO_COLOR": ""}, True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        (XTERM | {"FORCE_COLOR": "0"}, False),
        (XTERM | {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_a_terminal_has_colors_unless_it_or_its_user_says_no(
    env: dict[str, str], expected: bool, terminal: TextIO
) -> None:
    assert has_color(terminal, env) is expected
    assert measure_terminal(terminal, env).has_color is expected


def test_a_pipe_has_colors_only_if_they_are_forced() -> None:
    assert not has_color(io.StringIO(), XTERM)
    assert has_color(io.StringIO(), {"FORCE_COLOR": "1"})


def test_lines_are_overwritten_on_a_terminal_that_can_do_so(terminal: TextIO) -> None:
    assert can_redraw(terminal, XTERM)
    assert not can_redraw(terminal, {"TERM": "dumb"})
    assert not can_redraw(terminal, {})
    assert not can_redraw(io.StringIO(), XTERM)
    assert not is_terminal(None)


def test_the_size_is_the_present_one(terminal: TextIO) -> None:
    now = measure_terminal(terminal, {"COLUMNS": "70"})
    assert (now.width, now.height, now.has_unicode) == (132, 43, True)
    ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 10, 400, 0, 0))
    now = measure_terminal(terminal, {})
    assert (now.width, now.height) == (250, 10)
    ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    assert measure_terminal(terminal, {"COLUMNS": "70"}).width == 70
    now = measure_terminal(terminal, {"COLUMNS": "wide"})
    assert (now.width, now.height) == (80, 24)
