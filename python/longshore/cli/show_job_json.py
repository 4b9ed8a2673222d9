"""Turns what is known of single jobs into the JSON documents that ``etc/schema`` describes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from longshore.cli.show_events import event_document, request_document
from longshore.cli.show_json import compact, dumps, head
from longshore.model.moment import timestamp

if TYPE_CHECKING:
    from longshore.app.explain_job import Explained, Other, Room
    from longshore.app.logs import Log
    from longshore.app.show_job import ShownJob, UsedFile
    from longshore.model.attempt import Attempt


def logs_pieces(
    run: str,
    logs: Iterable[Log],
    lines: Callable[[Log], Iterable[str]] | None,
    *,
    notes: Sequence[str] = (),
    as_of: float | None = None,
) -> Iterator[str]:
    """Give logs as ``logs --json`` does, a piece at a time: what they hold need not fit into memory.

    Parameters
    ----------
    run
        Id of the run.
    logs
        The logs.
    lines
        Gives the lines of a log, where any were asked for.
    notes
        What there is to say of logs that are not among them.
    as_of
        When it was looked, in seconds since the epoch.
    """
    bare = dumps({**head("logs", as_of), "run": run, "logs": [], "notes": list(notes)})
    # No text can look like this: a quotation mark inside a string is escaped.
    before, _, behind = bare.rpartition('"logs": []')
    yield f'{before}"logs": ['
    for number, log in enumerate(logs):
        document = {
            "job": log.job,
            "index": log.index,
            "label": log.label,
            "attempt": log.attempt,
            "path": str(log.path),
            "size_b": log.size_b,
        }
        yield f"{',' if number else ''}\n    {compact(document).removesuffix('}')}"
        if lines is not None:
            yield ', "lines": ['
            for place, line in enumerate(lines(log)):
                yield f"{',' if place else ''}\n      {compact(line)}"
            yield "\n    ]"
        yield "}"
    yield f"\n  ]{behind}\n"


def job_document(job: ShownJob, *, as_of: float | None = None) -> dict[str, Any]:
    """Return a job as ``show-job --json`` gives it."""
    from longshore.cli.show_job_text import shown_command

    return {
        **head("job", as_of),
        "run": job.run,
        "name": job.name,
        "index": job.index,
        "label": job.label,
        "attempt": job.attempt,
        "attempts": job.attempts,
        "command": shown_command(job.line),
        "setup": [shown_command(line) for line in job.setup],
        "environment": dict(job.environment),
        "hidden": sorted(name for name, value in job.environment.items() if value is None),
        "request": request_document(job.request),
        "working_directory": job.working_directory,
        "inputs": [_file(file) for file in job.inputs],
        "outputs": [_file(file) for file in job.outputs],
        "tags": dict(job.tags),
        "tasks": job.tasks,
        "site": job.site,
        "cloud": job.cloud,
        "number_of_retries": job.number_of_retries,
        "retry_unless_exit": list(job.retry_unless_exit),
        "attributes": dict(job.attributes),
        "parents": list(job.parents),
        "children": list(job.children),
        "log": job.log,
        "script": job.script,
    }


def explain_job_document(job: Explained, *, as_of: float) -> dict[str, Any]:
    """Return what explains a job as ``explain --json`` gives it."""
    from longshore.cli.show_job_text import reasons

    def name_of(index: int) -> tuple[str, str]:
        # Events of a batch name its other members too, which are nobody's business here.
        return (job.name, job.label) if index == job.index else ("", "")

    return {
        **head("explain_job", as_of),
        "run": job.run,
        "name": job.name,
        "index": job.index,
        "label": job.label,
        "state": job.state.value,
        "reasons": reasons(job, now=as_of),
        "parents": job.parents,
        "waits_for": [_other(other) for other in job.waits_for],
        "comes_after": [
            {"group": group.title, "must_succeed": group.must_succeed, "left": group.left} for group in job.comes_after
        ],
        "causes": [_other(other) for other in job.causes],
        "request": request_document(job.request),
        "room": _room(job.room) if job.room else None,
        "throttles": [
            {"label": throttle.label, "max": throttle.most, "active": throttle.active} for throttle in job.throttles
        ],
        "limits": [{"name": limit.name, "max": limit.most, "taken": dict(limit.taken)} for limit in job.limits],
        "retries": job.retries,
        "retry_unless_exit": list(job.unless_exit),
        "not_before": timestamp(job.not_before, exact=True),
        "note": job.note,
        "waits_at_manager": job.waits_at_manager or None,
        "attempts": [_attempt(attempt, job.logs.get(attempt.number)) for attempt in job.attempts],
        "history": [
            _of_this_job(event_document(event, mark, run=job.run, name_of=name_of), job.index)
            for mark, event in job.events
        ],
    }


def _of_this_job(document: dict[str, Any], index: int) -> dict[str, Any]:
    """An event without the other jobs that it is about as well."""
    if document.get("jobs"):
        document["jobs"] = [member for member in document["jobs"] if member["index"] == index]
    return document


def _other(other: Other) -> dict[str, Any]:
    return {
        "name": other.name,
        "state": other.state.value,
        "attempt": _attempt(other.attempt, other.log) if other.attempt else None,
    }


def _room(room: Room) -> dict[str, Any]:
    return {
        "capacity": dict(room.capacity),
        "free": dict(room.free),
        "asked": dict(room.asked),
        "active": room.active,
        "fits": room.fits,
    }


def _attempt(attempt: Attempt, log: str | None) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "wms_id": attempt.wms_id,
        "host": attempt.host,
        "request": request_document(attempt.requested) if attempt.requested else None,
        "submitted_at": timestamp(attempt.submitted_at, exact=True),
        "started_at": timestamp(attempt.started_at, exact=True),
        "ended_at": timestamp(attempt.ended_at, exact=True),
        "queue_s": attempt.queue_s,
        "run_s": attempt.run_s,
        "cpu_s": attempt.cpu_s,
        "peak_memory_b": attempt.peak_memory_b,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "cause": attempt.cause.value if attempt.cause else None,
        "reason": attempt.reason,
        "log": log,
        "extra": dict(attempt.extra),
    }


def _file(file: UsedFile) -> dict[str, Any]:
    return {"name": file.name, "path": file.path}
