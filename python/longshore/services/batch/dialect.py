"""Dialect: all that one workload manager has of its own, as pure functions and tables.

A dialect renders a request into a script, names the programs to call, and parses what they print. It calls nothing and
keeps no state: `longshore.services.batch.client.BatchClient` runs the programs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from longshore.contract.capabilities import Contradiction
from longshore.contract.executor import Urgency
from longshore.contract.service import Association, NodeGroup, PartitionState, Qos, Unreachable
from longshore.model.values import YamlValue
from longshore.model.workflow import Allocation
from longshore.services.batch.answers import SubmissionReply, SubmitReplies
from longshore.services.batch.jobs import AccountRow, ClusterFacts, QueueRow, StateTable, TaskId
from longshore.services.batch.records import BatchRecord
from longshore.services.batch.script import JobSpec, fill_template
from longshore.services.batch.settings import check_keys
from longshore.system.programs import ProgramResult


class StepLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """How one call starts a command on all nodes of a job.

    `prefix` is the shell in front of the command, and `index` the shell for the number of a node, from 0. `settings`
    are those of such a job, in the service's own words.
    """

    prefix: str
    index: str
    settings: Mapping[str, YamlValue] = {}


class HostLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """How a command is started on the hosts of a job, one by one.

    `start` has the words in front of the name of a host, which is in front of the command. `hosts` is shell for the
    hosts, the one on which the job's script runs first. `hint` is what to do where a job gets other hosts than asked
    for. The number of hosts is the job's setting ``nodeCount``.
    """

    start: tuple[str, ...]
    hosts: str
    hint: str


NodeLauncher: TypeAlias = StepLauncher | HostLauncher


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


class PartitionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the jobs of a partition, in the fields of `longshore.contract.service.PartitionState`."""

    walltime_s: float | None = None
    max_cpus: int | None = None
    max_memory_b: int | None = None


class HostOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs can have on a host; ``None`` for what the host has."""

    cpus: int | None = None
    memory_b: int | None = None


class InventoryQuestions(msgspec.Struct, frozen=True, kw_only=True):
    """Questions for what a cluster has, beside partitions, accounts and QOS; ``None`` for what it cannot be asked.

    `offers` asks what jobs can have on each host, by its name, where that is not what the host has. `limits` asks for
    limits of partitions, by their names, that the question for these leaves open, and `names` for the names of further
    things by their kind. The others are those of `longshore.contract.service.Inventory`.
    """

    nodes: Question[tuple[NodeGroup, ...]] | None = None
    offers: Question[Mapping[str, HostOffer]] | None = None
    licences: Question[Mapping[str, int]] | None = None
    limits: Question[Mapping[str, PartitionLimits]] | None = None
    names: Mapping[str, Question[tuple[str, ...]]] = {}
    knows_resources: bool = False
    needs_partition: bool = False
    ignores_case: frozenset[str] = frozenset()

    @property
    def calls(self) -> Iterator[ProgramCall]:
        """Calls of all questions."""
        for question in (self.nodes, self.offers, self.licences, self.limits, *self.names.values()):
            if question is not None:
                yield question.call


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the programs that submit, list the queue, answer from accounting and cancel, for messages."""

    submit: str
    queue: str
    accounting: str
    cancel: str


class ProgramVariables(msgspec.Struct, frozen=True, kw_only=True):
    """Environment variables of the workload manager's programs.

    Attributes
    ----------
    cluster
        Variables by which the programs find their cluster, by the key of a site's map that sets them.
    kept
        Other variables that the programs need.
    dropped
        Names of variables that would change the programs' answers, such as those of an enclosing job; the others in
        this struct are kept all the same.
    fixed
        Variables with a value of ours.
    """

    cluster: Mapping[str, tuple[str, ...]] = {}
    kept: frozenset[str] = frozenset()
    dropped: re.Pattern[str] | None = None
    fixed: Mapping[str, str] = {}

    @property
    def of_cluster(self) -> frozenset[str]:
        """Variables that tell this cluster from others."""
        return self.kept.union(*self.cluster.values())

    @property
    def required(self) -> frozenset[str]:
        """Variables that each submission gets. Jobs inherit them by every rule of a site."""
        return frozenset({"PATH", *self.of_cluster, *self.fixed})

    def select(self, inherited: Mapping[str, str], settings: Mapping[str, YamlValue]) -> dict[str, str]:
        """Return the variables of the programs, with those that a site's map sets."""
        needed = self.of_cluster
        found = {
            name: value
            for name, value in inherited.items()
            if name in needed or self.dropped is None or not self.dropped.fullmatch(name)
        }
        chosen = {
            name: str(settings[key]) for key, names in self.cluster.items() if settings.get(key) for name in names
        }
        return found | dict(self.fixed) | chosen


class Dialect(ABC):
    """One workload manager, for one site: `settings` is the service's own map."""

    name: ClassVar[str]
    """Name of the service, of its map in the configuration and of its logger, in lower case."""
    title: ClassVar[str]
    """Name of the workload manager in messages."""
    programs: ClassVar[Programs]
    states: ClassVar[StateTable]
    submit_replies: ClassVar[SubmitReplies]
    variables: ClassVar[ProgramVariables] = ProgramVariables()
    key_names: ClassVar[frozenset[str]]
    """Keys of the service's own map, beside those that the kit reads (`longshore.services.batch.settings.KIT_KEYS`)."""
    engine_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys of a site's map that hold for the job of the engine too."""
    run_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys that only the run's site has, not its jobs, beside those of the kit."""
    directive: ClassVar[str]
    """Word that begins a line of options in a script."""
    raw_key: ClassVar[str] = ""
    """Key of raw options beside ``directives``; empty for none."""
    task_index: ClassVar[str] = ""
    """Shell for the number of an array's task, from 1."""
    wrapper_options: ClassVar[str] = ""
    """Options of the wrapper of each member; see the comments in ``bin/longshore-job``."""
    restart_count: ClassVar[str] = ""
    """Shell for how often the workload manager has started a job again by itself; empty if a job cannot know."""
    host_launcher: ClassVar[NodeLauncher | None] = None
    """Launcher of commands on several nodes of a job that depends on no setting."""
    release_hint: ClassVar[str] = ""
    """How a person lets held jobs go."""
    trial_judges_all: ClassVar[bool] = False
    """Whether a trial (`trial_call`) knows more of what a job asks for than the answers of `inventory_questions`."""
    forgets_unstarted: ClassVar[bool] = False
    """Whether a job that is deleted while it waits leaves no trace, neither in the queue nor in accounting."""

    def __init__(self, settings: Mapping[str, YamlValue]) -> None:
        self.settings = settings

    # ------------------------------------------------------------------------------------------------ environment

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the programs: those inherited without what would change their answers."""
        return self.variables.select(inherited, self.settings)

    def cluster_key(self, environment: Mapping[str, str]) -> str:
        """Return what tells this cluster from others, independent of how a site selects it."""
        return "\0".join(environment.get(name, "") for name in sorted(self.variables.of_cluster))

    def query_call(self, program: str, *words: str) -> ProgramCall:
        """Return a call of a program with other words, for a query that answers at once or not."""
        return ProgramCall((program, *words), timeout_s=SHORT_S)

    def read_answer(self, call: ProgramCall, answer: ProgramResult) -> ProgramResult:
        """Return an answer with the exit status that it means; that of some programs says nothing."""
        return answer

    def is_useless(self, call: ProgramCall, answer: ProgramResult) -> bool:
        """Whether the answer to a call with an alternative (`ProgramCall.otherwise`) cannot be used."""
        return not answer.ok

    # ----------------------------------------------------------------------------------------------------- submit

    def check_site(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an invalid setting in the site's own map; by default, what `check_job` finds."""
        self.check_job(own)

    def check_job(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an invalid setting in the own map of jobs; by default, for an unknown key."""
        check_keys(self.name, own, self.key_names, raw_key=self.raw_key)

    def normalize(self, own: Mapping[str, YamlValue]) -> Mapping[str, YamlValue]:
        """Return an own map with each key in its first spelling; raises `ConfigError` for two spellings of one key."""
        return own

    def allocations(self, job: JobSpec) -> tuple[Allocation, ...]:
        """Return what each component of a job asks for, all ways to write it combined.

        By default, a job has one component that asks for its request. Raises `ConfigError` when a setting is invalid.
        """
        queue = job.batch.attributes.get("queue")
        asked = Allocation.of_request(job.batch.request)
        return (msgspec.structs.replace(asked, partitions=(str(queue),) if queue else ()),)

    def needs(self, job: JobSpec) -> tuple[Allocation, ...]:
        """Return what each component of a job needs at least, where it takes more of what is there.

        By default, that is what it asks for (`allocations`).
        """
        return self.allocations(job)

    def contradictions(self, own: Mapping[str, YamlValue]) -> Iterator[Contradiction]:
        """Return the settings in the own map of jobs, raw lines among them, that cannot both hold; by default none."""
        return iter(())

    @abstractmethod
    def directives(self, job: JobSpec) -> Iterator[str]:
        """Return the lines of options of a script, without the word that begins each.

        Raises `ConfigError` when a setting is invalid, or cannot be written into a line.
        """

    def render(self, job: JobSpec, template: str, **words: str) -> str:
        """Render a script; `words` are further variables of the template."""
        return fill_template(template, msgspec.structs.replace(job, lines=tuple(self.directives(job))), **words)

    def plain_name(self, name: str) -> str:
        """Return a job's name with signs that the workload manager accepts; by default letters, digits and ``._-``."""
        return _UNUSUAL_SIGNS.sub("_", name)

    def takes_array(self, own: Mapping[str, YamlValue]) -> bool:
        """Whether jobs with these settings can be an array; raises `ConfigError` when a setting is invalid."""
        return True

    def node_launcher(self, nodes: int, cpus: int) -> NodeLauncher | None:
        """Return what starts a command once on each of a job's nodes, with its processors per node.

        ``None``, as by default, where that is not possible. Raises `ConfigError` where a setting for it is missing.
        """
        return self.host_launcher

    def priority(self, own: Mapping[str, YamlValue], urgency: Urgency, facts: ClusterFacts | None) -> int | None:
        """Return the priority of jobs for an urgency; ``None`` where the settings give one to all, or want none."""
        return None

    @abstractmethod
    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return the call that submits a script, with options beside those in the script."""

    def submit_reply(self, answer: ProgramResult) -> SubmissionReply:
        """Return the meaning of the reply to a submission."""
        return self.submit_replies.read(answer)

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

    def boot_question(self, nodes: str) -> Question[float | None] | None:
        """Return the question when nodes, as a row of the queue names them, booted last: the earliest of them.

        The answer is by the clock of the queue's rows, ``None`` if a node is unknown. By default, there is no question.
        """
        return None

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

    def obstacle(self) -> str:
        """Return why its programs cannot find the cluster from this host; empty if nothing speaks against it."""
        return ""

    def trial_call(self, script: str) -> ProgramCall | None:
        """Return the call that judges a script and submits nothing; ``None`` where there is none, the default."""
        return None

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

    def inventory_questions(self) -> InventoryQuestions:
        """Return further questions for what the cluster has; none by default."""
        return InventoryQuestions()

    def capacity_question(self) -> Question[Mapping[str, int] | None] | None:
        """Return the question for the most that one job can have on a node, by resource.

        By default there is none, and the largest nodes among the answers to `inventory_questions` tell it.
        """
        return None

    # -------------------------------------------------------------------------------------------------------- act

    @abstractmethod
    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return calls that cancel tasks, with `waiting_only` those that have not started.

        All are made in order, and again from the first if one fails: a task that is over must not count as a failure.
        """

    @abstractmethod
    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call that cancels all jobs of a name."""

    def priority_calls(self, priorities: Mapping[int, int]) -> Iterator[ProgramCall]:
        """Return calls that change the priority of waiting jobs, by their ids; none where that cannot be done."""
        return iter(())


_UNUSUAL_SIGNS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_IDS_PER_CALL: Final = 400
"""Ids on one command line: few enough for limits of the kernel or of a site's wrapper."""


def calls_with(words: Sequence[str], ids: Iterable[object]) -> Iterator[ProgramCall]:
    """Return calls of a program with ids behind other words: as many as it takes."""
    names = list(map(str, ids))
    for start in range(0, len(names), _IDS_PER_CALL):
        yield ProgramCall((*words, *names[start : start + _IDS_PER_CALL]))


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


class ParentBatch(NamedTuple):
    """A batch that others depend on: its job's id, and the positions that count; ``None`` for all of them."""

    id: int
    positions: tuple[int, ...] | None


def parent_batches(
    parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]
) -> tuple[list[ParentBatch], bool]:
    """Return the batches of a batch's parents, and whether each member depends on its own place in them.

    The parameters are those of `DependencyDialect.after_success_options`.
    """
    positions: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for job in parents[0]:
        record, position = records[job]
        positions.setdefault(record.id or 0, []).append(position)
        sizes[record.id or 0] = len(record.members)
    found = [
        ParentBatch(number, None if len(these) == sizes[number] else tuple(sorted(these)))
        for number, these in positions.items()
    ]
    return found, any(set(each) != set(parents[0]) for each in parents)
