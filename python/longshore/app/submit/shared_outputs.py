"""Finds live runs that write the same output files as a new one."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from longshore.app.progress import Progress
from longshore.app.runs.open_run import READ_ERRORS, OpenRun
from longshore.app.submit.transform import RunPlan
from longshore.contract.context import RunPaths, Unreachable
from longshore.engine.rundir.job_table import output_paths
from longshore.model.wording import count_noun
from longshore.world.runs.registry import RegistryEntry, journal_stamp, newest_entries
from longshore.world.runs.run_directory import read_card, read_snapshot

_MAX_RUNS: Final = 100
"""Newest registered runs that are looked at."""
_MAX_SECONDS: Final = 2.0
_MAX_NAMES: Final = 200_000
"""Output files of another run that are compared."""


def note_shared_outputs(plan: RunPlan, progress: Progress, *, seconds: float = _MAX_SECONDS) -> None:
    """Print a note if live runs of this user write the same files; the search is bounded in time and memory."""
    files = plan.workflow.files
    own = {files[name].path for job in plan.workflow for name in job.outputs} if files else set()
    if not own:
        return
    found = list(_sharing_runs(own, plan.run.id, time.monotonic() + seconds))
    if found:
        opened, path = found[0]
        others = f" (and so {'does' if len(found) == 2 else 'do'} {count_noun(len(found) - 1, 'more run')})"
        progress.note(
            f"run '{opened.card.id}' is live and writes the same files, such as '{path}'"
            f"{others if found[1:] else ''}; to cancel it: longshore cancel {opened.reference}"
        )


def _sharing_runs(own: Collection[str], run_id: str, deadline: float) -> Iterator[tuple[OpenRun, str]]:
    """Yield live runs, newest first, each with a file that it also writes."""
    for entry in islice(newest_entries(), _MAX_RUNS):
        if time.monotonic() > deadline:
            return
        if entry.id == run_id or _has_ended(entry):
            continue
        run = RunPaths(Path(entry.path))
        try:
            shared = (path for path in output_paths(run, most=_MAX_NAMES, deadline=deadline) if path in own)
            path = next(shared, None)
            opened = OpenRun(run=run, card=read_card(run)) if path is not None else None
            alive = opened is not None and opened.card.id == entry.id and opened.is_alive()
        except READ_ERRORS:
            continue
        # A run whose manager does not answer may be live.
        if opened is not None and path is not None and (alive is True or isinstance(alive, Unreachable)):
            yield opened, path


def _has_ended(entry: RegistryEntry) -> bool:
    """Whether a run is known to be over, without a question to its workload manager."""
    try:
        if entry.report is not None and entry.stamp == journal_stamp(entry.path):
            return True
        snapshot = read_snapshot(RunPaths(Path(entry.path)))
    except READ_ERRORS:
        return True
    return snapshot is not None and snapshot.finished
