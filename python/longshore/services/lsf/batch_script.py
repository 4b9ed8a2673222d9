"""Scripts for bsub: of a batch, and of the job that runs the engine or collects a native run."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, cast

import jinja2
import msgspec

from longshore.batch.dialect import EngineJobSpec
from longshore.batch.settings import hopeless_after_s, max_wait_s, on_submit_error, own_map
from longshore.contract.batch import Batch, Urgency
from longshore.contract.context import RunPaths
from longshore.engine.job_wrapper import WRAPPER, BatchFiles
from longshore.errors import ConfigError
from longshore.model.workflow.allocation import Allocation
from longshore.services.lsf.options import PASSED_KEYS, SERVICE, LsfMap, Option, job_options, raw_options
from longshore.services.lsf.parse_jobs import parse_bytes, parse_number
from longshore.sites.partitions import PartitionRow, choose_partition

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 120
_UNFIT: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that end a line, or cannot be in one."""
_PATTERN: Final = re.compile(r"%[A-Za-z]")
"""What LSF replaces in names of files and folders."""
_AGAIN: Final = 99
"""Exit status of an engine that wants to be started again."""


class LsfScript(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of a script's template.

    `lines` are the options without ``#BSUB``. `array` is the number of elements; 0 for a single job. `wrapper`,
    `table` and `ends` are the program that runs a member, its table, and the folder of its end records.
    """

    lines: tuple[str, ...]
    array: int = 0
    wrapper: str = ""
    table: str = ""
    ends: str = ""

    @property
    def run(self) -> str:
        """The command that runs a member, independent of earlier lines of the script."""
        return f"exec /bin/sh {shlex.quote(self.wrapper)} {self._member}"

    @property
    def run_here(self) -> str:
        """The command that runs a member in the script's own shell, which is a fresh ``/bin/sh``."""
        return f"set -- {self._member} && . {shlex.quote(self.wrapper)}"

    @property
    def _member(self) -> str:
        line = '"$LSB_JOBINDEX"' if self.array else "1"
        return f"-m {line} -e {shlex.quote(self.ends)} {shlex.quote(self.table)}"


class LsfScripts:
    """Writes the scripts of a run's batches; `settings` are the executor's."""

    def __init__(self, run: RunPaths, settings: Mapping[str, object], template: str) -> None:
        self._run = run
        self._settings = settings
        self._site = own_map(SERVICE, settings)
        self._template = template

    def text(self, batch: Batch) -> str:
        """Render the script of a batch."""
        return batch_script(batch, self._settings, self._run, self._template)

    def name(self, tag: str) -> str:
        """Return the name of a batch's job in LSF."""
        return job_name(tag, self._site)

    def max_batch(self, settings: LsfMap, limit: int) -> int:
        """Return how many members a batch may have: arrays take all settings."""
        return limit

    def max_wait_s(self, batch: Batch) -> float | None:
        """Return the longest wait of members in the queue; ``None`` for no limit."""
        return max_wait_s(SERVICE, {**self._site, **batch.settings})

    def hopeless_after_s(self, batch: Batch) -> float | None:
        """Return how long members wait that can never start; ``None`` for no limit."""
        return hopeless_after_s(SERVICE, {**self._site, **batch.settings})

    def priority(self, urgency: Urgency) -> int | None:
        """Return ``None``: the priority of a waiting job is not changed."""
        return None

    @property
    def stops_run(self) -> bool:
        """Whether a refusal ends the run, and not only the refused jobs."""
        return on_submit_error(SERVICE, self._site) == "run"


def batch_script(batch: Batch, settings: Mapping[str, object], run: RunPaths, template: str) -> str:
    """Render the script of a batch; raises `ConfigError` when a setting cannot be written into it.

    The jobs' own map overrides the site's; `settings` are the executor's, `template` is the template's text.
    """
    site = own_map(SERVICE, settings)
    own, files = {**site, **batch.settings}, BatchFiles(run, batch.tag)
    array = len(batch.members) if len(batch.members) > 1 else 0
    name = job_name(batch.tag, site) + (f"[1-{array}]" if array else "")
    raw = _raw(own, settings)
    rows = cast("Sequence[PartitionRow]", settings.get("partitions") or ())
    row = choose_partition(rows, allocation(batch, settings)) if rows else None
    account = (row.get("account") if row else None) or settings.get("account")
    defaults = {"project": account, "queue": row["name"] if row else None}
    head = _head(name, run, str(files.output), own, run.root.name)
    script = LsfScript(
        lines=tuple(_lines([*head, *job_options(batch, {**defaults, **own}, raw)], raw)),
        array=array,
        wrapper=str(run.root / WRAPPER),
        table=str(files.table),
        ends=str(files.ends),
    )
    return _rendered(script, template)


def engine_script(spec: EngineJobSpec, run: RunPaths, settings: Mapping[str, object], template: str) -> str:
    """Render the script of the job that runs the engine; raises `ConfigError` when the settings are invalid."""
    site = own_map(SERVICE, settings)
    own = {name: value for name, value in {**site, **spec.settings}.items() if name not in PASSED_KEYS}
    batch = Batch(id="0", tag=spec.name, request=spec.request, members=())
    raw = raw_options(settings.get("directives"), spec.settings.get("bsub"))
    # LSF does not send the warning without the time limit that it warns of.
    warning = [("-wa", "USR1"), ("-wt", str(math.ceil(spec.warning_s / 60)))] if spec.warning_s else []
    options = [
        *_head(job_name(spec.name, site), run, "/dev/null", own, run.root.name),
        *job_options(batch, {"project": settings.get("account"), **own, "requeue": True}, raw),
        *[("-Q", str(_AGAIN)), *warning],
    ]
    return _rendered(
        LsfScript(lines=tuple(_lines(options, raw))),
        template,
        by=spec.by,
        command=spec.command,
        body=spec.body,
        output=shlex.quote(str(run.engine_log)),
        again=str(_AGAIN),
    )


def job_name(tag: str, site: LsfMap) -> str:
    """Make a name that has none of the signs that mean something to LSF, shortened with a hash."""
    plain = _ILLEGAL.sub("_", f"{site.get('repo_key') or ''}{tag}")
    if len(plain) <= _LONGEST:
        return plain
    digest = sha256(plain.encode()).hexdigest()[:10]
    return f"{plain[: _LONGEST - 11 - len(tag)]}-{digest}{_ILLEGAL.sub('_', tag)}"[:_LONGEST]


def allocation(batch: Batch, settings: Mapping[str, object]) -> Allocation:
    """Return what jobs ask for by their request and by raw lines, which win; `settings` are the executor's."""
    raw = _raw({**own_map(SERVICE, settings), **batch.settings}, settings)
    values = {name: value.strip() for name, _, value in (line.partition(" ") for line in raw)}
    found = Allocation.of_request(batch.request)
    queue = values.get("-q") or str(batch.attributes.get("queue") or "")
    slots, nodes = (parse_number(values.get(name, "").partition(",")[0]) for name in ("-n", "-nnodes"))
    hours, _, minutes = values.get("-W", "").partition("/")[0].rpartition(":")
    limit = None if (late := parse_number(minutes)) is None else ((parse_number(hours) or 0) * 60 + late) * 60.0
    return msgspec.structs.replace(
        found,
        cpus_per_task=slots or found.cpus_per_task,
        nodes=nodes,
        walltime_s=found.walltime_s if limit is None else limit,
        memory_b=parse_bytes(values.get("-M", "").rstrip("!")) or found.memory_b,
        partitions=tuple(queue.split()),
    )


def _raw(own: LsfMap, settings: Mapping[str, object]) -> tuple[str, ...]:
    # The jobs' own value already contains the site's.
    return raw_options(own.get("directives", settings.get("directives")), own.get("bsub"))


def _head(name: str, run: RunPaths, output: str, own: LsfMap, run_name: str) -> Iterator[Option]:
    for what, path in (("the directory of the run", str(run.root)), ("its output", output)):
        if found := _PATTERN.search(path):
            raise ConfigError(
                f"{what} cannot be '{path}': LSF replaces '{found[0]}' in paths",
                hint="Move the run to a directory without percent signs.",
            )
    yield "-J", name
    yield "-Jd", f"longshore run={run_name}"
    if own.get("group"):
        yield "-g", str(own["group"])
    yield "-cwd", str(run.root)
    yield "-o", output


def _lines(options: list[Option], raw: tuple[str, ...]) -> Iterator[str]:
    yield from (name if value is None else f"{name} {_quoted(name, value)}" for name, value in options)
    yield from (_fit("bsub", line) for line in raw)


def _fit(name: str, value: str) -> str:
    """Return a value that fits in a line of a script; raises `ConfigError` for one that does not."""
    if found := _UNFIT.search(value):
        raise ConfigError(
            f"'{name}' cannot be {value!r}: a line of a batch script has no room for {found[0]!r}",
            hint="Give it another value, or, of a path, move the run to another directory.",
        )
    return value


def _quoted(name: str, value: str) -> str:
    """Quote a value as the shell does: bsub reads its lines like the words of a command."""
    return _fit(name, value) if re.fullmatch(r"[\w@%+=:,./!-]+", value, re.ASCII) else shlex.quote(_fit(name, value))


def _rendered(script: LsfScript, template: str, **more: str) -> str:
    # The result is a shell script, not a page: no HTML escaping.
    environment = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template).render(job=script, **more)
