"""Records between the core and a service: run directory, site, context, problems, rendered files, ping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self, TypeAlias

import msgspec

from longshore.contract.inventory import Inventory
from longshore.origin import Origin

RUN_FOLDER_VARIABLE: Final = "LONGSHORE_JOB_RUN_DIR"
"""Variable of a job with the directory of its run."""


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
    """Kind of the error: ``request``, ``files`` or ``preparation``."""
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
    """What of the site's settings it does not take. One that is not fatal concerns only jobs that use it."""


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
