"""A service: four methods, a source of events or of states, and the records between it and the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

import msgspec

from longshore.errors import Origin
from longshore.model.event import Event
from longshore.model.report import RunReport
from longshore.model.states import Cause, JobState
from longshore.model.submission import Submission

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# Inventory: what a workload manager has, by its own answers, for checks of sites and jobs before a run.


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition or queue, as the cluster reports it.

    `state` is ``UP`` where jobs are accepted and run; `limit` is the longest run time, and `nodes` is the number of
    nodes, empty if the cluster does not report it. `slots` is the number of its slots on all hosts, where the workload
    manager counts these. Empty `accounts` or `qos` allow all. `walltime_s`, `max_nodes`, `max_cpus` and `max_memory_b`
    limit one job, the last two on each node; ``None`` for no limit.
    """

    name: str
    state: str
    limit: str = ""
    nodes: str = ""
    slots: int | None = None
    default: bool = False
    accounts: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    walltime_s: float | None = None
    max_nodes: int | None = None
    max_cpus: int | None = None
    max_memory_b: int | None = None


class Association(msgspec.Struct, frozen=True, kw_only=True):
    """An account that a user may charge, with its allowed QOS and its limits."""

    account: str
    qos: frozenset[str]
    max_jobs: str = ""
    max_submitted: str = ""
    max_time: str = ""
    walltime_s: float | None = None
    """Longest run time of one job; ``None`` for no limit, and where the cluster does not enforce it."""


class Qos(msgspec.Struct, frozen=True, kw_only=True):
    """A quality of service with its limits."""

    name: str
    max_jobs: str = ""
    max_submitted: str = ""
    max_time: str = ""
    walltime_s: float | None = None
    """Longest run time of one job; ``None`` for no limit, and where the cluster does not enforce it."""
    overrides: frozenset[str] = frozenset()
    """Limits of partitions that do not hold for its jobs: ``walltime`` and ``nodes``."""


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Equal nodes of one partition: their number, and what each has.

    `names` are expressions for their names, such as ``n[1-4]``; `partition` is empty where all partitions share the
    nodes. `memory_b` and `disk_b` are ``None`` where the cluster does not report them, as of a host that is away, and
    `resources` lacks what it does not report.
    `threads` is the number of processors of a core, ``None`` where it is not known.
    """

    partition: str = ""
    count: int = 1
    names: tuple[str, ...] = ()
    cpus: int
    threads: int | None = None
    memory_b: int | None = None
    disk_b: int | None = None
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)
    features: frozenset[str] = frozenset()


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster has; ``None`` for what it does not answer, so that nothing follows from it.

    `names` are those of further things by their kind, such as ``project``. `knows_resources` says that nodes list all
    resources that they have; `is_enforced` that a job may charge only the accounts in `accounts`; `needs_partition`
    that a job must name a partition where none is the default. Of the kinds in `ignores_case`, such as ``account``,
    names are compared without regard to case.
    """

    partitions: tuple[PartitionState, ...] | None = None
    nodes: tuple[NodeGroup, ...] | None = None
    accounts: tuple[Association, ...] | None = None
    qos: tuple[Qos, ...] | None = None
    licences: Mapping[str, int] | None = None
    max_array: int | None = None
    """Most jobs in an array."""
    names: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    knows_resources: bool = False
    is_enforced: bool = True
    needs_partition: bool = False
    ignores_case: frozenset[str] = frozenset()

    def spelling(self, kind: str, name: str, known: Iterable[str]) -> str:
        """Return the one among known names that is the same for the cluster; the name itself if none is."""
        if kind not in self.ignores_case:
            return name
        return next((each for each in known if each.casefold() == name.casefold()), name)


# Records between the core and a service: run directory, site, context, problems, rendered files, ping.


RUN_FOLDER_VARIABLE: Final = "LONGSHORE_JOB_RUN_DIR"
"""Variable of a job with the directory of its run."""
RUN_FOLDER: Final = f"<ENV:{RUN_FOLDER_VARIABLE}>"
"""Placeholder of that folder in the commands of jobs."""


class RunPaths(msgspec.Struct, frozen=True):
    """Every file name of a run directory, in one place."""

    root: Path

    @property
    def card(self) -> Path:
        """``run.json``: ids, versions, submissions."""
        return self.root / "run.json"

    @property
    def made_from(self) -> Path:
        """``made-from.json``: fingerprint of the inputs of its preparation."""
        return self.root / "made-from.json"

    @property
    def submitting(self) -> Path:
        """``submitting.json``: a submission has begun; removed when it is recorded."""
        return self.root / "submitting.json"

    @property
    def workflow(self) -> Path:
        """``workflow.jsonl``: the jobs, one a line."""
        return self.root / "workflow.jsonl"

    @property
    def submissions(self) -> Path:
        """Manifest of each submission: digests of the files that it relies on."""
        return self.root / "submissions"

    @property
    def origins(self) -> Path:
        """``origins.json``: where each value of the configuration was written."""
        return self.root / "origins.json"

    def merged_config(self, name: str) -> Path:
        """File with the merged configuration of the run of that name, as BPS names it."""
        return self.root / f"{name}_config.yaml"

    @property
    def site_choice(self) -> Path:
        """``site-choice.json``: why the run is at its site, where there were candidates."""
        return self.root / "site-choice.json"

    @property
    def inputs(self) -> Path:
        """The YAML as submitted, with every file it includes."""
        return self.root / "inputs"

    @property
    def journal(self) -> Path:
        """One file of events per life of the engine."""
        return self.root / "journal"

    @property
    def keeper(self) -> Path:
        """Records of the keeper, a file per life."""
        return self.root / "keeper"

    @property
    def ends(self) -> Path:
        """End records that job wrappers leave."""
        return self.root / "ends"

    @property
    def batches(self) -> Path:
        """Files of batches, such as scripts and tables of members."""
        return self.root / "batches"

    @property
    def steer(self) -> Path:
        """Interventions that the engine has not taken yet."""
        return self.root / "steer"

    @property
    def status(self) -> Path:
        """``status.json``: the newest snapshot, and the engine's heartbeat."""
        return self.root / "status.json"

    @property
    def cache(self) -> Path:
        """Files that can be deleted at any time."""
        return self.root / "cache"

    @property
    def engine_log(self) -> Path:
        """Log of the engine, for people."""
        return self.root / "engine.log"

    @property
    def engine_lock(self) -> Path:
        """Locked as long as an engine of this host lives."""
        return self.root / "engine.lock"

    @property
    def notice_rules(self) -> Path:
        """``notify.json``: the rules of notices, where the configuration has some."""
        return self.root / "notify.json"

    @property
    def notices(self) -> Path:
        """``notices.jsonl``: events that were told, and to whom."""
        return self.root / "notices.jsonl"

    @property
    def notice_lock(self) -> Path:
        """Locked as long as a notifier of this host lives."""
        return self.root / "notices.lock"

    @property
    def notifier_log(self) -> Path:
        """Log of the notifier, for people."""
        return self.root / "notifier.log"

    @property
    def pilots(self) -> Path:
        """Run directory of the allocations of pilots, which has the batches, the ends and the mailboxes of these."""
        return self.root / "pilots"

    @property
    def cleaned(self) -> Path:
        """``cleaned.json``: what ``longshore clean`` removed, and when."""
        return self.root / "cleaned.json"

    @property
    def wms(self) -> Path:
        """Files that the service rendered, usable by hand."""
        return self.root / "wms"

    @property
    def logs(self) -> Path:
        """One log per attempt."""
        return self.root / "logs"

    def log_of(self, index: int, name: str, label: str, attempt: int) -> PurePosixPath:
        """Path of an attempt's log, relative to the run directory; at most about 1000 files share a folder."""
        return PurePosixPath(log_path(index, name, label, attempt))


def log_path(index: int, name: str, label: str, attempt: int) -> str:
    """Path of an attempt's log as text, which for hundreds of thousands of them costs a tenth."""
    return f"{log_folder(index, label)}/{file_name(name)}.{attempt}.log"


def log_folder(index: int, label: str) -> str:
    """Path of the folder of a job's logs as text."""
    return _numbered_log_folder(index // LOGS_PER_FOLDER, label)


@lru_cache(maxsize=64)
def _numbered_log_folder(number: int, label: str) -> str:
    return f"logs/{file_name(label)}/{number:02}"


def file_name(name: str) -> str:
    """A name as one component of a path: ``/`` becomes ``_``; an overlong name is cut and told apart by its hash."""
    if name.isidentifier() and name.isascii() and len(name) <= _LONGEST_NAME:
        # Most names, of which a run has hundreds of thousands.
        return name
    plain = name.replace("/", "_").replace("\0", "_")
    if plain in {"", ".", ".."}:
        plain = f"_{plain}"
    if len(plain.encode()) <= _LONGEST_NAME:
        return plain
    # Imported here: names this long are rare, and the module is imported by every command.
    from hashlib import sha256

    digest = sha256(name.encode()).hexdigest()[:12]
    return plain.encode()[: _LONGEST_NAME - 13].decode(errors="ignore") + "-" + digest


LOGS_PER_FOLDER = 500
"""Jobs in a row whose logs share a folder, if they have one label."""
_LONGEST_NAME = 200
"""Bytes; file systems allow 255, and a suffix for the attempt has to fit as well."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where jobs run, as its operator describes it."""

    name: str
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The site's section and profile, read whole."""
    origin: Origin | None = None
    """Where its profile or section begins."""
    origins: Mapping[str, Origin] = msgspec.field(default_factory=dict)
    """Where each setting is written; that of a map also by its keys, such as ``setup.submit``."""

    def origin_of(self, key: str) -> Origin | None:
        """Return where a setting is written, or else where the site is."""
        return self.origins.get(key, self.origin)


UNUSED: Final = "unused"
"""`Problem.code` of a note on a setting without effect; of a profile, only the check of its site tells it."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Request that a service cannot fulfil."""

    message: str
    job: str | None = None
    key: str = ""
    """Configuration key that asks for it, so that the message can have its origin."""
    origin: Origin | None = None
    hint: str = ""
    fatal: bool = True
    """Whether the run must not be submitted; else it is a note."""
    code: str = "request"
    """Kind of the error, by which its exit status is that of `longshore.errors.error_type`, whoever judges."""
    label: str = ""
    """Label of the jobs it is about, where that does not follow from `job`."""
    jobs: int = 0
    """Number of jobs it is about; where it is 0, those that share the settings of `job`."""


class PingReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a workload manager can be used right now, and what it has."""

    service: str
    ok: bool
    message: str
    """One line for people."""
    details: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Facts worth showing, in the order to show them."""
    capacity: Mapping[str, int] | None = None
    """The largest amount of each resource one job can ever have (``cpus``, ``memory`` and ``disk`` in bytes, others by
    name); a resource that is not named is not counted. ``None`` where the service cannot tell."""
    identities: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Of resources in `capacity` whose members are told apart, such as GPUs, what these are called; an engine gives
    each to one job at a time."""
    inventory: Inventory | None = None
    """What it has, where it answers that; the jobs of a run and the profile of a site are checked by it."""
    problems: tuple[Problem, ...] = ()
    """What it does not take of the site. One that is not fatal is noted: it concerns only some jobs, or passes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages of the problems that are not fatal."""
        return tuple(each.message for each in self.problems if not each.fatal)


class RenderedFile(msgspec.Struct, frozen=True, kw_only=True):
    """File of a run; its text is rendered only when it is written."""

    path: PurePosixPath
    """Relative to the run directory."""
    mode: int = 0o644
    is_mutable: bool = False
    """Whether the service may change the file after the submission. Changes of other files are damage."""
    chunks: Callable[[], Iterator[str]]

    @classmethod
    def from_text(cls, path: PurePosixPath, text: str, *, mode: int = 0o644) -> Self:
        """Return a file of a text that is there already."""
        return cls(path=path, mode=mode, chunks=lambda: iter((text,)))


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Surroundings of a workflow: settings, site, run directory and templates."""

    settings: Mapping[str, Any]
    """The service's own map of the configuration, and nothing else."""
    site: Site
    paths: RunPaths
    templates: Mapping[str, str]
    """Text of each template of the service, per name."""
    probe: PingReport | None = None
    run_token: str = ""
    """Unique name of the run, in the names of its batches; see `RunCard.run_token`. Empty before there is a run."""
    folder: str = ""
    """Folder of the rendered files, relative to the run directory: a changed workflow has one of its own."""
    file_numbers: Sequence[int] = ()
    """Number of each job in names of files, for a changed workflow; empty where it is the job's index."""

    @property
    def rendered_paths(self) -> RunPaths:
        """Paths of the rendered files."""
        return RunPaths(self.paths.root / self.folder)

    def file_number(self, index: int) -> int:
        """Return the number of a job in names of files."""
        return self.file_numbers[index] if self.file_numbers else index


Mark: TypeAlias = str
"""Position among events. Opaque to all but the service or executor; empty for the beginning."""


class Unreachable(msgspec.Struct, frozen=True, kw_only=True):
    """A workload manager did not answer; nothing follows from that for any job."""

    why: str


# A query for runs at a workload manager, wherever they were submitted, and its answer.


class RunSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Search for runs.

    Attributes
    ----------
    reference
        An id of the workload manager; empty for all runs.
    user
        Name of their user; empty for all users.
    days
        Also runs that ended in the last so many days.
    everywhere
        Whether all queues of the workload manager are searched, or only that of this host.
    pass_thru
        Words for the workload manager, from ``--pass-thru``: a query in its own language, instead of `user`.
    runs_only
        Whether jobs that are no runs are left out.
    """

    reference: str = ""
    user: str = ""
    days: float = 0.0
    everywhere: bool = False
    pass_thru: str = ""
    runs_only: bool = True


class RemoteRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that a workload manager knows.

    Attributes
    ----------
    reports
        A report of each, from what the workload manager knows of it. Its path is that on the host of its submission.
    notes
        A note on each queue that did not answer.
    """

    reports: tuple[RunReport, ...] = ()
    notes: tuple[str, ...] = ()


# Interventions of users: cancel, restart, pause, hold, set; the selected jobs; the outcome of a cancellation.


class JobSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Selection of jobs; without names, all jobs of a run.

    Attributes
    ----------
    jobs, labels
        Names.
    final_too
        Whether all jobs include the final job, which otherwise runs even after a cancellation.
    pass_thru
        Words for the workload manager, from ``--pass-thru``.
    """

    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    final_too: bool = False
    pass_thru: str = ""

    @property
    def everything(self) -> bool:
        """Whether the whole run is selected."""
        return not self.jobs and not self.labels


class RestartChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that a restart makes.

    Attributes
    ----------
    selection
        For which of the restarted jobs values are set.
    set
        Value per key, as for `Intervention`.
    from_labels
        Labels whose jobs run again with all their descendants, even if they succeeded.
    has_new_workflow
        Whether the submission has another workflow than the one before it; only for services that are `Amendable`.
    """

    selection: JobSelection = JobSelection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    from_labels: tuple[str, ...] = ()
    has_new_workflow: bool = False


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """Intervention in a live run, other than a cancellation.

    Attributes
    ----------
    act
        ``pause``, ``unpause``, ``throttle``, ``hold``, ``release`` or ``set``.
    selection
        Selected jobs or labels.
    set
        ``max`` of a throttle, ``why`` of a pause, or the keys to set, such as ``requestMemory``.
    """

    act: str
    selection: JobSelection = JobSelection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)


class CancelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a cancellation.

    Attributes
    ----------
    ended
        Number of running or waiting attempts that ended or will end.
    alive
        Notes on what is still alive.
    """

    ended: int
    alive: tuple[str, ...] = ()


# A service renders a workflow to files, submits the run, and reports its events. `longshore.contract.capabilities`
# has further abilities. A service for a workload manager that knows only single jobs derives from
# `longshore.engine.run.engine_service.EngineService`, and implements an `longshore.contract.executor.Executor`.
# `longshore.testing.conformance` tests all of them.


class ServiceTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a service that the core uses.

    Attributes
    ----------
    runs_on_submit_host
        Whether jobs run on the host that submits them, so that programs and inputs can be checked beforehand.
    transfers_files
        Whether the service copies files of the workflow that are marked for transfer to jobs, and back.
    settings_key
        Key of a map in the configuration that only this service reads; labels and jobs can have one too. A job's is in
        `longshore.model.workflow.JobSettings.service_settings`. Empty for a service without one.
    raw_option_keys
        Keys of raw options for the workload manager, in all spellings; stored with the map.
    job_keys
        Keys of single values for jobs that only this service reads; stored with the map.
    job_maps
        Dotted keys of further maps for jobs; stored with the map, each under its key.
    run_keys
        Keys for the whole run that only this service reads. `Context.settings` has their values under ``run``.
    user_hold_codes
        Codes of holds that a user ordered, as in ``set["code"]`` of the event; a job that is held for another reason
        counts as failed.
    has_pilots
        Whether jobs with the attribute ``packing: pilot`` run in pilots.
    required_variables
        Environment variables that jobs always inherit, because programs of the workload manager need them.
    environment_keys
        Dotted key of a configuration per environment variable of the user by which the workload manager's own programs
        choose an account, a partition and the like. Such a value wins over those of a site, and yields to the run's.
    option_variables
        Beginning of the names of all variables that are options of these programs; empty where there are none.
    enclosing_variable
        Variable that a job of the workload manager has: in a job, such variables are those of its submitter.
    final_job_survives_cancel
        Whether the final job of a cancelled run runs, unless the user skips it.
    unused_keys
        Why keys of a configuration have no effect on the service, by the key, as a part of a sentence.
    key_user
        What the service is among the users of keys in the schema, if not its own name.
    """

    runs_on_submit_host: bool = False
    transfers_files: bool = False
    settings_key: str = ""
    has_pilots: bool = False
    raw_option_keys: tuple[str, ...] = ("directives",)
    job_keys: tuple[str, ...] = ()
    job_maps: tuple[str, ...] = ()
    run_keys: tuple[str, ...] = ()
    user_hold_codes: frozenset[int] = frozenset()
    required_variables: frozenset[str] = frozenset()
    environment_keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    option_variables: str = ""
    enclosing_variable: str = ""
    final_job_survives_cancel: bool = True
    unused_keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    key_user: str = ""


class WmsService(ABC):
    """A workload manager. A subclass is also an `EventSource` or a `ReportSource`."""

    name: ClassVar[str]
    """Short name in lower case, as in ``wmsServiceClass: local``."""
    traits: ClassVar[ServiceTraits] = ServiceTraits()

    @abstractmethod
    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return what the workload manager cannot do for a workflow. Pure; nothing is written yet.

        Parameters
        ----------
        workflow
            The jobs and their order.
        ctx
            Settings, site and the answer of `ping`.
        """

    @abstractmethod
    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the files of the run, usually below ``wms/``. Pure: the same input gives the same text.

        Parameters
        ----------
        workflow
            The jobs and their order. May be large: files are rendered when they are written.
        ctx
            As for `check`; `Context.run_token` tells the run from all others.
        """

    @abstractmethod
    def submit(self, run: RunPaths) -> Submission:
        """Submit a prepared run. Called once per run.

        Raises
        ------
        SubmissionRefusedError
            It was not taken; nothing is left running.
        UnreachableError
            The workload manager does not answer; nothing is left running.
        SubmissionUncertainError
            It may have been taken.
        """

    @abstractmethod
    def ping(self, ctx: Context) -> PingReport:
        """Return whether the workload manager can be used, and what it has. Submits nothing; takes seconds at most."""


class StaleMarkError(Exception):
    """The mark is invalid: discard what was read, and read from the beginning."""


class EventSource(ABC):
    """Service that knows the events of a run, in order."""

    @abstractmethod
    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the events after a mark, and the mark to continue from.

        Parameters
        ----------
        run
            The run directory; jobs are meant by their index in ``workflow.jsonl``.
        mark
            What the last call returned; empty for all events.

        Raises
        ------
        StaleMarkError
            The events up to that mark are no longer as they were. Never raised for an empty mark.
        """


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """State of one job.

    Attributes
    ----------
    name
        Name of the job. A name that the run does not have is ignored.
    state
        Its state. UNREADY and READY mean the same here: the core knows the order of jobs.
    attempt
        Number of the newest attempt, from 1.
    exit, signal
        How the newest attempt ended; ``None`` if that is unknown or it did not end.
    cause, reason
        Why it failed or is held, where more is known than exit code and signal.
    wms_id
        Id of the newest attempt at the workload manager, for users.
    host
        Where it runs or ran.
    start, end
        When it started and ended, in seconds since the epoch.
    peak_memory_b
        Most memory it used, in bytes.
    """

    name: str
    state: JobState
    attempt: int = 1
    exit: int | None = None
    signal: int | None = None
    cause: Cause | None = None
    reason: str | None = None
    wms_id: str = ""
    host: str | None = None
    start: float | None = None
    end: float | None = None
    peak_memory_b: int | None = None


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of a run at one moment.

    Attributes
    ----------
    state
        State of the run. SUCCEEDED, FAILED and DELETED mean that it is over.
    jobs
        The jobs the workload manager knows; the others have not been submitted.
    counts
        Number of jobs per label and state, from a workload manager that does not name jobs. A label that is given
        here must not have jobs in `jobs`.
    """

    state: JobState
    jobs: Sequence[JobStatus] = ()
    counts: Mapping[str, Mapping[JobState, int]] = msgspec.field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether no job of the run can change any more."""
        return self.state in (JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED)


class ReportSource(ABC):
    """Service that knows only the present state of a run. The core derives events from successive reports."""

    @abstractmethod
    def report(self, run: RunPaths) -> StatusReport | Unreachable:
        """Return the present state of the run and its jobs.

        Parameters
        ----------
        run
            The run directory; ``run.json`` has the id that `WmsService.submit` returned.
        """
