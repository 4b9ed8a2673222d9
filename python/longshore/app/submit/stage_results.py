"""Runs the stages up to a given one for a command that stops there, and measures each."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.acquire.read_payload import AcquiredRun
from longshore.app.configure.layers import Overrides
from longshore.app.configure.resolved_run import ResolvedRun
from longshore.app.payload.graph_file import write_tasks
from longshore.app.plan.clustering import ClusteredRun
from longshore.app.progress import Progress, RecordingProgress, hidden_secrets
from longshore.app.site_choice.resolve import releasing_site, resolve_at_chosen_site
from longshore.app.submit.saved_graphs import graphs_to_save, write_graphs_only
from longshore.app.submit.stages import Stage, StageRecord, advance_run, noting_kept_graph
from longshore.app.submit.submit_once import PreparedRun, SubmittedRun
from longshore.app.submit.transform import RunPlan
from longshore.model.wording import count_noun
from longshore.rundir.registry import reserved_id

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
