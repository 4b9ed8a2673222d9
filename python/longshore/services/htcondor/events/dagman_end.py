"""How and why DAGMan ended, by its job's log or the schedd's history, and the failures of jobs that no log records."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import Unreachable
from longshore.errors import LongshoreError, UnreachableError
from longshore.services.htcondor.codes import FINAL_NODE, EventType, JobStatusCode
from longshore.services.htcondor.events.dag_jobs import DagJobs, NamedNodes
from longshore.services.htcondor.events.job_phases import JobPhase, JobPhases
from longshore.services.htcondor.events.log_records import UserLog, parse_reason, parse_termination
from longshore.services.htcondor.schedd.client import CLOCKS_S, CondorClient
from longshore.services.htcondor.submission_record import DagSubmission

# How and why DAGMan ended: by the log of its own job, else by the schedd's history.


class DagmanEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of DAGMan's job."""

    at: float
    is_removed: bool
    """Whether it was removed, or vanished without a record."""
    reason: str = ""
    """Reason of the removal, or the signal that ended it; empty if it exited, or if no reason is known."""
    exit: int | None = None
    """Exit code; ``None`` if it has none, or if it is not known."""


def read_dagman_end(path: Path, cluster: int) -> DagmanEnd | None:
    """The end of DAGMan's job `cluster` by its log, which may contain earlier submissions; ``None`` if not over."""
    end: DagmanEnd | None = None
    for record in UserLog(path).read_records():
        if record.cluster != cluster:
            continue
        if record.event_type == EventType.TERMINATED:
            ending = parse_termination(record.body)
            reason = (ending.reason or "") if ending.exit is None else ""
            end = DagmanEnd(at=record.at, is_removed=ending.exit is None, reason=reason, exit=ending.exit)
        elif record.event_type == EventType.ABORTED:
            end = DagmanEnd(at=record.at, is_removed=True, reason=parse_reason(record.body))
        elif record.event_type == EventType.EXECUTE:
            end = None
    return end


# The log of another host may be visible late: then the schedd's history tells the end.


_ATTRIBUTES: Final = ("JobStatus", "ExitCode", "CompletionDate")


class DagmanHistory:
    """Cached ends of DAGMan jobs that exited, by constraint."""

    def __init__(self) -> None:
        self._ends: dict[str, DagmanEnd] = {}

    def find_end(
        self, client: CondorClient, constraint: str, submission: DagSubmission
    ) -> DagmanEnd | Unreachable | None:
        """DAGMan's end by the history; ``None`` if it was removed, or is not in the history.

        `constraint` is met by DAGMan's job of the submission `submission`.
        """
        if (end := self._ends.get(constraint)) is not None:
            return end
        try:
            # A history may be long: the search stops at the time of the submission.
            before = f"EnteredCurrentStatus < {int(submission.life.t) - CLOCKS_S}"
            found = client.query_history(constraint, _ATTRIBUTES, since=before)
        except UnreachableError as error:
            return Unreachable(why=error.message)
        except LongshoreError:
            # Some schedds do not allow reading their history.
            return None
        if not found or found[0].get("JobStatus") != JobStatusCode.COMPLETED or "ExitCode" not in found[0]:
            return None
        at = float(found[0].get("CompletionDate") or 0)
        end = self._ends[constraint] = DagmanEnd(at=at, is_removed=False, exit=int(found[0]["ExitCode"]))
        return end


# Failures of jobs that no log records, by the end of DAGMan and its messages, ``run.dag.dagman.out``.


_STAMP: Final = rb"\n\d\d/\d\d/\d\d(?:\d\d)? [\d:.]+ "
_FAILED_SUBMIT: Final = re.compile(rb"Shortcutting node (\S+) retries because of submit failure")
_FAILED_BARRIER: Final = re.compile(
    rb"PRE Script of (?:Node|Job) (?:wms_noop_)?g\d+ (?:failed|died)[^\n]*", re.IGNORECASE
)
_SUBMIT_ERROR: Final = re.compile(_STAMP + rb"((?:ERROR|Error|submit error)[^\n]*)")
_ERROR: Final = re.compile(_STAMP + rb"((?:ERROR|Warning is fatal error)\b[^\n]*)")
_JOB_ERRORS: Final = (b"ERROR: the following", b"ERROR: a node failed")
"""Prefixes of messages that only report failed jobs."""
_MAX_ERRORS: Final = 3
_REASON_BYTES: Final = 4000
"""Bytes before the message that a node is given up, to search for the reason."""


def submit_failures(path: Path, size: int, job_of: Callable[[str], int] | None = None) -> dict[int, str]:
    """Reasons why jobs could not be submitted; `size` is the number of jobs, the file may be missing.

    `job_of` gives the number of a node's job, for nodes whose names do not contain it.
    """
    reasons: dict[int, str] = {}
    for failure in _matches(path, _FAILED_SUBMIT):
        node = _text(failure[1])
        job = job_of(node) if job_of is not None else _number_in(node, size)
        if 0 <= job < size:
            start = failure.start()
            errors = _SUBMIT_ERROR.findall(failure.string, max(0, start - _REASON_BYTES), start)
            reasons[job] = ": ".join(["DAGMan could not submit it", *map(_text, errors[-1:])])
    return reasons


def _number_in(node: str, size: int) -> int:
    if node == FINAL_NODE:
        return size - 1
    return int(node[1:]) if re.fullmatch(r"j\d{1,9}", node) else -1


def barrier_failures(path: Path) -> list[str]:
    """Messages on barriers between groups whose script failed: jobs behind one never run. The file may be missing."""
    return [_text(failure[0]) for failure in _matches(path, _FAILED_BARRIER)]


def dag_errors(path: Path) -> list[str]:
    """Messages on errors of the DAG or its environment, not on failed jobs. The file may be missing."""
    errors = (error[1] for error in _matches(path, _ERROR) if not error[1].startswith(_JOB_ERRORS))
    return list(islice(dict.fromkeys(map(_text, errors)), _MAX_ERRORS))


def _matches(path: Path, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    # An empty file cannot be mapped.
    with (
        suppress(OSError, ValueError),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        yield from pattern.finditer(text)


def _text(message: bytes) -> str:
    return message.decode("utf-8", "replace").strip()


def explain_unsubmitted(
    jobs: DagJobs, messages: Path, end: DagmanEnd, phases: JobPhases, *, any_log: bool
) -> Mapping[int, str]:
    """Reasons for the failure of jobs that DAGMan never submitted.

    The file `messages` of DAGMan may be missing. `phases` are those at the end. `any_log` says whether DAGMan submitted
    anything.
    """
    job_of = jobs.nodes.job_of if isinstance(jobs.nodes, NamedNodes) else None
    failures = jobs.renumber(submit_failures(messages, jobs.size, job_of))
    if end.is_removed:
        return failures
    errors = dag_errors(messages)
    if errors and not any_log:
        return {**failures} | dict.fromkeys(_ready(jobs, phases), f"DAGMan refuses to run the graph: {errors[0]}")
    if end.exit and not (failures or phases.has_failures or phases.is_cancelled):
        # No job failed: the error is DAGMan's own.
        why = [*barrier_failures(messages), *reversed(errors)][:1]
        words = ": ".join([f"DAGMan ended with exit code {end.exit}", *why])
        return dict.fromkeys(_ready(jobs, phases), words)
    return failures


def _ready(jobs: DagJobs, phases: JobPhases) -> Iterator[int]:
    """Jobs that have not started although all their parents and barriers are over."""
    numbers, table = jobs.newest_numbers, jobs.table
    phase = [JobPhase.OVER if number < 0 else phases.phase[number] for number in numbers]
    behind = {
        job
        for barrier in table.barriers
        if any(phase[before] != JobPhase.OVER for before in barrier.after)
        for job in barrier.before
    }
    # The final job waits for all others.
    first = table.parents[:-1] if table.header.final else table.parents
    for job, parents in enumerate(first):
        if (
            phase[job] == JobPhase.IDLE
            and job not in behind
            and all(phase[parent] == JobPhase.OVER for parent in parents)
        ):
            yield numbers[job]
