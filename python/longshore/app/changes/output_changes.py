"""Tells whether outputs of an earlier run are still as their jobs left them, by the recorded size and time."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from longshore.model.event import Ended, Event, FileStamp

Stamps: TypeAlias = dict[int, tuple[FileStamp, ...]]
"""Stamps of the outputs of each success, by job; those that did not record any are absent."""


def collect_stamps(events: Iterable[Event], stamps: Stamps) -> Iterator[Event]:
    """Yield events, and collect the stamps of the newest success of each job from them."""
    for event in events:
        if isinstance(event, Ended):
            if event.cause is None and event.stamps:
                stamps[event.j] = event.stamps
            else:
                stamps.pop(event.j, None)
        yield event


def look_at_file(path: str) -> tuple[FileStamp, bool]:
    """Return the stamp of a file, and whether it is a folder; raises `OSError` if it is not there."""
    status = os.stat(path)  # noqa: PTH116 - a text is what there is
    return FileStamp(status.st_size, status.st_mtime_ns), stat.S_ISDIR(status.st_mode)


class OutputChanges:
    """Recorded and present state of the outputs of an earlier run.

    `outputs` has the paths per job. An output of several jobs may be as any of them left it.
    """

    def __init__(self, outputs: Sequence[Sequence[str]], stamps: Mapping[int, Collection[FileStamp]]) -> None:
        self._outputs = outputs
        self._stamps = stamps
        makers = Counter(path for paths in outputs for path in set(paths))
        self._shared: dict[str, set[FileStamp]] = {path: set() for path, number in makers.items() if number > 1}
        for job, paths in enumerate(outputs) if self._shared else ():
            for path in self._shared.keys() & set(paths):
                self._shared[path].update(stamps.get(job, ()))

    def describe(self, job: int, path: str) -> str:
        """Describe how an output of a job changed since; empty if it did not, or nothing was recorded."""
        recorded = self._stamps.get(job, ())
        if not recorded:
            return ""
        try:
            now, is_folder = look_at_file(path)
        except OSError as error:
            return f"its output '{path}' cannot be read: {error.strerror}"
        known = {*recorded, *self._shared.get(path, ())}
        if not is_folder:
            return "" if now in known else f"its output '{path}' was written since by something else"
        # The size of a folder depends on the file system, and means nothing.
        if now.mtime_ns in {stamp.mtime_ns for stamp in known} or path in self._folders:
            return ""
        return f"entries of its output '{path}', a folder, were added or removed since by something else"

    @cached_property
    def _folders(self) -> set[str]:
        """Folders in which other outputs lie: their time says nothing of their own job."""
        found: set[str] = set()
        for path in (path for paths in self._outputs for path in paths):
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return found
