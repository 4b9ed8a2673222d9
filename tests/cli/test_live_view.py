"""The live view draws each frame over the one before, also after its user changed the size of the terminal."""

from __future__ import annotations

import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.written_run import NOW, WrittenRun, course

from longshore.cli.watch import FrameWriter, LiveView
from longshore.model.report import RunReport, RunSummary
from longshore.model.states import JobState
from longshore.reports.report import ReportBuilder

_SEQUENCE = re.compile(r"\x1b\[(\d*)([AKm])|(\r?\n)|([^\x1b\r\n])")


class Screen:
    """A terminal and what it shows: it obeys what moves its cursor up and erases a line, and wraps long lines."""

    def __init__(self, width: int) -> None:
        self._ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w", encoding="utf-8")
        self.rows = [""]
        self._row = 0
        self.width = width
        self.resize(width)

    def resize(self, width: int) -> None:
        """Change the width; lines that become too long are wrapped."""
        ioctl(self.stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        wrapped = [[row[at : at + width] for at in range(0, max(len(row), 1), width)] for row in self.rows]
        self._row = sum(map(len, wrapped[: self._row]))
        self.rows = [row for rows in wrapped for row in rows]
        self.width = width

    def update(self) -> list[str]:
        """Read what was written, and return the rows that are shown."""
        self.stream.flush()
        text = b""
        os.set_blocking(self._ours, False)
        while True:
            try:
                text += os.read(self._ours, 65536)
            except BlockingIOError:
                break
        for number, letter, line_feed, character in _SEQUENCE.findall(text.decode()):
            self._obey(number, letter, line_feed, character)
        return [row.rstrip() for row in self.rows]

    def _obey(self, number: str, letter: str, line_feed: str, character: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - int(number or 1))
        elif letter == "K":
            self.rows[self._row] = ""
        elif line_feed:
            self._row += 1
            self.rows += [""] * (self._row + 1 - len(self.rows))
        else:
            self.rows[self._row] += character

    def close(self) -> None:
        self.stream.close()
        os.close(self._ours)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(80)
    yield screen
    screen.close()


def report(done: int, *, notes: tuple[str, ...] = ()) -> RunReport:
    counts = {JobState.SUCCEEDED: done, JobState.RUNNING: 4 - done}
    return RunReport(
        id="k7f3aa",
        name="u_ada_a_name_that_is_longer_than_half_of_the_terminal",
        path="/data",
        service="local",
        state=JobState.RUNNING,
        expected=4,
        counts=counts,
        labels={"observe": counts},
        expected_labels={"observe": 4},
        notes=notes,
    )


def test_a_frame_takes_the_place_of_the_one_before(screen: Screen) -> None:
    writer = FrameWriter(screen.stream)
    print("Submit dir: /data", file=screen.stream)
    writer.draw(report(1, notes=("a note that is gone in the next frame",)), NOW)
    assert "k7f3aa RUNNING  1 of 4 jobs succeeded" in screen.update()[1]
    writer.draw(report(3), NOW)
    rows = screen.update()
    assert rows[0] == "Submit dir: /data"
    assert "k7f3aa RUNNING  3 of 4 jobs succeeded" in rows[1]
    assert "1 of 4" not in "\n".join(rows)
    assert "a note" not in "\n".join(rows)


def test_a_terminal_that_became_narrower_has_no_remains(screen: Screen) -> None:
    writer = FrameWriter(screen.stream)
    print("Submit dir: /data", file=screen.stream)
    for width in (80, 40, 61, 47, 120):
        screen.update()
        screen.resize(width)
        writer.draw(report(2), NOW)
        rows = screen.update()
        assert rows[0] == "Submit dir: /data"
        assert sum("k7f3aa" in row for row in rows) == 1
        assert sum("LABEL" in row for row in rows) == 1
        assert max(map(len, rows)) <= width


def test_the_last_frame_stays_and_offers_no_key(tmp_path: Path, screen: Screen) -> None:
    written = WrittenRun(tmp_path / "run")
    written.begin()
    for event in course():
        written.write(event)
        written.know(event)
    written.snapshot()
    with LiveView(screen.stream, ReportBuilder(written.opened)):
        pass
    rows = screen.update()
    assert "k7f3aa FAILED  4 of 6 jobs succeeded" in rows[0]
    assert any(row.split()[:1] == ["j2"] and "exit code 4" in row for row in rows), "the last failure"
    assert not any("Ctrl-C" in row for row in rows)


def test_a_report_that_has_a_summary_is_drawn_as_it_is(tmp_path: Path, screen: Screen) -> None:
    written = WrittenRun(tmp_path / "run")
    written.begin()
    LiveView(screen.stream, ReportBuilder(written.opened)).show(
        replace(report(3), summary=RunSummary(elapsed_s=7200.0))
    )
    rows = screen.update()
    assert "3 of 4 jobs succeeded" in rows[0]
    assert rows[2] == "Elapsed 2 h 0 min"


def test_an_interrupted_view_leaves_its_frame(tmp_path: Path, screen: Screen) -> None:
    written = WrittenRun(tmp_path / "run")
    written.begin()

    def watch() -> None:
        with LiveView(screen.stream, ReportBuilder(written.opened)) as view:
            view.show(report(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch()
    rows = screen.update()
    assert sum("k7f3aa" in row for row in rows) == 1
    assert "Ctrl-C stops the watching, not the run." in rows
