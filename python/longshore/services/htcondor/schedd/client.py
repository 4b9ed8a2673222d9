"""Client of the schedd, the collector and DAGMan by HTCondor's bindings, which only this module loads; its ping."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from longshore.contract.service import PingReport, RunPaths, Unreachable
from longshore.errors import (
    DECODE_ERRORS,
    ConfigError,
    LongshoreError,
    ServiceError,
    SubmissionRefusedError,
    SubmissionUncertainError,
    UnreachableError,
    UsageError,
)
from longshore.model.values import RegexError, compile_regex
from longshore.model.workflow import MIB
from longshore.system.atomic import write_atomically
from longshore.system.host import CpuLimitError, cpu_limit
from longshore.system.reading import read_file

# HTCondor's Python bindings: loaded for an environment, and their exceptions, all of one class, told apart.


_OLDEST: Final = 25
_OLDEST_DAEMONS: Final = 24
"""Major version of HTCondor's daemons below which our DAGs do not run."""
_QUERY_S: Final = 20
_CONFIGS: Final = ("/etc/condor/condor_config", "/usr/local/etc/condor_config", "~condor/condor_config")
_NO_FILE: Final = frozenset({"ONLY_ENV", "/dev/null"})
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")

_loaded: dict[str, str | None] = {}
"""Configuration for which the bindings were loaded, under ``config``."""


def load_bindings() -> Any:
    """The bindings, with the environment's current configuration.

    Raises `ServiceError` if they are not installed, too old, or find no configuration.
    """
    config = os.environ.get("CONDOR_CONFIG")
    # Without a configuration the bindings would end this process, or continue without a pool.
    _require_configuration(config)
    is_first_import = "htcondor2" not in sys.modules
    try:
        import htcondor2
    except ImportError as error:
        raise ServiceError(
            f"the service 'htcondor' needs HTCondor's Python bindings: {error}",
            hint="They come with the extra 'htcondor': pip install 'longshore[htcondor]'.",
        ) from error
    finally:
        if config is None:
            # The import sets it if there is no file.
            os.environ.pop("CONDOR_CONFIG", None)
    version = version_number(str(htcondor2.version()))
    if int(version.split(".")[0]) < _OLDEST:
        raise ServiceError(
            f"HTCondor's Python bindings are of version {version}, and the service 'htcondor' needs {_OLDEST} or later",
            hint="pip install 'longshore[htcondor]' brings them; daemons may be older than they are.",
        )
    is_changed = _loaded.get("config", config if is_first_import else None) != config
    if is_changed:
        # The first import may have used another pool's configuration.
        htcondor2.reload_config()
    if is_changed or "config" not in _loaded:
        # By default every query waits a minute for a collector that hangs.
        htcondor2.param["QUERY_TIMEOUT"] = str(_QUERY_S)
    _loaded["config"] = config
    return htcondor2


def _require_configuration(config: str | None) -> None:
    if config in _NO_FILE:
        return
    if config is not None:
        if not Path(config).is_file():
            raise ServiceError(
                f"CONDOR_CONFIG names '{config}', and there is no such file",
                hint="Set it to the configuration of your pool, or unset it where HTCondor is installed.",
            )
        return
    if not any(Path(path).expanduser().is_file() for path in _config_paths()):
        raise ServiceError(
            f"there is no configuration of HTCondor on this host: none of {', '.join(_CONFIGS)}, nor CONDOR_CONFIG",
            hint="Submit from an access point of a pool, or set CONDOR_CONFIG.",
        )


def _config_paths() -> Iterator[str]:
    for path in _CONFIGS:
        # On a host without that user, the path stays unexpanded.
        expanded = os.path.expanduser(path)  # noqa: PTH111
        if not expanded.startswith("~"):
            yield expanded


def version_error(version: str) -> str:
    """Error message for daemons of an unsupported version; empty if supported or unknown.

    DAGMan 23.9 parses arguments and variables within a DAG in the syntax before version 7, and submits nothing (seen
    with 23.9.6, as in Debian 13); 25.14 submits.
    """
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) >= _OLDEST_DAEMONS:
        return ""
    return f"HTCondor {version} is too old: its DAGMan cannot submit what is described within a DAG"


def version_number(version: str) -> str:
    """The version number in HTCondor's long version string."""
    found = _VERSION.search(version)
    return found[0] if found else version


@contextmanager
def silence_stdout() -> Iterator[None]:
    """Discard what HTCondor's library prints: the standard output may be a document for programs."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        stdout = os.dup(1)
    except OSError:
        # Standard output is closed.
        yield
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 1)
        yield
    finally:
        # The library buffers its output.
        ctypes.CDLL(None).fflush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(devnull)


# Errors say who must act.


_REFUSED: Final = (
    "AUTHENTICATE:",
    "DENIED",
    "Failed to authenticate",
    "PERMISSION_DENIED",
    "not authorized",
    "No auth methods",
)
_ABSENT: Final = (
    "Failed to connect",
    "Failed communication",
    "Failed to fetch ads from",
    "Unable to locate",
    "unable to locate",
    "Can't find address",
    "communication error",
    "Connection refused",
    "timed out",
)
_PASSING: Final = re.compile(
    r"MAX_JOBS_SUBMITTED|MAX_JOBS_PER_OWNER|no space left|quota exceeded|disk is full|temporar(il)?y|try again"
    r"|shutting down|is draining|cannot allocate memory",
    re.IGNORECASE,
)
"""A condition of the schedd (``src/condor_schedd.V6/qmgmt.cpp``) or its host: it may take the same later."""
_COMMIT_FAILED: Final = ("Unable to commit",)
"""Messages of a schedd that went away during a submission, or refused at the commit."""


@contextmanager
def map_errors(daemon: str, *, request: str = "") -> Iterator[None]:
    """Raise exceptions of the bindings as `LongshoreError`.

    `daemon` names the daemon that the body talks to. `request` names what the body submits; empty for a query.
    """
    try:
        yield
    except LongshoreError:
        raise
    except Exception as error:
        # The bindings raise one class of their own for all failures, and others for invalid arguments.
        raise to_error(error, daemon, request) from error


def to_error(error: Exception, daemon: str, request: str) -> LongshoreError:
    """The `LongshoreError` for an exception of the bindings; parameters as in `map_errors`."""
    text = " ".join(str(error).split()) or type(error).__name__
    if any(word in text for word in _REFUSED):
        return ServiceError(
            f"{daemon} does not accept your identity: {text}",
            hint="'condor_ping -type schedd WRITE' shows how it identifies you. Daemons older than 24 want "
            "SEC_FS_ENFORCE_CHANNEL_BINDING = False at the client.",
        )
    if request and any(word in text for word in _COMMIT_FAILED):
        return SubmissionUncertainError(f"{daemon} could not commit {request}: {text}")
    if any(word in text for word in _ABSENT) or text.rstrip().endswith("errmsg="):
        # For a collector that rejects the user, the bindings only report no answer.
        return UnreachableError(
            f"{daemon} does not answer: {text}",
            hint="'condor_status -any' shows which daemons do, and 'condor_ping -type collector READ' whether it "
            "accepts your identity.",
        )
    if request and _PASSING.search(text):
        return SubmissionRefusedError(
            f"{daemon} does not take {request} for now: {text}",
            hint="That is no fault of the run. Nothing of it is submitted; try again when it has passed.",
        )
    if request:
        return SubmissionRefusedError(f"{daemon} does not take {request}: {text}")
    return ServiceError(f"{daemon} says: {text}")


Ad: TypeAlias = Mapping[str, str | int | float | bool]
"""Values of a ClassAd, without undefined ones."""
CLOCKS_S: Final = 3600
"""Maximum difference between two hosts' clocks, in seconds."""


_TOTALS: Final = {
    "Cpus": "TotalSlotCpus",
    "Memory": "TotalSlotMemory",
    "Disk": "TotalSlotDisk",
    "GPUs": "TotalSlotGPUs",
}
"""Attribute of what a slot has left -> that of what it has when it is idle."""
_SHOWN: Final = 5
"""Values of one attribute in a message."""


class _ClassAd(Protocol):
    """A ClassAd of the bindings."""

    def __contains__(self, name: str) -> bool: ...

    def eval(self, name: str) -> str | int | float | bool | None: ...


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that the collector daemon."""

    name: str
    version: str
    """Version number; empty if it reports none."""
    ad: object
    """Location ad, which the bindings need to reach the daemon."""


class DagmanJob(msgspec.Struct, frozen=True, kw_only=True):
    """DAGMan's job in a schedd."""

    cluster: int
    schedd: str
    global_id: str


class CondorClient:
    """Client of a schedd, its collector, and this host's installation of HTCondor.

    Without `schedd`, it is the schedd of this host; without `pool`, the collector of the configuration.
    """

    def __init__(self, *, schedd: str = "", pool: str = "") -> None:
        self._name = schedd
        self._pool = pool

    # ----------------------------------------------------------------------------------------- installation and daemons

    def version(self) -> str:
        """Version number of the bindings.

        Raises `ServiceError` if they are not installed, too old, or find no configuration.
        """
        return version_number(str(load_bindings().version()))

    def setting(self, name: str) -> str:
        """Setting of this host's configuration; empty if unset."""
        value = load_bindings().param.get(name)
        return "" if value is None else str(value)

    def expand_macros(self, description: str) -> dict[str, str]:
        """Commands of a submit description with macros expanded; no daemon is asked."""
        with map_errors("HTCondor", request="a submit description"):
            submit = load_bindings().Submit(description)
            return {name: submit.expand(name) for name in submit.keys()}  # noqa: SIM118 - it is no mapping

    def is_expression(self, text: str) -> bool:
        """Whether a text is a valid ClassAd expression; no daemon is asked."""
        try:
            load_bindings().classad.ExprTree(text)
        except Exception:  # noqa: BLE001 - the bindings raise a class of their own
            return False
        return True

    def require_constraint(self, text: str) -> None:
        """Check that the user's text for ``--pass-thru`` is a valid constraint; no daemon is asked.

        Raises `UsageError` if it is invalid.
        """
        if text and not self.is_expression(text):
            raise UsageError(
                f"'--pass-thru' is '{text}', which HTCondor cannot read as a constraint",
                hint='One is like: bps_campaign == "quick" && QDate > 1763630000',
            )

    def schedd(self) -> Daemon:
        """Locate the schedd.

        Raises `UnreachableError` if the collector does not know it, or does not answer.
        """
        schedd = f"the schedd '{self._name}'" if self._name else "the schedd of this host"
        kind = load_bindings().DaemonType.Schedd
        with self._collector(schedd) as collector:
            ad = collector.locate(kind, self._name) if self._name else collector.locate(kind)
        if ad is None:
            raise UnreachableError(
                f"{schedd} is not known to the collector", hint="'condor_status -schedd' lists the schedds it knows."
            )
        return _daemon(ad)

    def schedds(self) -> list[str]:
        """Names of all schedds that the collector knows.

        Raises `UnreachableError` if it does not answer.
        """
        with self._collector("the collector") as collector:
            return sorted(str(ad["Name"]) for ad in collector.locateAll(load_bindings().DaemonType.Schedd))

    def collector(self) -> Daemon:
        """The collector, after a successful query.

        Raises `UnreachableError` if it does not answer.
        """
        with self._collector(f"the collector '{self._pool or self.setting('COLLECTOR_HOST')}'") as collector:
            projection = ["Name", "CondorVersion", "MyAddress"]
            found = collector.query(load_bindings().AdType.Collector, projection=projection)
            if not found:
                raise UnreachableError(f"the collector '{self._pool}' does not return its ad")
            return _daemon(found[0])

    def query_machines(self, attributes: Sequence[str]) -> list[Ad]:
        """Attributes of the pool's machines.

        Raises `UnreachableError` if the collector does not answer.
        """
        with self._collector("the collector") as collector:
            ads = collector.query(load_bindings().AdType.Startd, projection=list(attributes))
            return [_ad_values(ad, attributes) for ad in ads]

    @property
    def identity(self) -> tuple[str, str]:
        """Names of the schedd and the pool that it asks; empty for those of this host."""
        return self._name, self._pool

    def count_matching_slots(self, expression: str, job: Mapping[str, int]) -> tuple[int, int, str]:
        """Count the slots, and those that meet the requirements of a job; with the values that all have of its terms.

        A slot counts with all it has when it is idle. `job` are attributes of the job. Raises `UnreachableError` if the
        collector does not answer.
        """
        classad = load_bindings().classad
        wanted = classad.ClassAd(dict(job))
        wanted["Requirements"] = classad.ExprTree(expression)
        references = wanted.externalRefs(wanted.lookup("Requirements"))
        names = sorted({name.rpartition(".")[2] for name in references})
        with self._collector("the collector") as collector:
            ads = collector.query(load_bindings().AdType.Startd, projection=[*names, *_TOTALS.values(), "Name"])
        matched = 0
        values: dict[str, dict[str, None]] = {name: {} for name in names}
        for ad in ads:
            for name, total in _TOTALS.items():
                if total in ad:
                    ad[name] = ad.eval(total)
            ad["Requirements"] = True
            matched += bool(ad.matches(wanted))
            for name in names:
                if name in ad and len(values[name]) < _SHOWN:
                    values[name].setdefault(str(ad.eval(name)))
        texts = [f"{name} {', '.join(found)}" for name, found in values.items() if found]
        return len(ads), matched, "; ".join(texts)

    def authenticate(self, daemon: Daemon) -> Mapping[str, str]:
        """Method and identity by which a daemon authenticates us for commands.

        Raises `ServiceError` if it does not, or does not answer.
        """
        with map_errors(f"'{daemon.name}'"):
            ad = load_bindings().ping(daemon.ad, "WRITE")
            names = ("AuthMethods", "AuthenticatedName", "MyRemoteUserName", "AuthorizationSucceeded")
            return {name: str(value) for name, value in _ad_values(ad, names).items()}

    @contextmanager
    def _collector(self, daemon: str) -> Iterator[Any]:
        """A connection to the collector; errors name `daemon`."""
        htcondor = load_bindings()
        with map_errors(daemon):
            yield htcondor.Collector(self._pool) if self._pool else htcondor.Collector()

    @contextmanager
    def _schedd(self) -> Iterator[Any]:
        """A connection to the schedd; errors name it."""
        daemon = self.schedd()
        with map_errors(f"the schedd '{daemon.name}'"):
            yield load_bindings().Schedd(daemon.ad)

    # ----------------------------------------------------------------------------------------------------------- submit

    def submit_dag(self, dag: Path, options: Mapping[str, str | int], attributes: Mapping[str, str]) -> DagmanJob:
        """Submit a DAG to DAGMan.

        `options` are those of ``condor_submit_dag``; `attributes` are added to DAGMan's own job. Raises
        `SubmissionRefusedError` if the schedd refuses it, and `UnreachableError` if no schedd answers.
        """
        htcondor = load_bindings()
        daemon = self.schedd()
        if old := version_error(daemon.version):
            raise SubmissionRefusedError(old, hint="Submit from an access point with HTCondor 24 or later.")
        with map_errors(f"the schedd '{daemon.name}'", request="the DAG"):
            # Relative paths in the DAG are resolved from the working directory of this process.
            with chdir(dag.parent), silence_stdout():
                submit = htcondor.Submit.from_dag(str(dag), {"dagman": self._dagman(), **options})
            submit["initialdir"] = str(dag.parent)
            for name, value in attributes.items():
                submit[name] = value
        return self._submit_dagman(daemon, submit, "the DAG")

    def submit_description(self, path: Path) -> DagmanJob:
        """Submit the description of DAGMan's job that ``condor_submit_dag`` wrote.

        Raises `SubmissionRefusedError` if it cannot be read or the schedd refuses it, and `UnreachableError` if no
        schedd answers.
        """
        try:
            text = read_file(path).decode("utf-8", "replace")
        except OSError as error:
            raise SubmissionRefusedError(f"'{path}' cannot be read: {error.strerror}") from error
        daemon = self.schedd()
        with map_errors(f"the schedd '{daemon.name}'", request=f"'{path}'"):
            submit = load_bindings().Submit(text)
            submit["initialdir"] = str(path.parent)
        return self._submit_dagman(daemon, submit, f"'{path}'")

    def _submit_dagman(self, daemon: Daemon, submit: Any, what: str) -> DagmanJob:
        with map_errors(f"the schedd '{daemon.name}'", request=what):
            cluster = int(load_bindings().Schedd(daemon.ad).submit(submit).cluster())
        found = self.query_jobs(f"ClusterId == {cluster}", ("GlobalJobId",))
        names = [] if isinstance(found, Unreachable) else [str(ad.get("GlobalJobId", "")) for ad in found]
        return DagmanJob(cluster=cluster, schedd=daemon.name, global_id=names[0] if names else "")

    def require_answer(self) -> None:
        """Check that the schedd answers.

        Raises `UnreachableError` if it does not.
        """
        with self._schedd() as schedd:
            schedd.query("false", projection=["ClusterId"])

    def find_dagman(self, constraint: str, *, since: float) -> DagmanJob | None:
        """The DAGMan job that meets a constraint, in the queue or in the history since a time; ``None`` if absent.

        Raises `UnreachableError` if the schedd does not answer.
        """
        names = ("ClusterId", "GlobalJobId")
        found = self.query_jobs(constraint, names)
        if isinstance(found, Unreachable):
            raise UnreachableError(f"whether a DAG arrived is not known: {found.why}", hint="Try again later.")
        # A history may be long: the search stops at the submission's time. Two hosts' clocks may differ.
        ads = found or self.query_history(constraint, names, since=f"EnteredCurrentStatus < {int(since) - CLOCKS_S}")
        if not ads:
            return None
        return DagmanJob(
            cluster=int(ads[0]["ClusterId"]), schedd=self.schedd().name, global_id=str(ads[0].get("GlobalJobId", ""))
        )

    def _dagman(self) -> str:
        """Path of the DAGMan program, which the bindings alone would search in ``PATH``."""
        path = self.setting("DAGMAN") or f"{self.setting('BIN')}/condor_dagman"
        if not os.access(path, os.X_OK):
            raise SubmissionRefusedError(
                f"there is no program '{path}', which runs DAGs",
                hint="Submit where HTCondor's own programs are installed; the Python package alone has no DAGMan.",
            )
        return path

    # ------------------------------------------------------------------------------------------------ query and control

    def query_jobs(self, constraint: str, attributes: Sequence[str]) -> list[Ad] | Unreachable:
        """Attributes of the jobs in the queue that meet a constraint."""
        try:
            with self._schedd() as schedd:
                return [_ad_values(ad, attributes) for ad in schedd.query(constraint, projection=list(attributes))]
        except LongshoreError as error:
            return Unreachable(why=error.message)

    def query_history(
        self, constraint: str, attributes: Sequence[str], *, most: int = 1, since: str | None = None
    ) -> list[Ad]:
        """Attributes of jobs that left the queue, newest first.

        `most` limits their number; -1 is no limit. `since` is an expression: the search stops at the first job that
        meets it. Raises `ServiceError` if the schedd does not answer.
        """
        with self._schedd() as schedd:
            return [_ad_values(ad, attributes) for ad in schedd.history(constraint, list(attributes), most, since)]

    def apply_action(self, action: str, constraint: str, reason: str) -> int:
        """Apply an action to all jobs that meet a constraint; return how many were changed.

        `action` is ``Remove``, ``RemoveX``, ``Hold`` or ``Release``. Raises `ServiceError` if the schedd refuses.
        """
        with self._schedd() as schedd:
            # Version 25.14 drops a reason that is no pair.
            answer = schedd.act(getattr(load_bindings().JobAction, action), constraint, (reason, 0))
            return int(answer["TotalSuccess"]) if answer is not None else 0

    def _connect_dagman(self, cluster: int) -> Any:
        """A connection to DAGMan itself; the bindings find it only through the schedd of this host.

        Raises `SubmissionRefusedError` if it is in another schedd.
        """
        if self._name:
            there = self.schedd().name
            try:
                here = CondorClient().schedd().name
            except UnreachableError:
                here = ""
            if there.lower() != here.lower():
                raise SubmissionRefusedError(
                    f"DAGMan (job {cluster}) accepts commands only on the host of its schedd, '{there}'",
                    hint=f"Run the command there. This host has {f'the schedd {here!r}' if here else 'no schedd'}.",
                )
        return load_bindings().DAGMan(cluster)

    def pause_dag(self, cluster: int, *, halt: str | None) -> None:
        """Pause DAGMan, so that it submits no more jobs, or resume it.

        `halt` is the reason for the pause; ``None`` resumes. Raises `ServiceError` if DAGMan refuses.
        """
        dagman = self._connect_dagman(cluster)
        # Halted without a pause, DAGMan ends when no job of it is in the queue.
        with map_errors("DAGMan"):
            done, answer = dagman.resume() if halt is None else dagman.halt(halt, pause=True)
        if not done:
            raise UnreachableError(f"DAGMan (job {cluster}) rejects the command: {answer}")

    def throttle_dag(self, cluster: int, most: int) -> None:
        """Limit the number of jobs that DAGMan keeps in the queue; 0 is no limit.

        Raises `ServiceError` if DAGMan refuses.
        """
        dagman = self._connect_dagman(cluster)
        with map_errors("DAGMan"):
            answer = dagman.throttle(max_nodes=most)
        if isinstance(answer, str):
            raise UnreachableError(f"DAGMan (job {cluster}) rejects the command: {answer}")


def quoted(text: str) -> str:
    """A text as a ClassAd string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _daemon(ad: Any) -> Daemon:
    return Daemon(name=str(ad.get("Name", "")), version=version_number(str(ad.get("CondorVersion", ""))), ad=ad)


def _ad_values(ad: _ClassAd, attributes: Sequence[str]) -> Ad:
    """The attributes that have a value in an ad."""
    found = {}
    for name in attributes:
        value = ad.eval(name) if name in ad else None
        # Otherwise the value is undefined, or an error.
        if value is not None and type(value).__name__ != "Value":
            found[name] = value
    return found


# Address of the schedd of a run: ``wms/where.json``.


NAME: Final = "htcondor"
"""Name of the service."""
WHERE: Final = PurePosixPath("wms", "where.json")


class ScheddAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Schedd and pool of a run; empty for those of the host."""

    schedd: str = ""
    pool: str = ""


def client_of(run: RunPaths) -> CondorClient:
    """Return a client of the schedd of a run."""
    try:
        where = msgspec.json.decode(read_file(run.root / WHERE), type=ScheddAddress)
    except (OSError, *DECODE_ERRORS):
        where = ScheddAddress()
    return CondorClient(schedd=where.schedd, pool=where.pool)


def write_address(run: RunPaths, address: ScheddAddress) -> None:
    """Write the address of the schedd of a run."""
    write_atomically(run.root / WHERE, msgspec.json.encode(address) + b"\n", below=run.root)


# Parses ids of HTCondor jobs: a cluster, a job, or a global id.


_LOCAL: Final = re.compile(r"(\d+)(?:\.(\d+))?")
_GLOBAL: Final = re.compile(r"([^#\s]+)#(\d+)\.(\d+)#(\d+)")


class CondorId(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a job in a schedd."""

    cluster: int
    schedd: str = ""
    """Name of the schedd; empty if the id has none."""
    qdate: int | None = None
    """Time of the submission, in seconds since the epoch; ``None`` if the id has none."""


def parse_id(text: str) -> CondorId | None:
    """Parse an id: ``12``, ``12.0`` or ``schedd#12.0#1763630000``; ``None`` if it is none of these."""
    if found := _LOCAL.fullmatch(text):
        return CondorId(cluster=int(found[1]))
    if found := _GLOBAL.fullmatch(text):
        return CondorId(cluster=int(found[2]), schedd=found[1], qdate=int(found[4]))
    return None


def format_id(cluster: int) -> str:
    """A run's id as BPS prints it."""
    return f"{cluster}.0"


# Checks that a pool answers and accepts jobs, and finds the capacity of its largest machine.


_MATCH_S: Final = 5.0
"""Processor time in which the names of all machines must be matched."""
_MACHINE: Final = ("Machine", "TotalCpus", "TotalMemory", "TotalDisk", "TotalGPUs", "TotalSlotCpus", "TotalSlotMemory")


def ping(client: CondorClient, *, pattern: str = "") -> PingReport:
    """Query the collector and the schedd.

    `pattern` is a regular expression of machine names; the matching machines determine the capacity, or all if none
    matches. Raises `ConfigError` if it is no regular expression.
    """
    machines_like(pattern)
    details: dict[str, str] = {}
    try:
        details["bindings"] = client.version()
        collector = client.collector()
        details["collector"] = f"{collector.name} ({collector.version})"
        schedd = client.schedd()
        details["schedd"] = f"{schedd.name} ({schedd.version})"
        # This finds a schedd that hangs within seconds; the next query would wait for minutes.
        client.require_answer()
        who = client.authenticate(schedd)
        details["authenticated"] = f"{who.get('MyRemoteUserName', '?')} by {who.get('AuthMethods', '?')}"
        machines = client.query_machines(_MACHINE)
    except (ServiceError, UnreachableError) as error:
        message = f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message
        return PingReport(service=NAME, ok=False, message=message, details=details)
    if who.get("AuthorizationSucceeded", "True") != "True":
        message = f"the schedd '{schedd.name}' rejects commands from {details['authenticated']}"
        return PingReport(service=NAME, ok=False, message=message, details=details)
    names = {str(ad.get("Machine")) for ad in machines}
    details["machines"] = str(len(names))
    if old := version_error(schedd.version):
        return PingReport(service=NAME, ok=False, message=f"{old}; 24 or later is needed", details=details)
    message = f"HTCondor {schedd.version}: schedd '{schedd.name}' accepts jobs, {len(names)} machines"
    return PingReport(
        service=NAME, ok=True, message=message, details=details, capacity=capacity_of(machines, pattern) or None
    )


def machines_like(pattern: str) -> re.Pattern[str]:
    """Compile ``executeMachinesPattern``.

    Raises `ConfigError` if it is no regular expression.
    """
    try:
        return compile_regex(pattern)
    except RegexError as error:
        raise ConfigError(
            f"'executeMachinesPattern' is no regular expression: '{pattern}' ({error})",
            hint="One is like '.*worker.*': '*' means any number of what stands before it.",
        ) from error


def capacity_of(machines: Sequence[Ad], pattern: str) -> dict[str, int]:
    """The largest amount of each resource on any machine.

    `machines` are ads, one or more per machine. Machines whose name matches `pattern` count, or all if none matches.
    """
    like = machines_like(pattern)
    try:
        with cpu_limit(_MATCH_S):
            chosen = [ad for ad in machines if pattern and like.match(str(ad.get("Machine", "")))] or machines
    except CpuLimitError:
        raise ConfigError(f"'executeMachinesPattern' takes too long on names of machines: '{pattern}'") from None
    found: dict[str, int] = {}
    for resource, names, unit in (
        ("cpus", ("TotalCpus", "TotalSlotCpus"), 1),
        ("memory", ("TotalMemory", "TotalSlotMemory"), MIB),
        ("disk", ("TotalDisk",), 1024),
        ("gpus", ("TotalGPUs",), 1),
    ):
        amounts = [int(float(ad[name])) * unit for ad in chosen for name in names[:1] if ad.get(name)]
        amounts = amounts or [int(float(ad[name])) * unit for ad in chosen for name in names[1:] if ad.get(name)]
        if amounts:
            found[resource] = max(amounts)
    return found


def query_load(client: CondorClient) -> dict[str, float]:
    """Return the processors of the pool, and those that no job has.

    Raises `UnreachableError` if the collector does not answer.
    """
    slots = client.query_machines(("SlotType", "State", "Cpus", "TotalSlotCpus"))
    # A partitionable slot has what its dynamic slots do not have, and knows the sum.
    static = [ad for ad in slots if ad.get("SlotType") != "Dynamic"]
    free = [ad for ad in static if ad.get("SlotType") == "Partitionable" or ad.get("State") == "Unclaimed"]
    return {
        "cpus_total": float(sum(_cpus(ad, "TotalSlotCpus") for ad in static)),
        "cpus_free": float(sum(_cpus(ad, "Cpus") for ad in free)),
    }


def _cpus(ad: Ad, name: str) -> int:
    value = ad.get(name)
    return value if isinstance(value, int) else 0
