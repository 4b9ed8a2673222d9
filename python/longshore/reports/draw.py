"""Draws the graph of a run or configuration by labels, or the jobs near one, legible at any size."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from longshore.config.final_job import WhenRun, read_when_run
from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.layers import Overrides
from longshore.config.search import INIT_LABEL
from longshore.errors import Origin, PreparationError
from longshore.graphs.payload_files import is_graph_file, is_lsst
from longshore.model.report import FINAL_LABEL, Drawing
from longshore.model.states import JobState
from longshore.plan.clustering import ClusteredRun
from longshore.plan.configuration import Configuration
from longshore.plan.drawings import JobOutline, draw_labels, draw_neighborhood, find_neighborhood
from longshore.plan.resolved_run import resolve_run
from longshore.plan.stages import advance_run
from longshore.progress import Progress, RecordingProgress
from longshore.reports.status import status_run
from longshore.rundir.job_table import JobTable
from longshore.runstate.events import event_blocks, events_of_jobs
from longshore.runstate.open_run import OpenRun, find_job, map_index_errors, open_run
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JOB_STATES
from longshore.system.reading import can_see_file


def is_configuration(reference: str) -> bool:
    """Tell whether a reference to draw is a file rather than a run."""
    return can_see_file(Path(reference))


@hidden_secrets()
def draw_configuration(
    path: Path, overrides: Overrides | None = None, *, imports_code: bool = False, progress: Progress
) -> Drawing:
    """Draw the labels of a configuration's jobs.

    Code that only the configuration names is not imported, unless asked for. Raises `LongshoreError` if the
    configuration is wrong or needs such code, or if commands that leave files behind make its graph.
    """
    overrides = replace(overrides or Overrides(), imports_code=imports_code)
    run = resolve_run(path, overrides, now=time.time(), progress=progress)
    configuration = run.configuration
    of_file = is_graph_file(configuration.text("graphFile"), configuration.text("graphSource"))
    if not of_file and is_lsst(
        configuration.config, site=configuration.site, env=configuration.env, folder=path.parent
    ):
        raise PreparationError(
            "a quantum graph exists only after a run is prepared",
            origin=Origin(str(path)),
            hint=f"Prepare it, and draw the run: longshore prepare {shlex.quote(str(path))}",
        )
    clustered = advance_run(run, ClusteredRun, RecordingProgress(progress)).graph
    order = clustered.dag.order
    place = {cluster: position for position, cluster in enumerate(order)}
    labels = list(dict.fromkeys(clustered.dag.nodes[cluster].label for cluster in order))
    number = {label: index for index, label in enumerate(labels)}
    outline = JobOutline(
        title=clustered.name,
        parents=[[place[parent] for parent in clustered.dag.parents[cluster]] for cluster in order],
        label_of=[number[clustered.dag.nodes[cluster].label] for cluster in order],
        labels=labels,
    )
    return draw_labels(_with_special_jobs(outline, configuration))


def _with_special_jobs(outline: JobOutline, configuration: Configuration) -> JobOutline:
    """Return an outline with the init job and the final job, where the configuration asks for them."""
    parents: list[Sequence[int]] = list(outline.parents)
    label_of, labels = list(outline.label_of), list(outline.labels)
    if configuration.flag("runInit"):
        parents = [(), *([parent + 1 for parent in before] or [0] for before in parents)]
        label_of, labels = [0, *(label + 1 for label in label_of)], [INIT_LABEL, *labels]
    if read_when_run(configuration.config) is not WhenRun.NEVER:
        parents.append(_last_jobs(parents))
        label_of, labels = [*label_of, len(labels)], [*labels, FINAL_LABEL]
    return JobOutline(title=outline.title, parents=parents, label_of=label_of, labels=labels)


def draw_run(reference: str, *, job: str | None, depth: int) -> Drawing:
    """Draw a run's labels with job states, or the jobs near one.

    `job` is a name, the beginning of one, or a number; `depth` counts steps before and after it. Raises
    `RunNotFoundError` if run or job do not exist, `RunUnreadableError` if the run cannot be read.
    """
    opened = open_run(reference)
    jobs = JobTable(opened.run, "parents", *(() if job is None else ("names",)))
    outline = _outline(opened, jobs)
    if job is None:
        report = status_run(opened, check=True)
        damage = (*((opened.card_damage,) if opened.card_damage else ()), *report.damage)
        return structs.replace(draw_labels(outline, report.labels), damage=damage)
    chosen = find_job(opened, jobs, job)
    near = find_neighborhood(outline, chosen, depth)
    names = {each: jobs.names[each] for each in near.jobs}
    drawing = draw_neighborhood(outline, near, chosen, names, _replay_states(opened, jobs, near.jobs))
    return structs.replace(drawing, damage=tuple(opened.damages))


def draw_label_states(opened: OpenRun, counts: Mapping[str, Mapping[JobState, int]]) -> Drawing:
    """Draw a run's labels with the states of a report."""
    return draw_labels(_outline(opened, JobTable(opened.run, "parents")), counts)


def _outline(opened: OpenRun, jobs: JobTable) -> JobOutline:
    return JobOutline(
        title=f"{opened.card.id} {opened.card.name}",
        parents=_parents_with_final(jobs),
        label_of=jobs.label_of,
        labels=jobs.labels,
    )


def _parents_with_final(jobs: JobTable) -> Sequence[Sequence[int]]:
    """Return the parents of all jobs; the final job's parents are the jobs without children."""
    if jobs.final is None:
        return jobs.parents
    others = jobs.parents[:-1]
    return [*others, _last_jobs(others)]


def _last_jobs(parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the jobs without children."""
    waited_for = {parent for before in parents for parent in before}
    return tuple(job for job in range(len(parents)) if job not in waited_for)


def _replay_states(opened: OpenRun, jobs: JobTable, shown: Iterable[int]) -> Mapping[int, JobState]:
    """Return the states of jobs, by replay of the run's events."""
    drawn = dict.fromkeys(shown)
    ancestors = jobs.ancestors(*drawn)
    events = events_of_jobs(event_blocks(opened), range(len(jobs)) if len(ancestors) == len(jobs) else set(ancestors))
    with map_index_errors(opened.run):
        state = replay(jobs, events, ancestors)
    unknown = opened.find_unknown_jobs(state)
    return {each: JobState.UNKNOWN if each in unknown else JOB_STATES[state.code[each]] for each in drawn}
