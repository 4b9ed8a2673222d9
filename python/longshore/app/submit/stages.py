"""Stages of a run, each from one record to the next: acquire, cluster, transform, prepare, submit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from longshore.app.acquire.read_payload import AcquiredRun, acquire_run
from longshore.app.configure.layers import Layers
from longshore.app.configure.probe import refuse_by_probe
from longshore.app.configure.resolved_run import ResolvedRun
from longshore.app.payload.payload import note_kept_graph
from longshore.app.plan.clustering import ClusteredRun, cluster_run
from longshore.app.progress import HeldNotes, Progress, RecordingProgress
from longshore.app.site_choice.resolve import release_site, releasing_site, resolve_at_chosen_site
from longshore.app.submit.shared_outputs import check_shared_outputs, planned_outputs
from longshore.app.submit.submission_checks import SubmissionChecks
from longshore.app.submit.submit_once import PreparedRun, SubmittedRun, clear_interrupted, submit_once
from longshore.app.submit.transform import RunPlan, plan_run
from longshore.app.submit.write_run import write_run
from longshore.errors import ErrorDetail, SubmissionRefusedError, SubmissionUncertainError
from longshore.model.wording import count_noun
from longshore.rundir.registry import remove_entry

_STRICT_HINT: Final = "Mend what it says, or submit without '--strict'."
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
_Wanted = TypeVar("_Wanted", bound=AcquiredRun | ClusteredRun | RunPlan | PreparedRun | SubmittedRun)


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


def plan_new_run(
    layers: Layers,
    *,
    run_id: str,
    now: float,
    checks: SubmissionChecks,
    progress: Progress,
    check: Callable[[ResolvedRun], None] = lambda _run: None,
) -> tuple[RunPlan, RecordingProgress]:
    """Plan a run of a configuration's layers; also return the progress of its further stages.

    `now` is the time of the id. `check` may refuse the run before its payload is read.
    """
    held = HeldNotes(progress)
    if not checks.strict:
        held.release()
    recording = RecordingProgress(held)
    try:
        run = resolve_at_chosen_site(layers, now=now, progress=recording, run_id=run_id, with_probe=checks.with_probe)
        with releasing_site(run):
            refuse_by_probe(run.service, run.context.probe)
            check(run)
            plan = advance_run(run, RunPlan, recording)
            outputs = planned_outputs(plan)
            check_shared_outputs(outputs, recording, share=checks.shares_outputs)
            plan = replace(plan, outputs=outputs, shares_outputs=checks.shares_outputs)
    except BaseException:
        # The notes may explain the error.
        held.release()
        raise
    if checks.strict:
        with releasing_site(run), noting_kept_graph(plan, held):
            _refuse_warnings(recording.warnings)
        held.release()
    return plan, recording


def _refuse_warnings(warnings: Sequence[str]) -> None:
    """Refuse a run with warnings, and list them all."""
    if not warnings:
        return
    error = SubmissionRefusedError(
        f"'--strict' refuses a run with {'a warning' if len(warnings) == 1 else 'warnings'}: {warnings[0]}",
        hint=_STRICT_HINT,
    )
    if warnings[1:]:
        error.details = tuple(
            ErrorDetail(
                code=SubmissionRefusedError.code, message=f"'--strict' refuses this: {warning}", hint=_STRICT_HINT
            )
            for warning in warnings
        )
    raise error


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
