"""Stages of a run, each from one record to the next: acquire, cluster, transform, prepare, submit."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.layers import Layers, Overrides
from longshore.errors import ErrorDetail, SubmissionRefusedError, SubmissionUncertainError
from longshore.graphs.graph_file import note_kept_graph, write_tasks
from longshore.model.submission import SubmissionChecks
from longshore.model.wording import count_noun
from longshore.plan.acquire import AcquiredRun, acquire_run
from longshore.plan.clustering import ClusteredRun, cluster_run, find_algorithm
from longshore.plan.probe import refuse_by_probe
from longshore.plan.resolved_run import ResolvedRun
from longshore.plan.run_plan import RunPlan, graphs_to_save, plan_run, write_graphs_only
from longshore.plan.shared_outputs import check_shared_outputs, planned_outputs
from longshore.plan.site_choice import release_site, releasing_site, resolve_at_chosen_site
from longshore.plan.submit_once import PreparedRun, SubmittedRun, clear_interrupted, submit_once
from longshore.plan.write_run import write_run
from longshore.progress import HeldNotes, Progress, RecordingProgress
from longshore.rundir.registry import remove_entry, reserved_id

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
            refuse_by_probe(run.context.probe)
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
            # A quantum graph may take hours.
            find_algorithm(record.configuration)
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


# Runs the stages up to a given one for a command that stops there, and measures each.


_RECORDS: Final[Mapping[Stage, type[AcquiredRun | ClusteredRun | RunPlan | PreparedRun]]] = {
    Stage.ACQUIRE: AcquiredRun,
    Stage.CLUSTER: ClusteredRun,
    Stage.TRANSFORM: RunPlan,
    Stage.PREPARE: PreparedRun,
}
"""Record after each stage at which a command can stop."""


class StageResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a stage.

    `made` is a phrase for people; `counts` has numbers of tasks, edges, files, clusters or jobs; `labels` has numbers
    per label. `seconds` is wall time; `peak_memory_b` is the peak memory of this process up to the stage's end, in
    bytes.
    """

    stage: Stage
    made: str = ""
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    labels: Mapping[str, int] = msgspec.field(default_factory=dict)
    seconds: float = 0.0
    peak_memory_b: int = 0

    def describe(self) -> str:
        """Return a line with what was made, the time and the memory."""
        return f"{self.stage}: {self.made} ({self.seconds:.2f} s, peak memory {self.peak_memory_b / 2**20:.0f} MiB)"


@hidden_secrets()
def run_stages(
    path: Path,
    last: Stage,
    overrides: Overrides | None = None,
    *,
    save_graph: Path | None = None,
    progress: Progress,
) -> tuple[list[StageResult], Path | None]:
    """Run the stages up to one before `Stage.SUBMIT`, for a command that stops there.

    `path` and `overrides` are those of `resolve_run`. `save_graph` is the graph file to write if the last stage is
    `Stage.ACQUIRE`. Returns the results, and the run directory if one was written or holds a quantum graph. Raises
    `LongshoreError` on failure; nothing is left behind.
    """
    results: list[StageResult] = []
    recording = RecordingProgress(progress)
    # A prepared run keeps its id without registration: no other run of this user gets its id or name.
    with reserved_id() if last is Stage.PREPARE else nullcontext(("", time.time())) as (run_id, now):
        run = resolve_at_chosen_site(path, overrides, now=now, progress=recording, run_id=run_id)

        def measure(record: StageRecord, seconds: float) -> None:
            results.append(_stage_result(record, seconds))

        with releasing_site(run):
            record: StageRecord = advance_run(run, _RECORDS[last], recording, measure)
        with noting_kept_graph(record, recording):
            if save_graph is not None and isinstance(record, AcquiredRun):
                write_tasks(record.payload, save_graph, run.paths.root)
                results[-1] = replace(results[-1], made=f"{results[-1].made}; wrote '{save_graph}'")
            return results, run.paths.root if _write_requested_graphs(record) else None


def _write_requested_graphs(record: StageRecord) -> bool:
    """Write the requested graphs; return whether a run directory exists."""
    match record:
        case AcquiredRun():
            return bool(record.payload.kept_files)
        case ClusteredRun():
            exists, graphs = bool(record.payload.kept_files), graphs_to_save(record.run.configuration, record.graph)
        case RunPlan():
            exists, graphs = bool(record.kept_files), record.saved
        case _:
            return True
    return write_graphs_only(record.run, graphs, exists=exists) or exists


def _stage_result(record: StageRecord, seconds: float) -> StageResult:
    """Return the result of the stage that made a record."""
    stage, made, counts, labels = _describe_stage(record)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return StageResult(stage=stage, made=made, counts=counts, labels=labels, seconds=seconds, peak_memory_b=peak)


def _describe_stage(record: StageRecord) -> tuple[Stage, str, dict[str, int], dict[str, int]]:
    """Return the stage that made a record, a phrase for its output, and numbers in total and per label."""
    match record:
        case AcquiredRun():
            graph = record.payload.graph
            counts = {"tasks": len(graph.dag), "edges": len(graph.dag.parents.neighbours), "files": len(graph.files)}
            labels = dict(Counter(task.label for task in graph.dag.nodes))
            sizes = {"task": counts["tasks"], "edge": counts["edges"], "file": counts["files"]}
            tasks, edges, files = (count_noun(number, noun) for noun, number in sizes.items())
            made = f"{tasks} of {count_noun(len(labels), 'label')}, {edges}, {files}"
            return Stage.ACQUIRE, made, counts, labels
        case ClusteredRun():
            dag = record.graph.dag
            counts = {"clusters": len(dag), "edges": len(dag.parents.neighbours)}
            labels = dict(Counter(cluster.label for cluster in dag.nodes))
            return Stage.CLUSTER, f"ClusteredQuantumGraph contains {len(dag)} cluster(s)", counts, labels
        case RunPlan():
            jobs = len(record.workflow)
            final = " (including final)" if record.workflow.final else ""
            made = f"GenericWorkflow contains {jobs} job(s){final}"
            return Stage.TRANSFORM, made, {"jobs": jobs}, record.workflow.counts()
        case PreparedRun():
            card = record.card
            return Stage.PREPARE, f"wrote '{record.run.root}'", {"jobs": card.expected}, dict(card.labels)
        case SubmittedRun():
            return Stage.SUBMIT, f"submitted '{record.run.root}'", {"jobs": record.card.expected}, {}
        case ResolvedRun():
            raise ValueError("no stage leads to the first record")
