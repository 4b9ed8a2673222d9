"""Times that the user's earlier jobs waited at each site, from the journals of the newest runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from longshore.app.runs.open_run import OpenRun, open_run
from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import LongshoreError
from longshore.model.event import Ended, Submitting
from longshore.rundir.registry import newest_entries
from longshore.rundir.run_directory import read_card

_MOST_RUNS: Final = 50
"""Newest runs that are looked at."""
_MOST_WAITS: Final = 200
"""Waits of one run."""


def read_waits(sites: Collection[str]) -> dict[str, list[float]]:
    """Return the seconds that jobs waited in queues, by site; runs that cannot be read are left out."""
    found: dict[str, list[float]] = {}
    for entry in islice(newest_entries(), _MOST_RUNS):
        with suppress(LongshoreError, OSError):
            site = read_card(RunPaths(Path(entry.path))).attributes.get("bps_runsite", "")
            if site in sites:
                found.setdefault(site, []).extend(islice(_waits(open_run(entry.path)), _MOST_WAITS))
    return found


def _waits(opened: OpenRun) -> Iterator[float]:
    """Yield the wait of each attempt that ended: by the workload manager, else between submission and start."""
    read = opened.events()
    if isinstance(read, Unreachable):
        return
    submitted: dict[tuple[int, int], float] = {}
    for event in read[0]:
        if isinstance(event, Submitting):
            submitted |= dict.fromkeys(event.jobs, event.t)
        elif isinstance(event, Ended):
            began = submitted.pop((event.j, event.a), None)
            if event.queue_s is not None:
                yield event.queue_s
            elif began is not None and event.start is not None:
                yield max(0.0, event.start - began)
