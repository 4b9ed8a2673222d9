"""Describes the state of DAGMan's job in lines of text for a run's report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from longshore.contract.service import RunPaths, Unreachable
from longshore.model.wording import format_moment
from longshore.rundir.job_table import JobTable
from longshore.services.htcondor.codes import JobStatusCode
from longshore.services.htcondor.events.dag_jobs import NamedNodes
from longshore.services.htcondor.events.dagman_end import DagmanEnd, barrier_failures, dag_errors, submit_failures
from longshore.services.htcondor.events.job_phases import JobPhases, status_line
from longshore.services.htcondor.render.dag_edges import BARRIER_SCRIPT
from longshore.services.htcondor.render.service_nodes import PROVISIONER_SCRIPT
from longshore.services.htcondor.schedd import client
from longshore.services.htcondor.schedd.client import Ad
from longshore.services.htcondor.submission_record import SubmissionRecord, dagman_out, nodes_log

DAGMAN_ATTRIBUTES: Final = ("JobStatus", "HoldReason", "DAG_NodesQueued", "DAG_NodesReady", "JobCoolDownExpiration")
"""Attributes of DAGMan's job that `lines` reads."""


_UNKNOWN: Final = "which do not tell data IDs, nor inputs and outputs of jobs"


def lines(
    run: RunPaths,
    record: SubmissionRecord,
    found: list[Ad] | Unreachable | None,
    end: DagmanEnd | None,
    job_phases: Callable[[], JobPhases],
) -> Iterator[str]:
    """Lines on DAGMan's job, its log, its end, and the provisioning job.

    `found` is DAGMan's job in the queue; ``None`` if the queue was not queried, because the run is over. `end` is how
    DAGMan's job ended, if its log says so. `job_phases` is called only if the run has a provisioning job.
    """
    last = record.last_submission
    assert last is not None
    if record.pending is not None:
        life = record.pending.life
        yield (
            f"Another {life.by} was begun {format_moment(life.t)} on '{life.host}' and is not "
            "confirmed; if it was interrupted, the same command resolves it"
        )
    yield (
        f"DAGMan: job {client.format_id(last.cluster)} of the schedd '{last.schedd}', "
        f"submitted {format_moment(last.life.t)} by {last.life.by}"
    )
    if last.dag:
        yield f"BPS submitted it: from the files in '{Path(last.dag).parent}', {_UNKNOWN}"
    number, files = len(record.submissions), last.files(run)
    try:
        written = nodes_log(run, record, number).stat().st_mtime
    except OSError:
        yield "Its log does not exist yet: DAGMan has submitted nothing"
    else:
        yield f"Its log was last written {format_moment(written)}"
    if end is not None:
        yield from _ended(dagman_out(run, record, number), end)
    if found is not None:
        yield from _in_queue(run, record, found)
        yield from _not_submitted(run, record)
    if (files.wms / BARRIER_SCRIPT).exists():
        for said in barrier_failures(dagman_out(run, record, number)):
            script = f"'{(files.wms / BARRIER_SCRIPT).relative_to(run.root).as_posix()}' needs python3"
            yield f"The barrier of a group failed, so the group never runs: {said} ({script})"
    if (files.wms / PROVISIONER_SCRIPT).exists():
        yield status_line(job_phases().provisioner, files.wms.relative_to(run.root).as_posix())


def _in_queue(run: RunPaths, record: SubmissionRecord, found: list[Ad] | Unreachable) -> Iterator[str]:
    """Lines on DAGMan's job in the queue: unreachable schedd, hold, or cool-down."""
    last = record.last_submission
    assert last is not None
    if isinstance(found, Unreachable):
        yield f"The schedd does not answer; the state is that of the log: {found.why}"
    elif found and found[0].get("JobStatus") == JobStatusCode.HELD:
        reason = found[0].get("HoldReason") or "no reason is given"
        yield f"DAGMan itself is held: {reason}; to release it: longshore resume {client.format_id(last.cluster)}"
    elif found and found[0].get("JobStatus") == JobStatusCode.IDLE and found[0].get("JobCoolDownExpiration"):
        # A cool-down: the schedd starts it again after some minutes.
        yield f"DAGMan itself waits: HTCondor starts it again {format_moment(float(found[0]['JobCoolDownExpiration']))}"
        if not dagman_out(run, record, len(record.submissions)).exists():
            folder = last.files(run).wms
            yield f"It could not start in '{folder}': the directory must exist on the schedd's host and be open to you"


def _not_submitted(run: RunPaths, record: SubmissionRecord) -> Iterator[str]:
    """Line on the nodes that a running DAGMan gave up submitting; no event says so yet."""
    said = dagman_out(run, record, len(record.submissions))
    last = record.last_submission
    is_named = last is not None and bool(last.dag)
    if not is_named and not submit_failures(said, sys.maxsize):
        return
    jobs = JobTable(run)
    failures = submit_failures(said, len(jobs), NamedNodes(jobs.names).job_of if is_named else None)
    if not failures:
        return
    first = min(failures)
    name = jobs[first].name
    which = f"job '{name}'" if len(failures) == 1 else f"{len(failures):,} jobs, '{name}' among them"
    yield f"For {which}: {failures[first]}; reported as failed when DAGMan ends"


def _ended(said: Path, end: DagmanEnd) -> Iterator[str]:
    """Lines on the end of DAGMan itself, whose messages `said` has: its removal, its errors, or a failed start."""
    if end.is_removed and end.reason:
        yield f"DAGMan ended {format_moment(end.at)}: {end.reason}"
    why = dag_errors(said)
    yield from (f"DAGMan says: {words}" for words in why)
    if why:
        yield f"All its messages are in '{said}'"
    elif not said.exists() and (words := _last_line(said.with_name("run.dag.lib.err"))):
        yield f"DAGMan did not start: {words}"


def _last_line(path: Path) -> str:
    try:
        found = path.read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(found) if line.strip()), "")
