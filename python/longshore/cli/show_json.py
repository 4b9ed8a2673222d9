"""Turns reports, answers of services and errors into the JSON documents that ``etc/schema`` describes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from longshore.cli.insight_json import insight_members
from longshore.cli.show_text import wall_seconds
from longshore.contract.context import PingReport
from longshore.contract.intervention import Intervention, RestartChanges
from longshore.errors import Fault, LongshoreError
from longshore.model.moment import timestamp
from longshore.model.report import JobReport, RunReport
from longshore.model.state import EXIT_STATUS, JobState
from longshore.origin import Origin

if TYPE_CHECKING:
    from longshore.app.site_list import Listed, Shown
    from longshore.app.stage_results import StageResult
    from longshore.engine.restart_selection import RestartReason

SCHEMA_VERSION = 1
"""Additions leave it as it is; it grows when something is taken away or changes its meaning."""

_PIECE = 1000
"""Jobs that are written at once."""
_encode_lines = msgspec.json.Encoder().encode_lines
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Legal in a JSON text, or at least in a Python string, but harmful to a terminal, a line reader or an encoder."""


def report_document(
    reports: Sequence[RunReport], *, as_of: float, details: bool, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return runs as ``report --json`` gives them.

    Parameters
    ----------
    reports
        The runs, in the order to give them.
    as_of
        When the reports were true, in seconds since the epoch.
    details
        Whether to list the jobs of each run that has them, and all else there is to know of it.
    notes
        What is to be said of runs that are not among them.
    """
    runs = [_run(report, details=details) for report in reports]
    return {**head("report", as_of), "runs": runs, "notes": list(notes)}


def report_pieces(report: RunReport, *, as_of: float) -> Iterator[str]:
    """Give a run with all its jobs, a line each, as ``report --id --json`` does: a million need not be held at once.

    Parameters
    ----------
    report
        The run.
    as_of
        When the report was true, in seconds since the epoch.
    """
    bare = dumps(report_document([replace(report, jobs=())], as_of=as_of, details=True))
    # No name can look like this: a quotation mark inside a string is escaped.
    before, _, behind = bare.rpartition('"jobs": []')
    yield f'{before}"jobs": ['
    documents = map(_job, report.jobs or ())
    first = True
    while piece := list(islice(documents, _PIECE)):
        yield f"{'' if first else ','}\n        {_listed(piece)}"
        first = False
    yield f"\n      ]{behind}\n"


def _listed(documents: Sequence[Mapping[str, Any]]) -> str:
    """Documents a line each: a hundred thousand at once take a third of the time that they take one by one."""
    try:
        lines = _encode_lines(documents)
    except UnicodeEncodeError:
        return ",\n        ".join(map(compact, documents))
    # No text can hold a line feed: inside of a string it is spelled out.
    text = lines.rstrip().replace(b"\n", b",\n        ")
    # What is ASCII, but for one sign, has nothing to spell out, and asking for that takes no time.
    return text.decode("ascii") if text.isascii() and b"\x7f" not in text else _spelled_out(text.decode())


def status_document(report: RunReport, *, as_of: float | None = None) -> dict[str, Any]:
    """Return the state of one run as ``status --json`` gives it."""
    return {
        **head("status", as_of),
        "id": report.id,
        "name": report.name,
        "state": report.state.value,
        "exit_status": EXIT_STATUS[report.state],
        "counts": _counts(report.counts),
        "expected": report.expected,
        "notes": list(report.notes),
    }


def submit_document(
    run_id: str,
    name: str,
    submit_dir: str,
    *,
    service: str,
    site: str,
    jobs: int,
    notes: Sequence[str] = (),
    state: JobState | None = None,
    as_of: float | None = None,
) -> dict[str, Any]:
    """Return a run that was handed over, as ``submit --json`` gives it.

    Parameters
    ----------
    jobs
        Number of jobs, the final one included.
    state
        How the run ended, where the command waited for it.
    """
    document: dict[str, Any] = {
        **head("submit", as_of),
        "id": run_id,
        "name": name,
        "submit_dir": submit_dir,
        "service": service,
        "site": site,
        "jobs": jobs,
        "notes": list(notes),
    }
    if state is not None:
        document |= {"state": state.value, "exit_status": EXIT_STATUS[state]}
    return document


def resume_document(
    run_id: str, name: str, submit_dir: str, notes: Sequence[str] = (), *, as_of: float | None = None
) -> dict[str, Any]:
    """Return a run that was taken up again, as ``resume --json`` gives it."""
    return {
        **head("resume", as_of),
        "id": run_id,
        "name": name,
        "submit_dir": submit_dir,
        "notes": list(notes),
    }


def resume_all_document(runs: Sequence[Mapping[str, Any]], *, as_of: float | None = None) -> dict[str, Any]:
    """Return all runs that were taken up, as ``resume --all --json`` gives it."""
    return {**head("resume_all", as_of), "runs": [dict(run) for run in runs]}


def restart_document(
    run_id: str,
    name: str,
    submit_dir: str,
    *,
    labels: Mapping[str, Mapping[JobState, int]],
    reasons: Mapping[str, Mapping[RestartReason, int]],
    unfinished: int,
    changes: RestartChanges,
    set_of: int,
    submitted: bool,
    notes: Sequence[str] = (),
    as_of: float | None = None,
) -> dict[str, Any]:
    """Return what runs again, and whether it does already, as ``restart --json`` gives it."""
    return {
        **head("restart", as_of),
        "id": run_id,
        "name": name,
        "submit_dir": submit_dir,
        "submitted": submitted,
        "again": {label: {state.value: count for state, count in counts.items()} for label, counts in labels.items()},
        "reasons": {label: {why.value: count for why, count in counts.items()} for label, counts in reasons.items()},
        "unfinished": unfinished,
        "from": list(changes.from_labels),
        "set": dict(changes.set),
        "set_for": {"jobs": list(changes.selection.jobs), "labels": list(changes.selection.labels)},
        "set_of": set_of,
        "notes": list(notes),
    }


def stages_document(
    stages: Sequence[StageResult], *, submit_dir: Path | None, as_of: float | None = None
) -> dict[str, Any]:
    """Return what stages made and took, as ``acquire``, ``cluster``, ``transform`` and ``prepare`` give it."""
    return {
        **head("stages", as_of),
        "stages": [
            {
                "stage": done.stage.value,
                "made": done.made,
                "counts": dict(done.counts),
                "labels": dict(done.labels),
                "seconds": round(done.seconds, 6),
                "peak_memory_b": done.peak_memory_b,
            }
            for done in stages
        ],
        "submit_dir": str(submit_dir) if submit_dir else None,
    }


def cancel_document(reports: Sequence[RunReport], *, as_of: float | None = None) -> dict[str, Any]:
    """Return how runs stand after they were cancelled, as ``cancel --json`` gives it."""
    runs = [status_document(report, as_of=as_of) for report in reports]
    unwanted = ("schema_version", "kind", "as_of")
    return {
        **head("cancel", as_of),
        "runs": [{key: value for key, value in run.items() if key not in unwanted} for run in runs],
    }


def steer_document(report: RunReport, steering: Intervention, *, as_of: float | None = None) -> dict[str, Any]:
    """Return how a run stands after its course was changed, as ``pause``, ``hold`` and the like give it."""
    return {
        **status_document(report, as_of=as_of),
        "kind": "steer",
        "act": steering.act,
        "jobs": list(steering.selection.jobs),
        "labels": list(steering.selection.labels),
        "set": dict(steering.set),
    }


def ping_document(report: PingReport, *, as_of: float | None = None) -> dict[str, Any]:
    """Return the answer of a service as ``ping --json`` gives it."""
    return {
        **head("ping", as_of),
        "service": report.service,
        "ok": report.ok,
        "message": report.message,
        "details": dict(report.details),
        "capacity": None if report.capacity is None else dict(report.capacity),
    }


def options_document(text: str) -> dict[str, Any]:
    """Return the options of a service as ``--backend-options=-h --json`` gives them."""
    return {**head("backend_options", None), "text": text}


def sites_document(sites: Sequence[Listed], *, as_of: float) -> dict[str, Any]:
    """Return sites as ``site list --json`` gives them."""
    return {**head("sites", as_of), "sites": [_site(site) for site in sites]}


def site_document(shown: Shown, *, as_of: float) -> dict[str, Any]:
    """Return a site as ``site show --json`` gives it."""
    origins = {".".join(steps): _place(origin) for steps, (_, origin) in shown.origins.items()}
    chain = {"chain": list(shown.chain), "values": shown.values, "origins": origins}
    return {**head("site_profile", as_of), **_site(shown.listed), **chain}


def _site(site: Listed) -> dict[str, Any]:
    return {
        "name": site.name,
        "service": site.service,
        "title": site.title,
        "place": site.place,
        "origin": _place(site.origin),
        "error": site.error,
    }


def _place(origin: Origin) -> dict[str, Any]:
    return {
        "file": origin.file,
        "line": origin.line or None,
        "column": origin.column or None,
        "layer": origin.layer,
    }


def error_document(error: LongshoreError) -> dict[str, Any]:
    """Return an error as every command gives it under ``--json``."""
    origin = error.origin
    place = origin and _place(origin)
    document: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "origin": place,
        "hint": error.hint,
        "exit_status": error.exit_status,
    }
    if error.faults:
        document["problems"] = list(map(_fault, error.faults))
    return {"schema_version": SCHEMA_VERSION, "error": document}


def _fault(fault: Fault) -> dict[str, Any]:
    return {**fault._asdict(), "origin": fault.origin and _place(fault.origin)}


def compact(document: Mapping[str, Any] | str) -> str:
    """Return a document, or a text, as JSON in one line; see `dumps`."""
    try:
        text = msgspec.json.encode(document).decode()
    except UnicodeEncodeError:
        import json

        text = json.dumps(document)
    return _spelled_out(text)


def dumps(document: Mapping[str, Any]) -> str:
    r"""Return a document as indented JSON that any terminal and any encoding of it can bear.

    Names of files need not be text: what has no UTF-8 form (a lone surrogate) is written as a ``\u`` escape, and reads
    back as the same name.
    """
    try:
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    except UnicodeEncodeError:
        # Imported here: only a name that is no text needs it, and it takes ten times as long.
        import json

        text = json.dumps(document, indent=2, ensure_ascii=False)
    return _spelled_out(text)


def _spelled_out(text: str) -> str:
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def head(kind: str, as_of: float | None) -> dict[str, Any]:
    """Return the members with which every document begins."""
    return {"schema_version": SCHEMA_VERSION, "kind": kind, "as_of": timestamp(as_of, exact=True)}


def _counts(counts: Mapping[JobState, int]) -> dict[str, int]:
    """Every state, so that a reader need not ask whether it is there."""
    return {state.value: counts.get(state, 0) for state in JobState}


def _run(report: RunReport, *, details: bool) -> dict[str, Any]:
    run: dict[str, Any] = {
        "id": report.id,
        "name": report.name,
        "path": report.path,
        "service": report.service,
        "state": report.state.value,
        "expected": report.expected,
        "counts": _counts(report.counts),
        "labels": {label: _counts(counts) for label, counts in report.labels.items()},
        "operator": report.operator,
        "project": report.project,
        "campaign": report.campaign,
        "payload": report.payload,
        "site": report.site,
        "user": report.user,
        "submitted_at": timestamp(report.submitted_at, exact=True),
        "started_at": timestamp(report.started_at, exact=True),
        "finished_at": timestamp(report.finished_at, exact=True),
        "wall_s": wall_seconds(report),
        "percent_succeeded": report.percent_succeeded,
        "notes": list(report.notes),
        "global_id": report.global_id,
        "specifics": list(report.specifics),
    }
    if details and report.summary is not None:
        run |= insight_members(report.summary)
    if details and report.jobs is not None:
        run["jobs"] = [_job(job) for job in report.jobs]
    return run


def _job(job: JobReport) -> dict[str, Any]:
    return {
        "name": job.name,
        "label": job.label,
        # Encoded as its value, which to ask for takes as long as all the rest of a line.
        "state": job.state,
        "cause": job.cause,
        "reason": job.reason,
        "attempts": job.attempts,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "host": job.host,
        "started_at": timestamp(job.started_at, exact=True),
        "finished_at": timestamp(job.finished_at, exact=True),
        "run_s": job.run_s,
        "cpu_s": job.cpu_s,
        "peak_memory_b": job.peak_memory_b,
        "log": job.log,
    }
