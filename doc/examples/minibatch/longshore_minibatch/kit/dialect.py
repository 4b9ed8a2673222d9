"""Minibatch's dialect: scripts, calls of its programs, and what they print. Nothing here calls a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import jinja2

from longshore.batch.dialect import (
    SUBMIT_S,
    BatchScripts,
    Dialect,
    ProgramCall,
    Programs,
    Question,
    SubmissionReply,
    SubmitOutcome,
)
from longshore.batch.jobs import ClusterFacts, QueuePhase, QueueRow, StateTable, TaskId
from longshore.contract.batch import Batch
from longshore.contract.context import RunPaths
from longshore.engine.job_wrapper import BatchFiles, scratch_line
from longshore.world.processes.shell import ProgramResult


class MinibatchScripts(BatchScripts):
    """Scripts of a run's batches; minibatch has no arrays, so each has one member."""

    def __init__(self, run: RunPaths, settings: Mapping[str, object], template: str) -> None:
        self._run = run
        self._scratch = str(settings.get("scratch") or "")
        self._template = jinja2.Template(template, keep_trailing_newline=True)

    def text(self, batch: Batch) -> str:
        """Render the script of a batch."""
        command = f"{scratch_line(self._scratch)}exec {BatchFiles(self._run, batch.tag).command()}"
        name, cpus = self.name(batch.tag), batch.request.cpus
        return str(self._template.render(name=name, cpus=cpus, command=command))

    def name(self, tag: str) -> str:
        """Return the name of a batch's job."""
        return tag


class MinibatchDialect(Dialect):
    """Minibatch, as the map ``minikit`` of a site selects its queue."""

    name = "minikit"
    title = "minibatch"
    programs = Programs(submit="mb-submit", queue="mb-queue", accounting="", cancel="mb-cancel")
    states = StateTable(phases={"waiting": QueuePhase.WAITING, "running": QueuePhase.RUNNING}, causes={})
    required_variables = frozenset({"PATH", "MINIBATCH_SPOOL", "MINIBATCH_CPUS"})

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with the spool of the site."""
        spool = self.settings.get("spool")
        return {**inherited, "MINIBATCH_SPOOL": str(spool)} if spool else dict(inherited)

    def cluster_key(self, environment: Mapping[str, str]) -> str:
        """Return the spool."""
        return environment.get("MINIBATCH_SPOOL", "")

    def scripts(
        self, run: RunPaths, settings: Mapping[str, object], template: str, facts: ClusterFacts | None
    ) -> BatchScripts:
        """Return the writer of a run's scripts."""
        return MinibatchScripts(run, settings, template)

    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return a call of mb-submit, which reads the script from its input."""
        return ProgramCall(("mb-submit", *options, "-"), stdin=script, timeout_s=SUBMIT_S)

    def submit_reply(self, answer: ProgramResult) -> SubmissionReply:
        """Return the meaning of what mb-submit printed."""
        if answer.ok and answer.out.strip().isdecimal():
            return SubmissionReply(SubmitOutcome.ACCEPTED, int(answer.out))
        if answer.status is None:
            return SubmissionReply(SubmitOutcome.UNSURE)
        hopeless = "a job can have" in answer.err
        return SubmissionReply(SubmitOutcome.HOPELESS if hopeless else SubmitOutcome.REFUSED)

    def facts_calls(self) -> Sequence[ProgramCall]:
        """Return the call that shows whether minibatch answers."""
        return (self.query_call("mb-queue", "--cpus"),)

    def parse_facts(self, outputs: Sequence[str]) -> ClusterFacts:
        """Return what is known: there are no arrays, and no accounting."""
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
        """Return one call of mb-cancel."""
        words = ("mb-cancel", "-g", "5", *(("-w",) if waiting_only else ()))
        yield ProgramCall((*words, *map(str, tasks)))

    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call of mb-cancel for the jobs of a name."""
        return ProgramCall(("mb-cancel", "-g", "5", name))

    def capacity_question(self) -> Question[Mapping[str, int] | None]:
        """Return the question for the number of processors."""
        call = self.query_call("mb-queue", "--cpus")
        return Question(call, lambda text: {"cpus": int(text)} if text.strip().isdecimal() else None)
