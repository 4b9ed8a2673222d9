"""The workflow of a run: jobs with their requests, rules of attempts and barriers, and their dependencies."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from longshore.errors import CycleError, GraphError
from longshore.model.tasks import Command, Dag, DataId, File, Scalar, collection_paused, find_cycle, topological_order

if TYPE_CHECKING:
    import networkx as nx

# The resource request of a job.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


MIB = 1024 * 1024
"""Bytes in the unit BPS calls MB."""


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An amount of each resource; ``None`` means not requested, and unknown.

    Attributes
    ----------
    cpus
        Number of logical processors, at least 1.
    memory_b, disk_b
        Bytes.
    walltime_s
        Seconds.
    resources
        Amount per name, for any other resource a site counts.
    """

    cpus: int = 1
    memory_b: int | None = None
    disk_b: int | None = None
    walltime_s: float | None = None
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)

    def amounts(self) -> dict[str, int]:
        """Amount per countable resource that is requested, in a stable order (walltime is not counted)."""
        amounts = {"cpus": self.cpus}
        if self.memory_b is not None:
            amounts["memory"] = self.memory_b
        if self.disk_b is not None:
            amounts["disk"] = self.disk_b
        if self.resources:
            amounts |= {name: self.resources[name] for name in sorted(self.resources)}
        return amounts

    def key(self) -> tuple[object, ...]:
        """A hashable value, equal for equal requests."""
        resources = tuple(sorted(self.resources.items())) if self.resources else ()
        return (self.cpus, self.memory_b, self.disk_b, self.walltime_s, resources)


def largest_memory(requests: Iterable[Request]) -> int | None:
    """Return the largest memory of some requests, in bytes; ``None`` if none of them has one."""
    return max((request.memory_b for request in requests if request.memory_b is not None), default=None)


def round_up(amount: int) -> int:
    """Round an amount up to one of four steps per octave: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    Rounding makes few distinct requests of many.
    """
    if amount <= 8:
        return amount
    shift = amount.bit_length() - 3
    return (((amount - 1) >> shift) + 1) << shift


# What a job really asks of a workload manager, all ways to write it combined: nodes, tasks, and amounts of each.


WHOLE_NODE_B: Final = 2**63 - 1
"""Memory of a job that asks for all memory of its nodes."""
WHOLE_NODE_CPUS: Final = 2**31 - 1
"""Processors of a job that asks for whole nodes whose size is not known."""
SURELY_THREADS: Final = 2
"""Processors of a core where nobody says how many it has: nearly all cores have one or two."""


class NodeSize(msgspec.Struct, frozen=True, kw_only=True):
    """What one node of those that a job may get has; ``None`` for what is not known.

    `threads` is the number of processors of a core.
    """

    cpus: int | None = None
    memory_b: int | None = None
    threads: int | None = None


UNKNOWN_SIZE: Final = NodeSize()


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes and tasks of a job, or of one component of it, and what each has.

    Attributes
    ----------
    nodes, most_nodes
        Least number of nodes; ``None`` for as many as the tasks need. Most nodes, where that is another number.
    tasks, cpus_per_task
        Number of tasks, and logical processors of each.
    least_cpus
        Least number of processors on each node.
    whole_nodes
        Whether it has its nodes to itself, with all their processors.
    threads_per_core
        Number of processors of a core that it uses, where it has whole cores; ``None`` where it says nothing of them.
    memory_b, disk_b, resources
        Bytes, and amount per name, on each node.
    memory_per_cpu_b
        Bytes for each of its processors, from which those on each node follow.
    walltime_s
        Seconds.
    features
        Sets of features of which nodes must have at least one each.
    partitions
        Partitions that the job names; empty for none.
    account, qos
        Account to charge, and quality of service, that the job names; empty for none.
    licences
        Number of each licence.
    hosts
        Nodes that the job names, to use them or not, as written: ``n[1-3]`` is one expression.
    names
        Names of further things that it uses, by their kind, such as ``project``.
    """

    nodes: int | None = None
    most_nodes: int | None = None
    tasks: int = 1
    cpus_per_task: int = 1
    least_cpus: int = 0
    whole_nodes: bool = False
    threads_per_core: int | None = None
    memory_b: int | None = None
    memory_per_cpu_b: int | None = None
    disk_b: int | None = None
    walltime_s: float | None = None
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)
    features: tuple[frozenset[str], ...] = ()
    partitions: tuple[str, ...] = ()
    account: str = ""
    qos: tuple[str, ...] = ()
    licences: Mapping[str, int] = msgspec.field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @classmethod
    def of_request(cls, request: Request) -> Self:
        """Return the allocation of a job that asks for nothing beside its request."""
        return cls(
            cpus_per_task=request.cpus,
            memory_b=request.memory_b,
            disk_b=request.disk_b,
            walltime_s=request.walltime_s,
            resources=request.resources,
        )

    @property
    def cpus_per_node(self) -> int:
        """Least number of processors on one of the nodes."""
        tasks = -(-self.tasks // self.nodes) if self.nodes else 1
        return max(tasks * self.cpus_per_task, self.least_cpus)

    def least_nodes(self, cpus: int | None) -> int:
        """Return how many nodes it needs at least, where each has so many processors; ``None`` for any number."""
        if self.nodes:
            return self.nodes
        return -(-self.tasks // max(1, cpus // self.cpus_per_task)) if cpus else 1

    def total(self, node: NodeSize) -> Request:
        """Return what it takes on all of its nodes together, of which each has that size."""
        nodes = self.most_nodes or self.nodes or (self.least_nodes(node.cpus) if self.whole_nodes else 1)
        cpus = max(self.tasks * self.cpus_per_task, nodes * max(self.least_cpus, self.cpus_per_task))
        taken = cpus
        if self.threads_per_core:
            there = max(node.threads or SURELY_THREADS, self.threads_per_core)
            taken = -(-cpus // self.threads_per_core) * there
        if self.whole_nodes:
            cpus = taken = WHOLE_NODE_CPUS if node.cpus is None else max(taken, nodes * node.cpus)
        on_node = node.memory_b if self.memory_b == WHOLE_NODE_B and node.memory_b else self.memory_b
        memory_b = None if on_node is None else on_node * nodes
        if self.memory_per_cpu_b:
            # All processors of a node have their memory, those included that nobody asked for.
            memory_b = WHOLE_NODE_B if cpus == WHOLE_NODE_CPUS else self.memory_per_cpu_b * cpus
        return Request(
            cpus=taken,
            memory_b=None if memory_b is None else min(memory_b, WHOLE_NODE_B),
            walltime_s=self.walltime_s,
        )


def total_request(components: Sequence[Allocation], node: NodeSize = UNKNOWN_SIZE) -> Request:
    """Return what all components of a job have together, on all of their nodes, of which each has that size."""
    totals = [each.total(node) for each in components]
    memory = [each.memory_b for each in totals if each.memory_b is not None]
    walltimes = [each.walltime_s for each in totals if each.walltime_s is not None]
    return Request(
        cpus=min(sum(each.cpus for each in totals), WHOLE_NODE_CPUS),
        memory_b=min(sum(memory), WHOLE_NODE_B) if memory else None,
        walltime_s=max(walltimes, default=None),
    )


# Rules by which the files of a job are staged: copied to a scratch directory, and published from it.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


class StagingRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shell lines that transfer a file from ``"$1"`` to ``"$2"``; without one, files are copied.

    Attributes
    ----------
    fetch, send
        Lines for inputs and for outputs on file systems that the host of the job sees.
    urls
        Line per scheme of URLs; files at other URLs are not staged.
    """

    fetch: str = ""
    send: str = ""
    urls: Mapping[str, str] = msgspec.field(default_factory=dict)


# Rules for the attempts of a job: retries, growth of requests, back-off, success conditions and limits.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


class RetryOn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ends after which a job is retried, regardless of its other rules; any one of them is enough.

    Attributes
    ----------
    exit, signal
        Exit codes, and numbers of signals; a shell reports a signal by the exit code 128 plus its number.
    log
        Regular expression, searched for in the end of the log.
    only
        Whether no other end is retried.
    operator
        Whether a job is retried that a person removed from its workload manager.
    """

    exit: tuple[int, ...] = ()
    signal: tuple[int, ...] = ()
    log: str | None = None
    only: bool = False
    operator: bool = False


class RequestGrowth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Growth of a job's request after it ran out of memory or time.

    Attributes
    ----------
    of_usage
        Whether the memory factor applies to the peak usage and not to the first request.
    memory_limit_b
        Maximum bytes of any job (``memoryLimit``). The factor and ``requestMemoryMax`` are attributes.
    walltime
        Factor per end by walltime; ``None`` where walltime does not grow.
    walltime_most_s
        Maximum walltime in seconds.
    """

    of_usage: bool = False
    memory_limit_b: int | None = None
    walltime: float | None = None
    walltime_most_s: float | None = None


class Backoff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delay before a retry in seconds: doubled each time, up to `most_s`."""

    first_s: float = 1.0
    most_s: float = 300.0


class LogValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number in the log (the first group of the last match), and its bounds."""

    regex: str
    least: float | None = None
    most: float | None = None


class SuccessIf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions for the success of an attempt; ``None`` is no condition.

    Attributes
    ----------
    exit
        Exit codes of a success.
    log
        Regular expression that must match in the end of the log.
    file
        Path that must exist, relative to the command's working directory; variables of the job stand in braces.
    least_s, most_s
        Bounds of the run time.
    value
        A number in the log that must keep to bounds.
    state
        ``SUCCEEDED`` and names of causes: allowed ends.
    any_of
        Whether one condition is enough, even if others fail.
    """

    exit: tuple[int, ...] | None = None
    log: str | None = None
    file: str | None = None
    least_s: float | None = None
    most_s: float | None = None
    value: LogValue | None = None
    state: tuple[str, ...] | None = None
    any_of: bool = False


class KeepPolicy(StrEnum):
    """Attempts whose files are kept instead of removed."""

    NONE = "none"
    FAILED = "failed"
    ALL = "all"


class LimitRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of an attempt, beyond which it is ended, and the files it leaves.

    Attributes
    ----------
    memory
        Whether its memory is held to its request.
    grace_share, grace_b
        Allowed excess over its request: a share of it, and an amount; both together.
    log_b
        Maximum bytes of its log; 0 for no limit, ``None`` for the default of the service.
    tmp
        Attempts that keep their temporary directories.
    logs
        Attempts that keep their logs.
    """

    memory: bool = False
    grace_share: float = 0.0
    grace_b: int = 0
    log_b: int | None = None
    tmp: KeepPolicy = KeepPolicy.NONE
    logs: KeepPolicy = KeepPolicy.ALL


class OutputCheck(StrEnum):
    """What a success must have left of its declared outputs."""

    NONE = "none"
    EXISTS = "exists"
    FRESH = "fresh"
    """They exist, are not empty, and were written by the attempt."""


class JobRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All rules of one profile beyond a number of retries."""

    retry_on: RetryOn | None = None
    retries_on_match: int | None = None
    """Retries after ends of `retry_on`; ``None`` if they spend the number of retries."""
    retries_on_memory: int | None = None
    """Retries with more memory; ``None`` if they spend the number of retries."""
    retries_on_time: int | None = None
    """Retries with more time; ``None`` if they spend the number of retries."""
    retries_on_lost: int | None = None
    """Retries after the loss of a machine; ``None`` is the run's number."""
    retries_on_preempted: int = 20
    retries_on_transfer: int = 3
    growth: RequestGrowth = RequestGrowth()
    backoff: Backoff = Backoff()
    success_if: SuccessIf | None = None
    bounds: LimitRules = LimitRules()
    resume_tasks: bool = True
    """Whether a retried job of several tasks resumes at the failed task."""
    check_outputs: OutputCheck = OutputCheck.NONE
    retry_unstartable: bool = False
    """Whether an end that tells that the command cannot be started is retried."""
    staging: StagingRules | None = None
    """How files are copied to a scratch directory and back; ``None`` if jobs use them where they lie."""


# A job, the unit that a workload manager runs, and the settings that jobs of one profile share.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


_LIMIT: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(?::\s*([1-9][0-9]*)\s*)?")
"""Name of a limit, and the amount taken where it is not 1."""


def parse_concurrency_limits(text: str) -> dict[str, int]:
    """Parse concurrency limits, such as ``db_limit, tape:2``, to an amount per name.

    Raises
    ------
    ValueError
        The text has another format.
    """
    amounts: dict[str, int] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        found = _LIMIT.fullmatch(part)
        if found is None:
            raise ValueError(part.strip())
        amounts[found[1]] = amounts.get(found[1], 0) + int(found[2] or 1)
    return amounts


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings that all jobs of one profile share.

    Attributes
    ----------
    request
        Request of the first attempt.
    defaulted
        Configuration keys of the request that only the package's defaults set: these may be lowered to what a site has.
    environment
        Variables beside those the job inherits.
    number_of_retries
        Attempts after the first.
    retry_unless_exit
        Exit codes after which a job is not retried.
    rules
        Other rules of retries, success and limits.
    working_directory
        Where the command starts; ``None`` is the run directory.
    setup
        Lines of shell that run in the job before its command.
    launcher
        Shell prefix of the command, after the set-up: a launcher (``srun``), and a container.
    limit_threads
        Whether libraries that start threads are limited to the job's processors.
    site, cloud
        Names of the sections that supplied values.
    attributes
        Every other job attribute of BPS that was given (``queue``, ``priority``, ``accountingGroup``, ...), for the
        service to use or to refuse.
    service_settings
        The service's own map, merged from all sections that apply to these jobs, the site's among them: it wins over
        what the service knows of the run's site, and a key with ``None`` removes that value. ``directives`` in it are
        raw lines for the workload manager.
    """

    label: str
    request: Request = msgspec.field(default_factory=Request)
    defaulted: tuple[str, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    number_of_retries: int = 0
    retry_unless_exit: tuple[int, ...] = ()
    rules: JobRules = JobRules()
    working_directory: str | None = None
    setup: tuple[str, ...] = ()
    launcher: str = ""
    limit_threads: bool = False
    site: str | None = None
    cloud: str | None = None
    attributes: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    service_settings: Mapping[str, Any] = msgspec.field(default_factory=dict, name="own")

    @property
    def priority(self) -> float:
        """Priority among the user's jobs, larger first; 0 where no number is given."""
        value = self.attributes.get("priority", 0)
        try:
            return 0.0 if isinstance(value, bool) else float(value)
        except ValueError:
            return 0.0

    @property
    def concurrency(self) -> Mapping[str, int]:
        """Amount per concurrency limit that each of its jobs takes, among all of the user's runs at a site."""
        text = self.attributes.get("concurrencyLimit")
        return {} if text is None else parse_concurrency_limits(str(text))

    @property
    def category(self) -> str:
        """Name of a category of jobs whose number of concurrent jobs is limited; empty for none."""
        return str(self.attributes.get("category", ""))


_SHARED_FIELDS: Final = tuple(name for name in JobSettings.__struct_fields__ if name != "request")


def shared_parts_key(settings: JobSettings) -> tuple[int, ...]:
    """Identities of all parts but the request, equal for settings that differ there only, as a profile makes them.

    It holds while the settings are alive. Equal parts may be different objects.
    """
    return tuple([id(getattr(settings, name)) for name in _SHARED_FIELDS])


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One job of a workflow."""

    name: str
    label: str
    command: Command
    settings: JobSettings
    tags: DataId = msgspec.field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names of files of the workflow."""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Variables of this job alone; they win over those of `settings`."""
    tasks: int = 1
    """Number of tasks it runs."""
    quanta: tuple[tuple[str, int], ...] | None = ()
    """Number of its tasks per label, where it has several labels; ``None`` for a job without tasks."""
    success_files: tuple[str, ...] = ()
    """Paths for ``successIf.file`` where that names datasets, relative to the command's working directory."""

    @property
    def quanta_counts(self) -> dict[str, int]:
        """Number of its tasks per label (BPS: ``quanta_counts``)."""
        return dict(self.quanta or {}) if self.quanta != () else {self.label: self.tasks}


# Orderings of job groups (BPS: ``ordering``), and the barriers between groups that follow from them.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


class Implementation(StrEnum):
    """Implementation of an ordering."""

    GROUP = "group"
    """Jobs of a group form one node for a DAG service."""
    NOOP = "noop"
    """An empty job separates a group from the next."""


class JobGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that run before those of the next group.

    Attributes
    ----------
    key
        The values of the ordering's dimensions that they share.
    jobs
        Their names.
    """

    key: tuple[Scalar, ...]
    jobs: tuple[str, ...]


class Ordering(msgspec.Struct, frozen=True, kw_only=True):
    """One ordering of job groups (BPS: a section of ``ordering``).

    Attributes
    ----------
    name
        Its name.
    dimensions
        The dimensions whose values define a group.
    implementation
        How the ordering is implemented.
    blocking
        Whether a group with a failure blocks the groups after it. With empty jobs it always does.
    groups
        The groups, in the order in which they run.
    """

    name: str
    dimensions: tuple[str, ...]
    implementation: Implementation = Implementation.GROUP
    blocking: bool = False
    groups: tuple[JobGroup, ...]

    @property
    def waits_for_ends(self) -> bool:
        """Return whether a group starts after the previous group ended, even if jobs failed."""
        return len(self.groups) > 1 and not self.blocking and self.implementation is Implementation.GROUP

    def node_name(self, group: JobGroup) -> str:
        """BPS's name of the group or of the empty job after it: ``group_by_visit_101==3``, ``noop_by_visit_101==3``."""
        return _node_name(self, group)


class Barrier(msgspec.Struct, frozen=True):
    """Barrier between a group and the next one; it is not a job and not counted.

    Attributes
    ----------
    name
        BPS's name of the group before it.
    title
        That group's name for people: ``'visit 101' of 'by_visit'``.
    after
        Numbers of the jobs that end the group: when they are over, all of it is.
    before
        Numbers of the jobs that begin the next group.
    blocking
        Whether the jobs before it must have succeeded; else it is enough that they are over.
    """

    name: str
    title: str
    after: tuple[int, ...]
    before: tuple[int, ...]
    blocking: bool


class StoredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with the numbers of its jobs."""

    key: tuple[Scalar, ...]
    jobs: tuple[int, ...]


class StoredOrdering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ordering as ``workflow.jsonl`` has it."""

    name: str
    dimensions: tuple[str, ...]
    implementation: Implementation = Implementation.GROUP
    blocking: bool = False
    groups: tuple[StoredGroup, ...]


def _node_name(ordering: Ordering | StoredOrdering, group: JobGroup | StoredGroup) -> str:
    return f"{ordering.implementation}_{ordering.name}_{'=='.join(map(str, group.key))}"


def _title(ordering: StoredOrdering, group: StoredGroup) -> str:
    values = ", ".join(f"{name} {value}" for name, value in zip(ordering.dimensions, group.key, strict=True))
    return f"'{values}' of '{ordering.name}'"


def number_jobs(ordering: Ordering, index: dict[str, int]) -> StoredOrdering:
    """An ordering with numbers in place of names of jobs."""
    return StoredOrdering(
        name=ordering.name,
        dimensions=ordering.dimensions,
        implementation=ordering.implementation,
        blocking=ordering.blocking,
        groups=tuple(
            StoredGroup(key=group.key, jobs=tuple(index[job] for job in group.jobs)) for group in ordering.groups
        ),
    )


def find_barriers(orderings: Sequence[StoredOrdering], parents: Sequence[Sequence[int]]) -> Iterator[Barrier]:
    """Barriers between groups; their size grows with the number of jobs, not of pairs of jobs.

    `parents` has the numbers of the parents per job.
    """
    for ordering in orderings:
        ends = [_group_ends(group.jobs, parents) for group in ordering.groups]
        blocking = ordering.blocking or ordering.implementation is Implementation.NOOP
        for group, (_, last), (first, _) in zip(ordering.groups, ends, ends[1:], strict=False):
            yield Barrier(_node_name(ordering, group), _title(ordering, group), last, first, blocking)


def _group_ends(jobs: Sequence[int], parents: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First and last jobs of a group: those without parents in it, and those without children in it."""
    members = set(jobs)
    waited_for: set[int] = set()
    first = []
    for job in jobs:
        inside = members.intersection(parents[job])
        waited_for |= inside
        if not inside:
            first.append(job)
    return tuple(first), tuple(job for job in jobs if job not in waited_for)


# The workflow of a run: jobs, their dependencies and files, an optional final job, and a networkx graph of it.


class Workflow:
    """Jobs in an order in which they may run, ready for any service.

    Parameters
    ----------
    name
        The run's name (BPS: ``uniqProcName``).
    dag
        The graph of the jobs, without the final one.
    final
        A job that runs after all others, whatever their outcome.
    files
        File per name, for every name in a job's inputs and outputs.
    attributes
        Attributes of the run as a whole, such as ``bps_operator``.
    orderings
        Groups of jobs that run one after another. They add no edges: the order of jobs respects them, and the code that
        renders or runs the workflow enforces them.
    log_folders
        Folder of a job's logs below the run's log folder, with dimensions in braces; empty for the default.

    Raises
    ------
    GraphError
        Two jobs share a name, an edge has an unknown end, or (as `CycleError`) there is a cycle; a cycle through an
        ordering names barriers among the jobs.
    """

    def __init__(
        self,
        name: str,
        dag: Dag[Job],
        *,
        final: Job | None = None,
        files: Mapping[str, File] | None = None,
        attributes: Mapping[str, str] | None = None,
        orderings: Sequence[Ordering] = (),
        log_folders: str = "",
    ) -> None:
        self._dag = dag
        if final and final.name in dag.index:
            raise GraphError(f"the final job and another are both named '{final.name}'")
        self.name = name
        self.final = final
        self.files: Mapping[str, File] = MappingProxyType(dict(files or {}))
        self.attributes: Mapping[str, str] = MappingProxyType(dict(attributes or {}))
        self.orderings = tuple(orderings)
        self.log_folders = log_folders
        self._order = _order_with_barriers(dag, self.orderings) if self.orderings else dag.order

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """Frozen networkx graph of job names, made on first use; node attribute ``job`` is the job's record."""
        return _networkx_graph(self._dag, self._order)

    @cached_property
    def samples(self) -> tuple[Job, ...]:
        """The first job of each settings object: jobs of one profile share it, and checks of settings need no other."""
        found: dict[int, Job] = {}
        for job in self:
            found.setdefault(id(job.settings), job)
        return tuple(found.values())

    def __len__(self) -> int:
        return len(self._dag) + (self.final is not None)

    def __contains__(self, name: str) -> bool:
        """Whether the workflow has a job of that name."""
        return name in self._dag.index or (self.final is not None and name == self.final.name)

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs, parents first, the final job last."""
        return iter(self._jobs)

    @cached_property
    def _jobs(self) -> tuple[Job, ...]:
        # Kept, because a run with a million jobs is walked through many times before it is written.
        nodes = self._dag.nodes
        return (*[nodes[number] for number in self._order], *filter(None, [self.final]))

    def __getitem__(self, name: str) -> Job:
        """Return the job of that name, or raise `KeyError`."""
        if self.final and name == self.final.name:
            return self.final
        return self._dag[name]

    def get(self, name: str) -> Job | None:
        """Return the job of that name, or ``None``."""
        try:
            return self[name]
        except KeyError:
            return None

    def with_commands(self, change: Callable[[Command], Command]) -> Self:
        """Return the workflow with changed commands."""
        final = self.final and msgspec.structs.replace(self.final, command=change(self.final.command))
        return type(self)(
            self.name,
            self._dag.alike(msgspec.structs.replace(job, command=change(job.command)) for job in self._dag.nodes),
            final=final,
            files=self.files,
            attributes=self.attributes,
            orderings=self.orderings,
            log_folders=self.log_folders,
        )

    def with_files(self, files: Mapping[str, File]) -> Self:
        """Return the workflow with other files of the same names."""
        return type(self)(
            self.name,
            self._dag,
            final=self.final,
            files=files,
            attributes=self.attributes,
            orderings=self.orderings,
            log_folders=self.log_folders,
        )

    def parents(self, name: str) -> list[str]:
        """Names of a job's parents (none for the final job, which waits for all)."""
        dag = self._dag
        place = dag.index.get(name)
        return [] if place is None else [dag.nodes[parent].name for parent in dag.parents[place]]

    def links(self) -> Iterator[tuple[int, ...]]:
        """For each job in order, the numbers of its parents (none for the final job)."""
        rank = [0] * len(self._dag)
        for position, number in enumerate(self._order):
            rank[number] = position
        neighbours, starts = self._dag.parents.neighbours, self._dag.parents.starts
        for number in self._order:
            # As `parents[number]`, without a call.
            yield tuple([rank[parent] for parent in neighbours[starts[number] : starts[number + 1]]])
        if self.final:
            yield ()

    def quanta_counts(self) -> dict[str, int]:
        """Number of tasks per label, labels in the order their first task may run."""
        counts: dict[str, int] = {}
        for job in self:
            # Most jobs run tasks of one label, their own.
            for label, count in ((job.label, job.tasks),) if job.quanta == () else job.quanta or ():
                counts[label] = counts.get(label, 0) + count
        return counts

    def counts(self) -> dict[str, int]:
        """Number of jobs per label, labels in the order their first job may run."""
        return dict(Counter(job.label for job in self))


def _networkx_graph(dag: Dag[Job], order: Iterable[int]) -> "nx.DiGraph[str]":
    """Frozen networkx graph of a dag, nodes in topological order."""
    import networkx as nx  # slow to import, and few commands need it

    graph: nx.DiGraph[str] = nx.DiGraph()
    # Building millions of small dictionaries with the collector on takes more than twice as long (measured: 14.8 s, not
    # 5.8 s, for a million jobs), and nothing in there is garbage.
    with collection_paused():
        nodes = dag.nodes
        graph.add_nodes_from((nodes[number].name, {"job": nodes[number]}) for number in order)
        graph.add_edges_from((nodes[parent].name, nodes[child].name) for parent, child in dag.edges())
    frozen: nx.DiGraph[str] = nx.freeze(graph)
    return frozen


def _order_with_barriers(dag: Dag[Job], orderings: Sequence[Ordering]) -> list[int]:
    """Topological order in which jobs of a group come before those of the next."""
    found = list(find_barriers([number_jobs(each, dag.index) for each in orderings], dag.parents))
    # Adjacency lists without barriers are shared with the graph.
    size = len(dag)
    parents: list[Sequence[int]] = [*dag.parents, *(barrier.after for barrier in found)]
    children: list[Sequence[int]] = [*dag.children, *(barrier.before for barrier in found)]
    for number, barrier in enumerate(found, size):
        for job in barrier.before:
            parents[job] = [*parents[job], number]
        for job in barrier.after:
            children[job] = [*children[job], number]
    order = topological_order(map(len, parents), children)
    if len(order) < len(parents):
        names = [*(job.name for job in dag.nodes), *(barrier.name for barrier in found)]
        raise CycleError([names[node] for node in find_cycle(parents, done=order)])
    return [node for node in order if node < size]
