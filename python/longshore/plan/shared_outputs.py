"""Refuses a run that writes the same output files as a live run of this user."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import LongshoreError, SubmissionRefusedError
from longshore.model.file_identity import FileIdentity
from longshore.model.submission import RunIdentity
from longshore.plan.run_plan import RunPlan
from longshore.progress import Progress
from longshore.rundir.find_run import run_of_this_job
from longshore.rundir.job_table import output_paths
from longshore.rundir.output_claims import (
    Claim,
    RunOutputs,
    claimed_runs,
    hold_claims,
    make_output_keys,
    read_claim,
    remove_claim,
    write_claim,
)
from longshore.rundir.registry import RegistryEntry, journal_stamp, newest_entries, read_entry
from longshore.rundir.run_directory import is_own_run, read_card, read_snapshot
from longshore.runstate.open_run import READ_ERRORS, OpenRun, is_missing
from longshore.system.links import DiskLinks

_MAX_RUNS: Final = 100
"""Newest registered runs without a claim that are looked at."""
_MAX_SECONDS: Final = 2.0
_MAX_NAMES: Final = 200_000
"""Output files of such a run that are compared."""


class _StoredOutputs:
    """Paths of the outputs of a run that is on disk; each iteration reads them anew."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run

    def __iter__(self) -> Iterator[str]:
        return output_paths(self._run)


def planned_outputs(plan: RunPlan, run_id: str = "") -> RunOutputs:
    """Return the outputs of a planned run, which has an id if it has none of its own yet."""
    files = plan.workflow.files
    names = {name for job in plan.workflow for name in job.outputs} if files else set()
    paths = [files[name].path for name in names]
    identity = plan.run.file_identity()
    return RunOutputs(run_id or plan.run.id, paths, identity, make_output_keys(paths, identity), _find_ancestors())


def stored_outputs(run: RunPaths, card: RunIdentity) -> RunOutputs:
    """Return the outputs of a run that is on disk.

    Raises `RunUnreadableError` if its workflow cannot be read.
    """
    identity = FileIdentity(str(run.root), DiskLinks())
    paths = _StoredOutputs(run)
    return RunOutputs(card.id, paths, identity, make_output_keys(paths, identity), _find_ancestors())


@contextmanager
def claim_outputs(outputs: RunOutputs, root: Path, *, share: bool) -> Iterator[None]:
    """Claim the outputs of a run in whose body it becomes live; with `share`, another live run may write them too.

    Raises `SubmissionRefusedError` if a live run of this user writes one of them.
    """
    with hold_claims():
        if not share:
            refuse_shared_outputs(outputs)
        claim = Claim(id=outputs.run_id, path=str(root), ancestors=outputs.ancestors, keys=outputs.keys)
        try:
            held = write_claim(claim)
        except OSError:
            # The registry cannot be written either, and a note says so.
            held = None
    try:
        yield
    finally:
        if held is not None:
            held.close()


def refuse_shared_outputs(outputs: RunOutputs) -> None:
    """Raise `SubmissionRefusedError` if a live run of this user writes one of the outputs."""
    for run_id in claimed_runs():
        claim = read_claim(run_id) if run_id != outputs.run_id else None
        if claim is None or claim.id in outputs.ancestors or outputs.run_id in claim.ancestors:
            continue
        entry = read_entry(run_id)
        # A run that was moved is found where a command saw it last.
        run = RunPaths(Path(entry.path if entry is not None and is_missing(claim.path) else claim.path))
        if not claim.is_held and is_over(run, entry):
            remove_claim(run_id)
        elif outputs.keys.common(claim.keys):
            _refuse_if_live(outputs, claim, run)


def check_shared_outputs(
    outputs: RunOutputs, progress: Progress, *, share: bool, seconds: float = _MAX_SECONDS
) -> None:
    """Look for live runs that write the same files before a run is written.

    One of this user is refused, unless both `share` the files, also if it made no claim; of such runs, the search is
    bounded in time and memory. One of another user is noted; of these, only registered ones are known. Raises
    `SubmissionRefusedError`.
    """
    if not share:
        refuse_shared_outputs(outputs)
    if not outputs.keys.outputs:
        return
    deadline = time.monotonic() + seconds
    claimed = {*claimed_runs(), outputs.run_id, *outputs.ancestors}
    for entry in islice(newest_entries(), _MAX_RUNS):
        run = RunPaths(Path(entry.path))
        if time.monotonic() > deadline:
            return
        if entry.id in claimed or is_over(run, entry):
            continue
        try:
            others = [*output_paths(run, most=_MAX_NAMES, deadline=deadline)]
            common = outputs.keys.common(make_output_keys(others, FileIdentity(entry.path, DiskLinks())))
            path = outputs.path_among(others) if common else None
            alive = OpenRun(run=run, card=read_card(run)).is_alive() if path is not None else False
            is_own = is_own_run(run.root)
        except READ_ERRORS:
            continue
        if path is not None and alive is not False:
            error = _shared_error(entry.id, entry.path, path, _doubt(alive))
            if not is_own:
                progress.note(f"{error.message}; it belongs to another user")
            elif not share:
                raise error


def _refuse_if_live(outputs: RunOutputs, claim: Claim, run: RunPaths) -> None:
    alive: bool | Unreachable = claim.is_held
    path: str | None = None
    try:
        if not alive:
            alive = OpenRun(run=run, card=read_card(run)).is_alive()
        if alive is not False:
            path = outputs.path_among(output_paths(run))
    except READ_ERRORS as error:
        if not claim.is_held:
            # Nothing tells that it is live: its directory is damaged, or not there at present.
            return
        path = f"(the workflow cannot be read: {error})"
    if path is not None:
        raise _shared_error(claim.id, str(run.root), path, _doubt(alive))


def _shared_error(run_id: str, folder: str, path: str, alive: Unreachable | None) -> LongshoreError:
    state = "is live" if alive is None else f"may be live ({alive.why})"
    return SubmissionRefusedError(
        f"run '{run_id}' {state} and writes the same files, such as '{path}'",
        hint=f"To wait for its end: longshore report --id {run_id} --watch\nTo cancel it: longshore cancel {run_id}\n"
        f"It is in '{folder}'. To let both write these files, add '--share-outputs'.",
    )


def _doubt(alive: object) -> Unreachable | None:
    return alive if isinstance(alive, Unreachable) else None


def is_over(run: RunPaths, entry: RegistryEntry | None) -> bool:
    """Whether a run is known to be over, without a question to its workload manager; also if it was removed."""
    try:
        if is_missing(run.root):
            # Not where the whole file system is away.
            return not is_missing(run.root.parent)
        if entry is not None and entry.report is not None and entry.stamp == journal_stamp(entry.path):
            return True
        snapshot = read_snapshot(run)
    except READ_ERRORS:
        return False
    return snapshot is not None and snapshot.finished


def _find_ancestors() -> tuple[str, ...]:
    """Return the ids of the runs in whose jobs this process is, the nearest first."""
    folder = run_of_this_job()
    if not folder.startswith("/"):
        return ()
    with suppress(*READ_ERRORS):
        parent = read_card(RunPaths(Path(folder))).id
        claim = read_claim(parent)
        return (parent, *(claim.ancestors if claim is not None else ()))
    return ()
