"""OAR's dialect: scripts, calls of its programs, and what they print. Nothing here calls a program."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from longshore.model.values import YamlValue
from longshore.services.batch.answers import SubmitOutcome, SubmitReplies
from longshore.services.batch.dialect import SUBMIT_S, Dialect, ProgramCall, Programs, ProgramVariables, Question
from longshore.services.batch.jobs import AccountRow, ClusterFacts, QueueRow, TaskId
from longshore.services.batch.script import JobSpec
from longshore.system.programs import ProgramResult
from longshore_oar.parse import STATES, account_rows, cores_per_machine, queue_rows
from longshore_oar.script import DIRECTIVE, INDEX, options, read_directives, read_types

_REPLIES = SubmitReplies(
    # The id of an array is the last one. The id of a refused job is negative.
    re.compile(r"OAR_(?:JOB|ARRAY)_ID=(\d+)"),
    [
        (SubmitOutcome.UNREACHABLE, r"DB connection error|can't connect to|could not connect to server"),
        (SubmitOutcome.REFUSED, r"not enough resources|bad resource request|does not exist|unknown job type"),
    ],
)
_ENDED_S = 300
"""For how long the queue lists jobs that are over."""
_CALL_TASKS = 1000
"""Most tasks in the condition of one call."""
_KILL_DELAY_S = 5
_KILL_LATER = '(sleep "$1"; exec oardel --sql "$2") >/dev/null 2>&1 </dev/null &'
"""Deletes jobs after some seconds, and returns at once: the kit waits only a moment for a command."""
_ALREADY = (5, 6)
"""Exit statuses of oardel for a job that is not running, and for one that was deleted before."""


class OarDialect(Dialect):
    """OAR, as the frontend that a site's jobs are submitted from."""

    name = "oar"
    title = "OAR"
    programs = Programs(submit="oarsub", queue="oarstat", accounting="oarstat", cancel="oardel")
    states = STATES
    submit_replies = _REPLIES
    variables = ProgramVariables(dropped=re.compile(r"(OAR|OARDO)_.*"))
    key_names = frozenset(
        (
            "cluster",
            "coreResource",
            "hostResource",
            "killDelay",
            "memoryPerCore",
            "memoryProperty",
            "properties",
            "types",
        )
    )
    directive = DIRECTIVE
    task_index = f'"${INDEX}"'
    release_hint = "'oarresume' lets it go"

    def cluster_key(self, environment: Mapping[str, str]) -> str:
        """Return the name of the cluster, or of this frontend: no program tells the cluster."""
        return str(self.settings.get("cluster") or platform.node())

    def check_job(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for unknown keys, and for types that cannot be."""
        super().check_job(own)
        read_types(own)

    def directives(self, job: JobSpec) -> Iterator[str]:
        """Return the options of oarsub."""
        return options(job)

    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return a call of oarsub, with the script as the command."""
        directives, command = read_directives(script)
        return ProgramCall(("oarsub", *directives, *options, command), timeout_s=SUBMIT_S)

    def read_answer(self, call: ProgramCall, answer: ProgramResult) -> ProgramResult:
        """Return an answer of oardel as a success where the jobs are over, or will be."""
        if call.argv[0] == "oardel" and answer.status in _ALREADY:
            return msgspec.structs.replace(answer, status=0)
        return answer

    def facts_calls(self) -> Sequence[ProgramCall]:
        """Return a call that needs the database, and the one for the version."""
        return (self.query_call("oarstat", "-J", "--sql", "1 = 0"), self.query_call("oarstat", "-V"))

    def parse_facts(self, outputs: Sequence[str]) -> ClusterFacts:
        """Return the facts of the cluster. OAR keeps all jobs: its listing is the accounting."""
        found = re.search(r"version : (\S+)", outputs[1])
        return ClusterFacts(version=found[1] if found else "", name=self.cluster_key({}), accounting=True)

    def queue_call(self, user: str) -> ProgramCall:
        """Return the call that lists a user's jobs."""
        since = int(time.time()) - _ENDED_S
        over = f"state NOT IN ('Terminated', 'Error') OR stop_time > {since}"
        return ProgramCall(("oarstat", "-J", "--sql", f"job_user = '{user}' AND ({over})"))

    def parse_queue(self, output: str) -> Iterator[QueueRow]:
        """Return a row per job."""
        return queue_rows(output)

    def accounting_calls(self, tasks: Iterable[TaskId], known_fields: str) -> Iterator[ProgramCall]:
        """Return the call that lists the jobs of these arrays in full."""
        for these in _chunks(tasks):
            yield ProgramCall(("oarstat", "-J", "-f", "--sql", condition(these)))

    def accounting_by_name_call(self, name: str, *, since: str, user: str) -> ProgramCall:
        """Return the call that lists the jobs of a name."""
        return ProgramCall(("oarstat", "-J", "-f", "--sql", _named(name, user)))

    def parse_accounting(self, output: str, known_fields: str = "") -> dict[TaskId, AccountRow]:
        """Return the jobs of one of these calls."""
        return {row.id: row for row in account_rows(output)}

    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return calls that delete jobs: oardel kills at once, so those that run get TERM before."""
        for chunk in _chunks(tasks):
            these = condition(chunk)
            yield ProgramCall(("oardel", "--sql", f"({these}) AND state IN ('Waiting', 'Hold')"))
            if not waiting_only:
                yield from self._kill_calls(f"({these}) AND state NOT IN ('Terminated', 'Error')")

    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call that deletes the jobs of a name."""
        return ProgramCall(("oardel", "--sql", f"({_named(name, user)}) AND state NOT IN ('Terminated', 'Error')"))

    def capacity_question(self) -> Question[Mapping[str, int] | None]:
        """Return the question for the cores of the largest machine."""
        return Question(self.query_call("oarnodes", "-J"), cores_per_machine)

    def _kill_calls(self, these: str) -> Iterator[ProgramCall]:
        delay = str(self.settings.get("killDelay") or _KILL_DELAY_S)
        yield ProgramCall(("oardel", "-s", "TERM", "--sql", f"{these} AND state = 'Running'"))
        yield ProgramCall(("sh", "-c", _KILL_LATER, "sh", delay, these))


def condition(tasks: Iterable[TaskId]) -> str:
    """Return the condition on OAR's table of jobs that holds for these tasks."""
    single: list[int] = []
    arrays: dict[int, list[int]] = {}
    for task in tasks:
        if task.index is None:
            single.append(task.job)
        else:
            arrays.setdefault(task.job, []).append(task.index + 1)
    parts = [f"array_id IN ({', '.join(map(str, sorted(single)))})"] if single else []
    for job, indices in sorted(arrays.items()):
        parts.append(f"(array_id = {job} AND array_index IN ({', '.join(map(str, sorted(indices)))}))")
    return " OR ".join(parts) or "1 = 0"


def _chunks(tasks: Iterable[TaskId]) -> Iterator[list[TaskId]]:
    """Divide tasks: the words of a call must not be too long."""
    all_tasks = list(tasks)
    for first in range(0, len(all_tasks), _CALL_TASKS):
        yield all_tasks[first : first + _CALL_TASKS]


def _named(name: str, user: str) -> str:
    return f"job_name = '{name}' AND job_user = '{user}'"
