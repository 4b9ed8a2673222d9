"""A workload manager that does not answer for a while; by then the run is over."""

from __future__ import annotations

from pathlib import Path

from tests.written_run import WrittenRun, course

from longshore.contract.service import RunPaths, Unreachable
from longshore.runstate.open_run import OpenRun
from longshore.services.local.service import LocalService


class SilentService(LocalService):
    """It answers once it was asked so many times.

    Parameters
    ----------
    written
        The run, which ends meanwhile.
    silent
        How many questions it leaves without an answer.
    """

    def __init__(self, written: WrittenRun, silent: int) -> None:
        self._written = written
        self._silent = silent

    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        """Say nothing, and then that the run is over."""
        if self._silent:
            self._silent -= 1
            return Unreachable(why="timed out")
        for event in course()[self._written.n :]:
            self._written.write(event)
            self._written.know(event)
        return False


def silent_run(root: Path, silent: int) -> OpenRun:
    """A run of which nobody says at first whether it goes on, and that has failed when somebody does."""
    written = WrittenRun(root)
    written.begin()
    for event in course()[:3]:
        written.write(event)
        written.know(event)
    opened = OpenRun(run=written.run, card=written.opened.card)
    opened.__dict__["service"] = SilentService(written, silent)
    return opened
