"""Stages of a run, each from one record to the next: acquire, cluster, transform, prepare, submit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from longshore.app.acquire.read_payload import AcquiredRun, acquire_run
from longshore.app.configure.resolved_run import ResolvedRun
from longshore.app.payload.payload import note_kept_graph
from longshore.app.plan.clustering import ClusteredRun, cluster_run
from longshore.app.progress import Progress, RecordingProgress
from longshore.app.site_choice.resolve import release_site
from longshore.app.submit.submit_once import PreparedRun, SubmittedRun, clear_interrupted, submit_once
from longshore.app.submit.transform import RunPlan, plan_run
from longshore.app.submit.write_run import write_run
from longshore.errors import SubmissionUncertainError
from longshore.model.wording import count_noun
from longshore.world.runs.registry import remove_entry, reserve_id

_MOST_NAMED: Final = 5
"""Names of files in one note."""


class Stage(StrEnum):
    """Stages in order."""

    ACQUIRE = "acquire"
    CLUSTER = "cluster"
    TRANSFORM = "transform"
    PREPARE = "prepare"
    SUBMIT = "submit"


StageRecord: TypeAlias = ResolvedRun | AcquiredRun | ClusteredRun | RunPlan | PreparedRun | SubmittedRun
"""Record of a run before the first stage and after each."""
_Wanted = TypeVar("_Wanted", AcquiredRun, ClusteredRun, RunPlan, PreparedRun, SubmittedRun)


def advance_run(
    record: StageRecord,
    wanted: type[_Wanted],
    progress: RecordingProgress,
    on_stage: Callable[[StageRecord, float], None] = lambda _record, _seconds: None,
) -> _Wanted:
    """Advance a run through the stages to the wanted record.

    `wanted` is the type of the record to stop at. `on_stage` receives the record after each stage and the seconds it
    took. Raises `LongshoreError` if a stage fails; only a quantum graph that was made stays.
    """
    while not isinstance(record, wanted):
        with noting_kept_graph(record, progress):
            began = time.perf_counter()
            record = _run_next_stage(record, progress)
            on_stage(record, time.perf_counter() - began)
    return record


def submit_plan(plan: RunPlan, progress: RecordingProgress) -> SubmittedRun:
    """Write the run directory of a plan with a reserved id, and submit it.

    An interruption leaves nothing, or a run that is listed. Raises `LongshoreError` like `advance_run`.
    """
    is_prepared = False
    try:
        prepared = advance_run(plan, PreparedRun, progress)
        is_prepared = True
        return advance_run(prepared, SubmittedRun, progress)
    except KeyboardInterrupt as interrupt:
        if not is_prepared:
            release_site(plan.run)
        # An interruption between the stages says nothing: no stage has cleared up after it.
        left = str(interrupt) or clear_interrupted(plan.run.paths, plan.run.id, kept_files=plan.kept_files)
        raise KeyboardInterrupt(left) from None
    except BaseException as error:
        if not is_prepared:
            remove_entry(plan.run.id)
        if not is_prepared or not isinstance(error, SubmissionUncertainError):
            release_site(plan.run)
        raise


def _run_next_stage(record: StageRecord, progress: RecordingProgress) -> StageRecord:
    """Run the next stage."""
    match record:
        case ResolvedRun():
            progress.stage("reading the payload")
            return acquire_run(record, progress)
        case AcquiredRun():
            progress.stage(f"clustering {count_noun(len(record.payload.graph.dag), 'task')}")
            return cluster_run(record)
        case ClusteredRun():
            progress.stage(f"making jobs of {count_noun(len(record.graph.dag), 'cluster')}")
            return plan_run(record, progress)
        case RunPlan():
            progress.stage(f"writing {count_noun(len(record.workflow), 'job')} to '{record.run.paths.root}'")
            prepared = write_run(record)
            _note_private_files(record, prepared, progress)
            return prepared
        case PreparedRun():
            return submit_once(record, progress)
        case SubmittedRun():
            raise ValueError("no stage follows the last")


def _note_private_files(plan: RunPlan, prepared: PreparedRun, progress: Progress) -> None:
    """Say to whom shares a run with a group that its members cannot read all of it."""
    group = plan.run.configuration.resolved_site.settings.get("group")
    if group and prepared.private_files:
        shown = ", ".join(f"'{name}'" for name in prepared.private_files[:_MOST_NAMED])
        others = len(prepared.private_files) - _MOST_NAMED
        more = f" and {count_noun(others, 'more file')}" if others > 0 else ""
        progress.note(
            f"only you can read {shown}{more}, not the group '{group}', because of secrets in the configuration; "
            "name environment variables instead to share all files"
        )


@contextmanager
def noting_kept_graph(record: StageRecord, progress: Progress) -> Iterator[None]:
    """Print how to use a remaining quantum graph if the body fails: making it may have taken hours."""
    try:
        yield
    except BaseException:
        match record:
            case AcquiredRun() | ClusteredRun() if kept_files := record.payload.kept_files:
                note_kept_graph(record.run.paths.root / kept_files[0], progress)
            case RunPlan() if record.kept_files:
                note_kept_graph(record.run.paths.root / record.kept_files[0], progress)
        raise


@contextmanager
def reserved_id() -> Iterator[tuple[str, float]]:
    """Reserve an id for a run, with its time; release it if the body fails."""
    # The time comes from the id, so that two runs of one second differ in name and directory.
    run_id, now = reserve_id(time.time())
    try:
        yield run_id, now
    except KeyboardInterrupt as interrupt:
        remove_entry(run_id)
        raise KeyboardInterrupt(str(interrupt) or "nothing was submitted") from None
    except BaseException:
        remove_entry(run_id)
        raise
