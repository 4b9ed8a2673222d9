"""Minibatch's dialect: scripts, calls of its programs, and what they print. Nothing here calls a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from longshore.services.batch.answers import SubmitOutcome, SubmitReplies
from longshore.services.batch.dialect import (
    SUBMIT_S,
    Dialect,
    ProgramCall,
    Programs,
    ProgramVariables,
    Question,
    calls_with,
)
from longshore.services.batch.jobs import ClusterFacts, QueueRow, StateTable, TaskId
from longshore.services.batch.script import JobSpec


class MinibatchDialect(Dialect):
    """Minibatch, as the map ``minikit`` of a site selects its queue."""

    name = "minikit"
    title = "minibatch"
    programs = Programs(submit="mb-submit", queue="mb-queue", accounting="", cancel="mb-cancel")
    states = StateTable(waiting=("waiting",), running=("running",), causes={})
    submit_replies = SubmitReplies(re.compile(r"(\d+)"), [(SubmitOutcome.REFUSED, "a job can have")])
    variables = ProgramVariables(cluster={"spool": ("MINIBATCH_SPOOL",)}, kept=frozenset({"MINIBATCH_CPUS"}))
    key_names = frozenset({"spool"})
    directive = "#MB"

    def directives(self, job: JobSpec) -> Iterator[str]:
        """Return the options of mb-submit."""
        yield f"-n {job.name} -c {job.batch.request.cpus}"

    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return a call of mb-submit, which reads the script from its input."""
        return ProgramCall(("mb-submit", *options, "-"), stdin=script, timeout_s=SUBMIT_S)

    def facts_calls(self) -> Sequence[ProgramCall]:
        """Return the call that shows whether minibatch answers."""
        return (self.query_call("mb-queue", "--cpus"),)

    def parse_facts(self, outputs: Sequence[str]) -> ClusterFacts:
        """Return the facts of minibatch: it has no arrays and no accounting."""
        return ClusterFacts(version="1", name="minibatch", max_array=1)

    def queue_call(self, user: str) -> ProgramCall:
        """Return the call of mb-queue, whose jobs are all of one user."""
        return self.query_call("mb-queue")

    def parse_queue(self, output: str) -> Iterator[QueueRow]:
        """Return a row per line: id, name and state."""
        for number, name, state in (line.split() for line in output.splitlines()):
            yield QueueRow(
                id=TaskId(int(number)), raw_id=number, state=state, reason="", started_at=None, node="", name=name
            )

    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return the calls of mb-cancel."""
        return calls_with(("mb-cancel", "-g", "5", *(("-w",) if waiting_only else ())), tasks)

    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call of mb-cancel for the jobs of a name."""
        return ProgramCall(("mb-cancel", "-g", "5", name))

    def capacity_question(self) -> Question[Mapping[str, int] | None]:
        """Return the question for the number of processors."""
        call = self.query_call("mb-queue", "--cpus")
        return Question(call, lambda text: {"cpus": int(text)} if text.strip().isdecimal() else None)
