"""Live view of a run on a terminal: each frame is drawn over the one before, and the last one stays."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO

from longshore.cli.run_progress import RunProgress
from longshore.cli.show.run_screen import frame_lines
from longshore.cli.terminal import can_redraw, measure_terminal
from longshore.reports.styled import line_text, plain, width_of

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun
    from longshore.model.report import RunReport
    from longshore.reports.report import ReportBuilder

_INTERVAL_S: Final = 0.5
"""Shortest time between two frames."""
_PAUSE_RATIO: Final = 9.0
"""Time to the next frame in multiples of the time that one took: a large run leaves the processor to its jobs."""


class RunView(Protocol):
    """What shows a run while a command waits for it; `uses_summary` says whether of the summary, too."""

    uses_summary: bool

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, report: RunReport) -> None:
        """Show the newest report."""


def view_run(opened: OpenRun) -> RunView:
    """Return the live view on a terminal, and lines of news elsewhere; both write to standard error."""
    from longshore.reports.report import ReportBuilder

    builder = ReportBuilder(opened)
    return LiveView(sys.stderr, builder) if can_redraw(sys.stderr) else RunProgress(builder)


class FrameWriter:
    """Draws frames on a terminal whose user may change its size between two of them."""

    def __init__(self, stream: TextIO) -> None:
        # Imported here: slow to import, and only live views need it.
        from rich.console import Console

        self._stream = stream
        self._console = Console(file=stream, force_terminal=True, color_system=None, highlight=False, emoji=False)
        self._widths: list[int] = []
        """Width of each line of the newest frame."""

    def draw(self, report: RunReport, now: float, *, is_last: bool = False) -> None:
        """Draw a frame over the one before."""
        from rich.control import Control
        from rich.segment import ControlType

        terminal = measure_terminal(self._stream)
        lines = frame_lines(report, terminal, now=now, is_last=is_last)
        # A terminal that became narrower has wrapped the lines of the frame before.
        rows = sum(max(1, -(-width // terminal.width)) for width in self._widths)
        with self._console:
            for _ in range(min(rows, terminal.height - 1)):
                self._console.control(Control((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)))
            for line in lines:
                self._console.out(line_text(line, color=terminal.has_color), highlight=False)
        self._widths = [width_of(plain(line)) for line in lines]


class LiveView:
    """Live view of a run whose end the caller waits for."""

    uses_summary = True

    def __init__(self, stream: TextIO, builder: ReportBuilder) -> None:
        self._writer = FrameWriter(stream)
        self._builder = builder
        self._next_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            now = time.time()
            self._writer.draw(self._builder.build(now), now, is_last=True)

    def show(self, report: RunReport) -> None:
        """Draw a frame if it is time for one."""
        if time.monotonic() < self._next_at:
            return
        now = time.time()
        # A brief report has no summary; one from a workload manager's events has, and is slow to make.
        self._writer.draw(report if report.summary else self._builder.build(now), now)
        took = time.time() - now
        self._next_at = time.monotonic() + max(_INTERVAL_S, _PAUSE_RATIO * took)
