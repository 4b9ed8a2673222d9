"""Renders a run as WfFormat 1.5, the JSON of recorded workflows (WfCommons) (pure)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.graphs.wfformat import VERSION
from longshore.model.event import Attempt
from longshore.model.wording import format_timestamp
from longshore.model.workflow import Request
from longshore.reports.documents.document import to_json

_NO_TASK: Final = re.compile(r"[^0-9a-zA-Z_.#-]")
"""What the schema does not allow in the id of a task."""
_NO_FILE: Final = re.compile(r"[^0-9a-zA-Z_./:#-]|(?<![^/])\.\.?(?![^/])|^/*$")
"""The same of a file, and what is no path inside the run directory of a later run."""
_NO_HOST: Final = re.compile(r"[^0-9a-zA-Z.-]+")


class TracedJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job of a run.

    Attributes
    ----------
    parents
        Indices of the jobs that it waits for.
    inputs, outputs
        Names of its files.
    success
        The attempt that succeeded; ``None`` without one.
    request
        What that attempt requested.
    """

    name: str
    label: str
    parents: Sequence[int] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    success: Attempt | None = None
    request: Request = Request()


class TracedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its jobs in order, and the sizes of files, where they are known."""

    id: str
    name: str
    version: str
    """Version of the package that made the run."""
    created_at: float
    jobs: Sequence[TracedJob]
    sizes: Mapping[str, int]


def render_wfformat(run: TracedRun) -> str:
    """Return a run as WfFormat: its jobs are tasks, and its successful attempts their execution.

    The name of a task is the label of its job with a number, as WfCommons has it. Names that the schema does not allow
    as ids are changed, and stay unique. Commands are left out: they may have paths and words that are not for others.
    """
    tasks, files = _Ids(_NO_TASK), _Ids(_NO_FILE)
    for job in run.jobs:
        tasks.add(job.name)
    specification: dict[str, Any] = {"tasks": _tasks(run.jobs, tasks, files)}
    if sizes := [{"id": files.add(name), "sizeInBytes": size} for name, size in run.sizes.items() if name in files]:
        specification["files"] = sizes
    workflow: dict[str, Any] = {"specification": specification}
    if execution := _execution(run.jobs, tasks):
        workflow["execution"] = execution
    document = {
        "name": readable(run.name) or run.id,
        "description": f"Run {run.id} of Longshore",
        "createdAt": format_timestamp(run.created_at, exact=True) or "unknown",
        "schemaVersion": VERSION,
        "runtimeSystem": {"name": "Longshore", "version": run.version or "unknown"},
        "workflow": workflow,
    }
    return to_json(document) + "\n"


class _Ids:
    """Ids of names: the name itself where the schema allows it, else a name alike with a digest."""

    def __init__(self, forbidden: re.Pattern[str]) -> None:
        self._forbidden = forbidden
        self._ids: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._ids

    def add(self, name: str) -> str:
        """Return the id of a name."""
        found = self._ids.get(name)
        if found is None:
            found = self._ids[name] = self._make(name)
        return found

    def _make(self, name: str) -> str:
        if name and not self._forbidden.search(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self._forbidden.sub('_', name)}-{digest[:16]}"


def _tasks(jobs: Sequence[TracedJob], tasks: _Ids, files: _Ids) -> list[dict[str, Any]]:
    ids = [tasks.add(job.name) for job in jobs]
    children: list[list[str]] = [[] for _ in jobs]
    for job, own in zip(jobs, ids, strict=True):
        for parent in job.parents:
            children[parent].append(own)
    return [
        {
            "name": f"{readable(job.label)}_ID{number:07}",
            "id": own,
            "parents": [ids[parent] for parent in job.parents],
            "children": below,
            "inputFiles": [files.add(name) for name in job.inputs],
            "outputFiles": [files.add(name) for name in job.outputs],
        }
        for number, (job, own, below) in enumerate(zip(jobs, ids, children, strict=True), start=1)
    ]


def _execution(jobs: Sequence[TracedJob], tasks: _Ids) -> dict[str, Any] | None:
    """Return the executions of jobs that succeeded; ``None`` if there are none, as the schema has no empty list."""
    executed = [
        (tasks.add(job.name), job, job.success, run_s)
        for job in jobs
        if job.success and (run_s := _run_time(job.success)) is not None
    ]
    if not executed:
        return None
    starts = [each.started_at for _, _, each, _ in executed if each.started_at is not None]
    ends = [each.ended_at for _, _, each, _ in executed if each.ended_at is not None]
    machines = dict.fromkeys(_host(each.host) for _, _, each, _ in executed if each.host)
    execution: dict[str, Any] = {
        "makespanInSeconds": max(0.0, max(ends) - min(starts)) if starts and ends else 0.0,
        "executedAt": format_timestamp(min(starts, default=None), exact=True) or "unknown",
        "tasks": [_executed_task(own, job, each, run_s) for own, job, each, run_s in executed],
    }
    if machines:
        execution["machines"] = [{"nodeName": host} for host in sorted(machines)]
    return execution


def _run_time(attempt: Attempt) -> float | None:
    if attempt.run_s is not None or attempt.started_at is None or attempt.ended_at is None:
        return attempt.run_s
    return max(0.0, attempt.ended_at - attempt.started_at)


def _executed_task(own: str, job: TracedJob, attempt: Attempt, run_s: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": own,
        "runtimeInSeconds": run_s,
        "executedAt": format_timestamp(attempt.started_at, exact=True),
        "coreCount": job.request.cpus,
        "avgCPU": round(100 * attempt.cpu_s / run_s, 3) if attempt.cpu_s is not None and run_s else None,
        "readBytes": attempt.staged.bytes_in if attempt.staged else None,
        "writtenBytes": attempt.staged.bytes_out if attempt.staged else None,
        "memoryInBytes": attempt.peak_memory_b,
        "machines": [_host(attempt.host)] if attempt.host else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _host(name: str) -> str:
    """Return the name of a host without invalid parts, such as the slot before ``@``."""
    return _NO_HOST.sub("-", name.rpartition("@")[2]).strip("-.") or "unknown"


def readable(text: str) -> str:
    """Return a text without NUL and without characters that UTF-8 cannot encode, as names of tasks must be."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def with_final_job(jobs: Iterable[TracedJob]) -> list[TracedJob]:
    """Return jobs whose last one is the final job: it waits for those that no other job waits for."""
    listed = list(jobs)
    awaited = {parent for job in listed for parent in job.parents}
    last = len(listed) - 1
    ends = tuple(number for number in range(last) if number not in awaited)
    return [*listed[:-1], msgspec.structs.replace(listed[-1], parents=ends)]
