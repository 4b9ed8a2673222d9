"""Dialect: all that one workload manager has of its own, as pure functions and tables.

A dialect renders a request into a script, names the programs to call, and parses what they print. It calls nothing and
keeps no state: `longshore.batch.commands.client.BatchClient` runs the programs.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from longshore.batch.cluster_names import Association, PartitionState, Qos
from longshore.batch.jobs import AccountRow, ClusterFacts, QueueRow, StateTable, TaskId
from longshore.batch.records import BatchRecord
from longshore.contract.batch import Batch, Urgency
from longshore.contract.context import RunPaths, Unreachable
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow.allocation import Allocation
from longshore.model.workflow.request import Request
from longshore.world.processes.shell import ProgramResult

_Answer_co = TypeVar("_Answer_co", covariant=True)
SHORT_S: Final = 15.0
"""Time limit of a query that answers at once or not at all, in seconds."""
QUERY_S: Final = 60.0
"""Time limit of a query, in seconds."""
SUBMIT_S: Final = 90.0
"""Time limit of a submission, in seconds: longer than the programs' own, so that a late reply is still read."""


class ProgramCall(msgspec.Struct, frozen=True):
    """A call of one of the workload manager's programs: words, standard input, and time limit."""

    argv: tuple[str, ...]
    stdin: str = ""
    timeout_s: float = QUERY_S
    otherwise: ProgramCall | None = None
    """Call to make where the answer to this one is useless (`Dialect.is_useless`)."""


class Question(msgspec.Struct, Generic[_Answer_co], frozen=True):
    """A call, and how to read what it prints."""

    call: ProgramCall
    parse: Callable[[str], _Answer_co]


class SubmitOutcome(StrEnum):
    """Meaning of the reply to a submission."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """The request was refused; another time it may be accepted."""
    HOPELESS = "hopeless"
    """The request names unknown things or exceeds what exists: it will always be refused."""
    THROTTLED = "throttled"
    """The job was not accepted, and a later submission may be."""
    UNREACHABLE = "unreachable"
    """Nothing was decided, as no controller was reached: a later submission may be accepted."""
    TOO_LARGE = "too large"
    """The batch and the queued jobs exceed a limit: a smaller batch may be accepted."""
    UNSURE = "unsure"
    """Unknown whether the job was accepted."""
    BROKEN = "broken"
    """Unknown as well, because a connection broke: a job that was accepted appears soon."""


class SubmissionReply(msgspec.Struct, frozen=True):
    """Reply to a submission; `id` is the job's if it was accepted."""

    outcome: SubmitOutcome
    id: int | None = None


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the programs that submit, list the queue, answer from accounting and cancel, for messages."""

    submit: str
    queue: str
    accounting: str
    cancel: str


class BatchScripts(Protocol):
    """Scripts of one run's batches; a class that derives from this one has the defaults for what it lacks."""

    def text(self, batch: Batch) -> str:
        """Render the script of a batch; raises `ConfigError` when a setting cannot be written into it."""
        ...

    def name(self, tag: str) -> str:
        """Return the name of a batch's job, by which it is found again; contains the tag."""
        ...

    def max_batch(self, settings: Mapping[str, YamlValue], limit: int) -> int:
        """Return how many members a batch of jobs with these settings may have, at most `limit`.

        Raises `ConfigError` when a setting is invalid.
        """
        return limit

    def max_wait_s(self, batch: Batch) -> float | None:
        """Return the longest wait of members in the queue; ``None`` for no limit."""
        return None

    def hopeless_after_s(self, batch: Batch) -> float | None:
        """Return how long members wait that can never start; ``None`` for no limit."""
        return None

    def priority(self, urgency: Urgency) -> int | None:
        """Return the priority of a waiting batch for an urgency; ``None`` where it is not to be changed."""
        return None

    @property
    def stops_run(self) -> bool:
        """Whether a refusal ends the run, and not only the refused jobs."""
        return False


class EngineJobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Job that runs the engine of a run, and is started again when its node fails or its time limit ends.

    `settings` are those of the job in the service's words. `command` is a line of shell without ``--by``, whose value
    is `by` at the first start. `life` is the file that an engine of this job leaves. `warning_s` is how many seconds
    before the time limit it wants USR1; 0 for no limit.
    """

    name: str
    request: Request
    settings: Mapping[str, YamlValue]
    by: str
    command: str
    life: str
    warning_s: int = 0

    @property
    def body(self) -> str:
        """Lines of shell that run the engine, with ``--by resume`` in a job that was started again.

        ``$_status`` is then its exit status, and ``$_again`` is not empty if the time limit was near: USR1 was sent.
        """
        return _ENGINE_BODY.format(by=self.by, life=shlex.quote(self.life), command=self.command)


_ENGINE_BODY: Final = """\
_by={by}
[ ! -e {life} ] || _by=resume
_engine='' _again=''
trap '_again=yes; [ -z "$_engine" ] || kill -TERM "$_engine"' USR1
trap '[ -z "$_engine" ] || kill -TERM "$_engine"' TERM INT
# The warning may go to all processes of the job; the engine is to get TERM alone.
(
    trap '' USR1
    exec {command} --by "$_by"
) &
_engine=$!
wait "$_engine"
_status=$?
# A signal to this script interrupts the wait, not the engine.
while kill -0 "$_engine" 2>/dev/null; do
    wait "$_engine"
    _status=$?
done"""


class Dialect(ABC):
    """One workload manager, for one site: `settings` is the service's own map."""

    name: ClassVar[str]
    """Name of the service, of its map in the configuration and of its logger, in lower case."""
    title: ClassVar[str]
    """Name of the workload manager in messages."""
    programs: ClassVar[Programs]
    states: ClassVar[StateTable]
    required_variables: ClassVar[frozenset[str]] = frozenset({"PATH"})
    """Variables that a submission always gets and jobs therefore inherit, whatever the site's rule."""
    release_hint: ClassVar[str] = ""
    """How a person lets held jobs go."""
    forgets_unstarted: ClassVar[bool] = False
    """Whether a job that is deleted while it waits leaves no trace, neither in the queue nor in accounting."""

    def __init__(self, settings: Mapping[str, YamlValue]) -> None:
        self.settings = settings

    # ------------------------------------------------------------------------------------------------ environment

    @abstractmethod
    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the programs: those inherited without what would change their answers."""

    @abstractmethod
    def cluster_key(self, environment: Mapping[str, str]) -> str:
        """Return what tells this cluster from others, independent of how a site selects it."""

    def query_call(self, program: str, *words: str) -> ProgramCall:
        """Return a call of a program with other words, for a query of this cluster that answers at once or not."""
        return ProgramCall((program, *words), timeout_s=SHORT_S)

    def read_answer(self, call: ProgramCall, answer: ProgramResult) -> ProgramResult:
        """Return an answer with the exit status that it means; that of some programs says nothing."""
        return answer

    def is_useless(self, call: ProgramCall, answer: ProgramResult) -> bool:
        """Whether the answer to a call with an alternative (`ProgramCall.otherwise`) cannot be used."""
        return not answer.ok

    # ----------------------------------------------------------------------------------------------------- submit

    def check_site(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an invalid setting in the site's own map. Nothing is checked by default."""
        return

    def check_job(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an invalid setting in the own map of jobs. Nothing is checked by default."""
        return

    def allocations(self, batch: Batch, settings: Mapping[str, object]) -> tuple[Allocation, ...]:
        """Return what each component of a batch's jobs asks for, all ways to write it combined.

        `settings` are the executor's. By default, jobs have one component that asks for the request. Raises
        `ConfigError` when a setting is invalid.
        """
        return (Allocation.of_request(batch.request),)

    @abstractmethod
    def scripts(
        self, run: RunPaths, settings: Mapping[str, object], template: str, facts: ClusterFacts | None
    ) -> BatchScripts:
        """Return the writer of a run's scripts; `settings` are the executor's, `template` is the template's text.

        The writer chooses a partition with `longshore.sites.partitions.choose_partition`.
        """

    def engine_script(self, spec: EngineJobSpec, run: RunPaths, settings: Mapping[str, object], template: str) -> str:
        """Render the script of the engine's job; raises `ConfigError` when the settings are invalid.

        By default, engines cannot be jobs.
        """
        raise ConfigError(f"'{self.name}.engineAs: job' is not possible: {self.title} cannot run an engine as a job")

    @abstractmethod
    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return the call that submits a script, with options beside those in the script."""

    @abstractmethod
    def submit_reply(self, answer: ProgramResult) -> SubmissionReply:
        """Return the meaning of the reply to a submission."""

    # ------------------------------------------------------------------------------------------------------ watch

    def task_name(self, task: TaskId) -> str:
        """Return the name of a task as people and the programs write it."""
        return str(task)

    @abstractmethod
    def facts_calls(self) -> Sequence[ProgramCall]:
        """Return calls that ask for facts of the cluster; the first decides whether it answers."""

    @abstractmethod
    def parse_facts(self, outputs: Sequence[str]) -> ClusterFacts:
        """Return the facts by the outputs of `facts_calls`; empty for one that failed."""

    @abstractmethod
    def queue_call(self, user: str) -> ProgramCall:
        """Return the call that lists all jobs of a user, those included that ended a moment ago."""

    @abstractmethod
    def parse_queue(self, output: str) -> Iterator[QueueRow]:
        """Return the rows of the queue, one per task of an array."""

    def show_call(self, task: TaskId) -> ProgramCall | None:
        """Return the call that asks the controller for a job that left the queue; ``None`` if it forgets them."""
        return None

    def parse_shown(self, task: TaskId, answer: ProgramResult) -> AccountRow | Unreachable | None:
        """Return what the controller answered on a task; ``None`` when it no longer has it."""
        return None

    def parse_shown_array(self, answer: ProgramResult) -> Mapping[TaskId, AccountRow] | Unreachable:
        """Return what the controller answered when it was asked for an array as a whole: a row per task."""
        return {}

    def accounting_fields_call(self) -> ProgramCall | None:
        """Return the call that says which fields this version's accounting has; ``None`` if that is no question."""
        return None

    def accounting_calls(self, tasks: Iterable[TaskId], known_fields: str) -> Iterator[ProgramCall]:
        """Return calls that ask accounting for tasks; none by default, for a workload manager without accounting.

        `known_fields` is the output of `accounting_fields_call`.
        """
        return iter(())

    def accounting_by_name_call(self, name: str, *, since: str, user: str) -> ProgramCall | None:
        """Return the call that asks accounting for jobs of a name since a moment (local time, ISO-8601)."""
        return None

    def parse_accounting(self, output: str, known_fields: str = "") -> dict[TaskId, AccountRow]:
        """Return the tasks in the output of one of these calls, which was made with the same `known_fields`."""
        return {}

    def reports_out_of_memory(self, output: str, raw_id: str) -> bool:
        """Whether the workload manager's messages in a batch's output report that a task ran out of memory."""
        return False

    # ------------------------------------------------------------------------------------------------------- ping

    def version_question(self) -> Question[str] | None:
        """Return the question for the version of the programs here; none by default."""
        return None

    def partitions_question(self) -> Question[Mapping[str, PartitionState]] | None:
        """Return the question for the partitions or queues, by name; none by default."""
        return None

    def accounts_question(self, user: str, facts: ClusterFacts) -> Question[Sequence[Association]] | None:
        """Return the question for the accounts that a user may charge; none by default."""
        return None

    def qos_question(self) -> Question[Mapping[str, Qos]] | None:
        """Return the question for the qualities of service, by name; none by default."""
        return None

    def capacity_question(self) -> Question[Mapping[str, int] | None] | None:
        """Return the question for the most that one job can have on a node, by resource; none by default."""
        return None

    # -------------------------------------------------------------------------------------------------------- act

    @abstractmethod
    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return calls that cancel tasks, with `waiting_only` those that have not started."""

    @abstractmethod
    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call that cancels all jobs of a name."""

    def priority_calls(self, priorities: Mapping[int, int]) -> Iterator[ProgramCall]:
        """Return calls that change the priority of waiting jobs, by their ids; none where that cannot be done."""
        return iter(())


class DependencyDialect(Dialect):
    """A workload manager that can keep the dependencies of a graph by itself (``mode: native``).

    All options stand beside those in the script of a batch.
    """

    starts_after_any_end: ClassVar[bool] = False
    """Whether it starts a job after any end of its parents, so that the job's wrapper must look for their success."""

    @abstractmethod
    def hold_options(self) -> tuple[str, ...]:
        """Return options that submit a job held, until `release_calls` release it."""

    @abstractmethod
    def after_success_options(
        self, parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]
    ) -> tuple[str, ...]:
        """Return options that start a batch once its parents have succeeded, and remove it once one has failed.

        With `starts_after_any_end`, they start it once its parents are over.

        `parents` holds the parents' indices per member: the same for all, or at the member's own place in other
        batches. `records` holds the batch of each submitted job, and its position in the batch.
        """

    @abstractmethod
    def after_end_options(self, jobs: Sequence[int]) -> tuple[str, ...]:
        """Return options that start a job once these are over, however they ended."""

    @abstractmethod
    def release_calls(self, jobs: Iterable[int]) -> Iterator[ProgramCall]:
        """Return calls that release held jobs."""

    @abstractmethod
    def is_held(self, row: AccountRow) -> bool:
        """Whether the controller's answer on a job says that it is held."""
