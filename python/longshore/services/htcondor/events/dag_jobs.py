"""Jobs of the DAGs of a run: their nodes, their records, and their numbers in the newest submission."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from longshore.contract.service import Mark, RunPaths, StaleMarkError
from longshore.model.event import Event, JobMap, Steer, translate_events
from longshore.model.states import JobState, state_of_run
from longshore.model.workflow import Request
from longshore.model.workflow_lines import WorkflowHeader
from longshore.rundir.job_table import JobTable, read_header
from longshore.rundir.submissions import read_job_maps, read_manifest
from longshore.runstate.run_state import JOB_STATES, RunState
from longshore.services.htcondor.codes import FINAL_NODE
from longshore.services.htcondor.submission_record import DagSubmission

_MAX_DIGITS: Final = 9
"""Digits of the largest number of a job."""

_PREFIX_END: Final = "/"

_ValueT = TypeVar("_ValueT")


class NodeRetries(msgspec.Struct, frozen=True):
    """Number of retries by DAGMan itself per job that has any: after all failures, or after removals by a person."""

    failures: Mapping[int, int] = msgspec.field(default_factory=dict)
    removals: Mapping[int, int] = msgspec.field(default_factory=dict)


class DagNodes:
    """Job numbers of the nodes of a DAG.

    The DAG has `size` jobs; with `final`, the last is the final job. `numbers` has the job numbers of the newest
    submission, by those of the DAG; ``None`` if they are equal.
    """

    def __init__(self, size: int, *, final: bool, numbers: Mapping[int, int] | None = None) -> None:
        self._size = size
        self._final = size - 1 if final else -1
        self._numbers = numbers

    def job_of(self, node: str) -> int:
        """Number of a node's job in the newest submission; -1 for a node without one."""
        number = node[1:]
        if node[:1] == "j" and number.isdecimal() and len(number) <= _MAX_DIGITS:
            job = int(number)
            if job >= self._size:
                job = -1
        else:
            job = self._final if node == FINAL_NODE else -1
        return job if self._numbers is None else self._numbers.get(job, -1)

    def jobs(self) -> Iterable[int]:
        """Numbers in the newest submission, in order."""
        return range(self._size) if self._numbers is None else sorted(self._numbers.values())


class NamedNodes(DagNodes):
    """Job numbers of the nodes of a DAG that BPS made: the nodes have the names of the jobs."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(len(names), final=False)
        self._jobs = {name: job for job, name in enumerate(names)}

    def job_of(self, node: str) -> int:
        """Number of a node's job; -1 for a node without one."""
        return self._jobs.get(node, -1)


class DagJobs:
    """Jobs of the DAG of one submission.

    Parameters
    ----------
    run
        The run directory.
    header
        Header of the workflow of its newest submission.
    job_map
        Map to the newest submission; ``None`` if the numbers are equal.
    submission
        Number of the submission's manifest.
    is_named
        Whether the nodes have the names of the jobs.
    """

    def __init__(
        self,
        run: RunPaths,
        header: WorkflowHeader,
        *,
        job_map: JobMap | None = None,
        submission: int = 0,
        is_named: bool = False,
    ) -> None:
        self.run = run
        self.job_map = job_map
        self._workflow = _workflow_of(run, submission) if job_map is not None else None
        header = header if self._workflow is None else read_header(run, workflow=self._workflow)
        self.size = header.jobs
        self.nodes = (
            NamedNodes(self.table.names)
            if is_named
            else DagNodes(header.jobs, final=header.final, numbers=job_map.jobs if job_map is not None else None)
        )

    @cached_property
    def table(self) -> JobTable:
        """Records of the jobs, by their numbers in the DAG."""
        return JobTable(self.run, workflow=self._workflow)

    @property
    def newest_numbers(self) -> Sequence[int]:
        """Number in the newest submission per job of the DAG; -1 for jobs that it lacks."""
        if self.job_map is None:
            return range(self.size)
        return [self.job_map.jobs.get(job, -1) for job in range(self.size)]

    def own_number(self, job: int) -> int:
        """Number in the DAG of a job that has the given number in the newest submission."""
        return job if self.job_map is None else self._own_numbers[job]

    @cached_property
    def _own_numbers(self) -> dict[int, int]:
        return {} if self.job_map is None else {new: own for own, new in self.job_map.jobs.items()}

    def renumber(self, values: Mapping[int, _ValueT]) -> Mapping[int, _ValueT]:
        """Values by the job numbers of the newest submission, without those of jobs that it lacks."""
        if self.job_map is None:
            return values
        known = self.job_map.jobs
        return {known[job]: value for job, value in values.items() if job in known}

    def node_retries(self, submission: DagSubmission) -> NodeRetries:
        """Return the retries by DAGMan itself, by the newest numbers."""
        return NodeRetries(self.renumber(submission.retries), self.renumber(submission.removal_retries))

    def earlier_requests(self) -> dict[int, Request]:
        """Requests of the workflow that the DAG was made from, by the newest numbers; empty if that is the newest."""
        known = self.job_map.jobs if self.job_map is not None else {}
        return {number: self.table.settings(job).request for job, number in known.items()}

    def translate(self, events: Iterable[Event]) -> Iterator[Event]:
        """Events with the job numbers of the newest submission."""
        return iter(events) if self.job_map is None else translate_events(events, self.job_map)


class RunDags:
    """DAGs of all submissions of a run.

    Attributes
    ----------
    jobs
        Jobs of the DAG that is read now, see `begin`.
    has_failed
        Whether its DAGMan ended with a failure.
    """

    jobs: DagJobs

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self.has_failed = False

    @cached_property
    def header(self) -> WorkflowHeader:
        """Header of the newest workflow."""
        return read_header(self._run)

    @cached_property
    def _maps(self) -> Mapping[int, JobMap]:
        return read_job_maps(self._run)

    @property
    def numbering(self) -> int:
        """The submission whose job numbers all events have; 0 for the first."""
        return max(self._maps) + 1 if self._maps else 0

    def split_mark(self, mark: Mark) -> tuple[Mark, Mark]:
        """Prefix of all marks, and the rest of this one; the first submission's job numbers have no prefix.

        Raises `StaleMarkError` if the mark belongs to events with other job numbers.
        """
        prefix = f"{self.numbering}{_PREFIX_END}" if self.numbering else ""
        rest = mark.removeprefix(prefix)
        if mark and (not mark.startswith(prefix) or _PREFIX_END in rest):
            raise StaleMarkError
        return prefix, rest

    def begin(self, submission: DagSubmission) -> DagJobs:
        """Jobs of the DAG of a submission, whose events are read next."""
        self.jobs, self.has_failed = self._jobs_of(submission), False
        return self.jobs

    def requests_in(self, submissions: Iterable[DagSubmission]) -> dict[int, Request]:
        """Requests per job of the newest of these DAGs that the newest workflow does not say.

        A change in one restart also holds for later ones.
        """
        found = self.jobs.earlier_requests()
        found |= {
            job: steer.request
            for submission in submissions
            if submission.steers
            for steer in self._jobs_of(submission).translate(submission.steers)
            if isinstance(steer, Steer) and steer.request is not None
            for job in steer.jobs or ()
        }
        return found

    def final_state(self, state: RunState) -> JobState:
        """State of the run at the end of the DAG; jobs that only later submissions have do not count."""
        known = self.jobs.job_map
        if known is None:
            return state.compute_state()
        counts = Counter(JOB_STATES[state.code[job]] for job in known.jobs.values())
        found = state_of_run(counts, expected=len(known.jobs), cancelled=state.is_cancelled)
        # What failed may be gone since.
        return JobState.FAILED if found is JobState.SUCCEEDED and self.has_failed else found

    def _jobs_of(self, submission: DagSubmission) -> DagJobs:
        number = submission.life.s
        return DagJobs(
            self._run,
            self.header,
            job_map=self._maps.get(number),
            submission=number,
            is_named=bool(submission.dag),
        )


def _workflow_of(run: RunPaths, submission: int) -> Path | None:
    manifest = read_manifest(run, submission)
    return run.root / manifest.workflow if manifest else None
