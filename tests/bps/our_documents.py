"""What Longshore makes of a case, as a document of the same form as the real BPS's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.progress_notes import ProgressNotes

from longshore.config.interpolate import Scope
from longshore.config.search import Config
from longshore.errors import LongshoreError
from longshore.jobs.commands import exact_shell_line
from longshore.model.tasks import ClusteredGraph
from longshore.model.workflow import (
    MIB,
    Implementation,
    Job,
    JobSettings,
    Ordering,
    Workflow,
    find_barriers,
    number_jobs,
)
from longshore.plan.clustering import ClusteredRun
from longshore.plan.jobs import FINAL_SCRIPT
from longshore.plan.resolved_run import resolve_run
from longshore.plan.run_plan import RunPlan
from longshore.plan.stages import StageRecord, advance_run
from longshore.progress import RecordingProgress

Document = dict[str, Any]

_ATTRIBUTES: Final = {
    "accounting_group": "accountingGroup",
    "accounting_user": "accountingUser",
    "mail_to": "mailTo",
    "when_to_mail": "whenToMail",
    "abort_on_value": "abortOnValue",
    "abort_return_value": "abortReturnValue",
    "priority": "priority",
    "category": "category",
    "concurrency_limit": "concurrencyLimit",
    "queue": "queue",
    "pre_cmdline": "preCmdline",
    "post_cmdline": "postCmdline",
    "preemptible": "preemptible",
    "memory_multiplier": "memoryMultiplier",
}
"""BPS's attribute of a job, and its key among ours."""


def search(path: Path, searches: list[dict[str, Any]], *, now: float) -> list[Document]:
    """Return what our searches find: a value, its absence, or an error."""
    configuration = resolve_run(path, now=now, progress=ProgressNotes(), with_probe=False).configuration
    return [_found(configuration.config, each["key"], each["current"], configuration.env) for each in searches]


def _found(config: Config, key: str, current: Mapping[str, str], env: Mapping[str, str]) -> Document:
    try:
        found = config.search(key, Scope(current=dict(current), env=env))
    except LongshoreError as error:
        return {"error": str(error)}
    return {"value": found.value} if found.is_found else {}


def transform(path: Path, *, now: float) -> Document:
    """Return clusters and workflow of a configuration, as ``longshore transform`` makes them."""
    seen: list[ClusteredRun] = []

    def look(record: StageRecord, _seconds: float) -> None:
        if isinstance(record, ClusteredRun):
            seen.append(record)

    try:
        progress = RecordingProgress(ProgressNotes())
        run = resolve_run(path, now=now, progress=progress, run_id="k00000", with_probe=False)
        plan = advance_run(run, RunPlan, progress, look)
    except LongshoreError as error:
        return {"error": str(error)}
    workflow, (clustered,) = plan.workflow, seen
    paths = {name: str(plan.run.paths.root / file.path) for name, file in workflow.files.items()}
    return {
        "submitPath": str(plan.run.paths.root),
        "name": workflow.name,
        "attributes": dict(workflow.attributes),
        **_clusters(clustered.graph),
        "jobs": {job.name: _job(job) for job in workflow if job is not workflow.final},
        "edges": sorted([parent, job.name] for job in workflow for parent in workflow.parents(job.name)),
        "final": _job(workflow.final) if workflow.final else None,
        "script": plan.programs.get(FINAL_SCRIPT, ""),
        "groups": dict(_groups(workflow)),
        "files": paths,
        "counts": workflow.quanta_counts(),
        "job_counts": workflow.counts(),
    }


def _clusters(graph: ClusteredGraph) -> Document:
    dag = graph.dag
    return {
        "clusters": {
            each.name: {
                "label": each.label,
                "tags": dict(each.tags),
                "quanta": sorted(task.name for task in each.tasks),
                "counts": _count(task.label for task in each.tasks),
            }
            for each in dag.nodes
        },
        "cluster_edges": sorted([dag.nodes[parent].name, dag.nodes[child].name] for parent, child in dag.edges()),
    }


def _count(labels: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return counts


def _job(job: Job) -> Document:
    return {
        "label": job.label,
        "tags": dict(job.tags),
        "counts": job.quanta_counts,
        "command": exact_shell_line(job.command),
        "inputs": sorted(job.inputs),
        "values": _values(job.settings, {**job.settings.environment, **job.environment}),
    }


def _values(settings: JobSettings, environment: Mapping[str, str]) -> Document:
    request, attributes = settings.request, settings.attributes
    memory_max = attributes.get("requestMemoryMax")
    return {
        "request_memory": None if request.memory_b is None else request.memory_b / MIB,
        "request_memory_max": None if memory_max is None else float(memory_max) / MIB,
        "request_cpus": request.cpus,
        "request_disk": None if request.disk_b is None else request.disk_b / MIB,
        "request_walltime": request.walltime_s,
        "number_of_retries": settings.number_of_retries,
        "retry_unless_exit": list(settings.retry_unless_exit),
        "compute_site": settings.site,
        "compute_cloud": settings.cloud,
        "environment": dict(environment),
        "profile": settings.service_settings.get("profile.condor", {}),
        "attrs": settings.service_settings.get("attrs", {}),
        **{name: attributes.get(key) for name, key in _ATTRIBUTES.items()},
    }


def _groups(workflow: Workflow) -> Iterator[tuple[str, Document]]:
    """Yield groups with their jobs, and empty jobs with the jobs around them, under BPS's names."""
    dag = workflow._dag
    for ordering in workflow.orderings:
        if ordering.implementation is Implementation.GROUP:
            for group in ordering.groups:
                yield ordering.node_name(group), {"jobs": sorted(group.jobs), "blocking": ordering.blocking}
        else:
            yield from _empty_jobs(ordering, dag)


def _empty_jobs(ordering: Ordering, dag: Any) -> Iterator[tuple[str, Document]]:
    for barrier in find_barriers([number_jobs(ordering, dag.index)], dag.parents):
        yield (
            barrier.name,
            {
                "before": sorted(dag.nodes[number].name for number in barrier.after),
                "after": sorted(dag.nodes[number].name for number in barrier.before),
            },
        )
