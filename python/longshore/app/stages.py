"""Goes through the stages of a run up to one of them, and says what each made and what it took."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from longshore.app.acquired import Acquired
from longshore.app.graphfile import save_tasks
from longshore.app.packing import pack
from longshore.app.prepare import keeping, make_workflow, plan_of, write
from longshore.app.resolved_run import ResolvedRun, resolve_run
from longshore.app.saved import Saved, save_alone, saved_stages
from longshore.app.sources import acquire
from longshore.app.teller import Teller
from longshore.model.task import TaskGraph
from longshore.model.workflow import Workflow
from longshore.world.registry import forget, reserve_id


class Stage(StrEnum):
    """The stages, in their order."""

    ACQUIRE = "acquire"
    CLUSTER = "cluster"
    TRANSFORM = "transform"
    PREPARE = "prepare"


@dataclass(kw_only=True)
class Done:
    """A stage that is over.

    Attributes
    ----------
    made
        What it made, in words.
    counts
        Numbers of what it made: tasks, edges, files, clusters, jobs.
    labels
        Number of tasks, clusters or jobs per label.
    seconds
        Wall time.
    peak_memory_b
        The most memory this process has had up to its end, in bytes.
    """

    stage: Stage
    made: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    peak_memory_b: int = 0


def run_stages(
    path: Path,
    last: Stage,
    *,
    options: Mapping[str, str],
    sets: tuple[str, ...],
    save_graph: Path | None = None,
    tell: Teller,
) -> tuple[list[Done], Path | None]:
    """Go through the stages up to `last`.

    Parameters
    ----------
    path, options, sets, tell
        As for `resolve_run`.
    last
        The last stage.
    save_graph
        Where the tasks are written to once they are known, as a graph file.

    Returns
    -------
    tuple
        What each stage did, and the run directory if one was written, or a quantum graph was put there.

    Raises
    ------
    LongshoreError
        Something is wrong; nothing is left behind.
    """
    # What is prepared keeps its id, though nothing is registered: no run of this user gets that, nor its name.
    identity, now = reserve_id(time.time()) if last is Stage.PREPARE else ("", time.time())
    try:
        run = resolve_run(path, options=options, sets=sets, now=now, tell=tell)
        return _run(run, last, identity, save_graph=save_graph, now=now, tell=tell)
    except BaseException:
        if identity:
            forget(identity)
        raise


def _run(
    run: ResolvedRun, last: Stage, identity: str, *, save_graph: Path | None, now: float, tell: Teller
) -> tuple[list[Done], Path | None]:
    stages: list[Done] = []
    with _measured(Stage.ACQUIRE, stages, tell) as done:
        acquired = acquire(run, tell)
        _count_tasks(done, acquired.graph)
    with keeping(run, acquired, tell):
        if save_graph is not None:
            save_tasks(acquired, save_graph, run.paths.root)
            done.made += f"; wrote '{save_graph}'"
        if last is Stage.ACQUIRE:
            return stages, run.paths.root if acquired.made else None
        return stages, _after_acquire(run, acquired, last, identity, stages, now=now, tell=tell)


def _after_acquire(
    run: ResolvedRun, acquired: Acquired, last: Stage, identity: str, stages: list[Done], *, now: float, tell: Teller
) -> Path | None:
    """The stages behind the first; the run directory if there is one."""
    with _measured(Stage.CLUSTER, stages, tell) as done:
        clustered = pack(run.configuration, acquired.graph)
        done.made = f"ClusteredQuantumGraph contains {len(clustered.dag)} cluster(s)"
        done.counts = {"clusters": len(clustered.dag), "edges": sum(map(len, clustered.dag.children))}
        done.labels = dict(Counter(cluster.label for cluster in clustered.dag.nodes))
    made = bool(acquired.made)
    if last is Stage.CLUSTER:
        return _left(run, saved_stages(run, clustered), made=made)
    with _measured(Stage.TRANSFORM, stages, tell) as done:
        workflow = make_workflow(run, clustered, acquired, tell)
        _count_jobs(done, workflow)
    if last is Stage.TRANSFORM:
        return _left(run, saved_stages(run, clustered, workflow), made=made)
    with _measured(Stage.PREPARE, stages, tell) as done:
        prepared = write(plan_of(run, acquired, clustered, workflow), run_id=identity, now=now)
        done.made = f"wrote '{prepared.run.root}'"
        done.counts = {"jobs": len(workflow)}
        done.labels = workflow.counts()
    return prepared.run.root


def _left(run: ResolvedRun, files: Saved, *, made: bool) -> Path | None:
    """The run directory, where a quantum graph was put there or the configuration asks for files."""
    return run.paths.root if save_alone(run, files, there=made) or made else None


@contextmanager
def _measured(stage: Stage, stages: list[Done], tell: Teller) -> Iterator[Done]:
    tell.stage(stage.value)
    done = Done(stage=stage)
    began = time.perf_counter()
    yield done
    done.seconds = time.perf_counter() - began
    done.peak_memory_b = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    stages.append(done)


def _count_tasks(done: Done, graph: TaskGraph) -> None:
    edges = sum(map(len, graph.dag.children))
    done.labels = dict(Counter(task.label for task in graph.dag.nodes))
    done.made = f"{len(graph.dag)} tasks of {len(done.labels)} labels, {edges} edges, {len(graph.files)} files"
    done.counts = {"tasks": len(graph.dag), "edges": edges, "files": len(graph.files)}


def _count_jobs(done: Done, workflow: Workflow) -> None:
    done.made = f"GenericWorkflow contains {len(workflow)} job(s) (including final)"
    done.counts = {"jobs": len(workflow)}
    done.labels = workflow.counts()
