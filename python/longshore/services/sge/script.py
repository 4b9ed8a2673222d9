"""Scripts of batches and of the engine's job for ``qsub``."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, cast

import jinja2
import msgspec

from longshore.batch.dialect import EngineJobSpec
from longshore.batch.jobs import ClusterFacts
from longshore.batch.settings import max_wait_s, on_submit_error
from longshore.contract.batch import Batch, Urgency
from longshore.contract.context import RunPaths
from longshore.engine.job_wrapper import WRAPPER, BatchFiles
from longshore.model.values import YamlValue
from longshore.model.workflow.allocation import Allocation
from longshore.services.sge.options import (
    SERVICE,
    SgeMap,
    memory_per,
    options,
    raw_options,
    read_priority,
    sge_map,
)
from longshore.services.sge.parse import is_number, parse_bytes, parse_seconds, requested
from longshore.sites.partitions import PartitionRow, choose_partition

_CLOSE: Final = str.maketrans({":": ";", "@": "a", "/": "_", "\\": "_", "*": "_", "?": "_"})
"""Signs that no name may have, and close ones; those of patterns have none."""
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._;+=-]+")
_LONGEST: Final = 120
_OBEYED: Final = "99 100"
"""Statuses that start a job again, and put it into the error state (sge_diagnostics(1))."""


class SgeScript(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of the script's template.

    `name` is the job's name in the queue, and `tag` as the run knows it. `options` are lines of qsub's options. `array`
    is the number of tasks; 0 for a single job. `folder` is the working directory. `output` is the scheduler's own
    output; jobs have logs of their own. `wrapper`, `table` and `ends` are the program that runs a member, its table,
    and the folder of its end records. `rerun` allows Grid Engine to start the job again by itself.
    """

    name: str
    tag: str
    options: tuple[str, ...]
    array: int = 0
    folder: str
    output: str
    wrapper: str = ""
    table: str = ""
    ends: str = ""
    rerun: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """Every line of options, without ``#$``."""
        # Inherited variables are already selected: qsub sees no others. Its own paths know no quotes and may not have
        # colons, so the script opens its output and enters its folder itself.
        first = [f'-N "{self.name}"', "-S /bin/sh", "-V", "-wd /", "-j y", "-o /dev/null", "-w e"]
        first += [f"-r {'y' if self.rerun else 'n'}"]
        first += [f"-t 1-{self.array}"] if self.array else []
        return (*first, *self.options)

    @property
    def begin(self) -> str:
        """Lines that open the output, and enter the working directory."""
        return f"exec >>{shlex.quote(self.output)} 2>&1\ncd -- {shlex.quote(self.folder)} || exit 100"

    @property
    def run_here(self) -> str:
        """The command that runs a member in the script's own shell, which is a fresh ``/bin/sh``."""
        line = '"$SGE_TASK_ID"' if self.array else "1"
        # Grid Engine kills the process group of a script, and a job has one of its own.
        words = f"-g -x '{_OBEYED}' -m {line} -e {shlex.quote(self.ends)} {shlex.quote(self.table)}"
        return f"set -- {words} && . {shlex.quote(self.wrapper)}"


class SgeScriptWriter:
    """Writes the scripts of a run's batches.

    `run` is the run directory, `settings` are the executor's, `template` is the text of the template, and `facts`
    describe the cluster.
    """

    def __init__(
        self, run: RunPaths, settings: Mapping[str, object], template: str, facts: ClusterFacts | None
    ) -> None:
        self._run = run
        self._settings = settings
        self._sge = sge_map(settings)
        self._byte_resources = facts.byte_resources if facts else ()
        self._template = template

    def text(self, batch: Batch) -> str:
        """Render the script of a batch; see `batch_script`."""
        return batch_script(batch, self._settings, self._run, self._template, byte_resources=self._byte_resources)

    def name(self, tag: str) -> str:
        """Return the name of a batch's job in Grid Engine."""
        return batch_name(self._settings, tag)

    def max_wait_s(self, batch: Batch) -> float | None:
        """Return the longest wait of members in the queue; ``None`` for no limit."""
        return max_wait_s(SERVICE, merge_settings(self._settings, batch.settings))

    def hopeless_after_s(self, batch: Batch) -> float | None:
        """Return no limit: ``-w e`` refuses what can never start, and no reason of waiting says so later."""
        return None

    def priority(self, urgency: Urgency) -> int | None:
        """Return the priority of a waiting batch; ``None`` where it does not follow from urgency."""
        if not self._sge.get("use_priority") or self._sge.get("priority") is not None:
            return None
        return read_priority(self._sge, slack_s(urgency))

    def max_batch(self, settings: SgeMap, limit: int) -> int:
        """Return how many members a batch may have."""
        return limit

    @property
    def stops_run(self) -> bool:
        """Whether a refusal ends the run, and not only the refused jobs."""
        return on_submit_error(SERVICE, self._sge) == "run"


def slack_s(urgency: Urgency) -> float:
    """Return the seconds until the latest start that does not delay the end of the run."""
    return urgency.end_at - urgency.pressure_s - time.time()


def batch_script(
    batch: Batch,
    settings: Mapping[str, object],
    run: RunPaths,
    template: str,
    *,
    byte_resources: tuple[str, ...] = (),
) -> str:
    """Render the script of a batch.

    The batch's own map overrides the site's; a key that is ``None`` there removes the site's value. `settings` are the
    executor's, and `template` is the template's text.

    Raises `ConfigError` when a setting is invalid, or cannot be written into a script.
    """
    own, files = merge_settings(settings, batch.settings), BatchFiles(run, batch.tag)
    lines = options(
        batch,
        own,
        defaults=_defaults(settings, allocation(batch, settings)),
        byte_resources=byte_resources,
        slack_s=slack_s(batch.urgency) if batch.urgency else None,
    )
    script = SgeScript(
        name=batch_name(settings, batch.tag),
        tag=batch.tag,
        options=tuple(lines),
        array=len(batch.members) if len(batch.members) > 1 else 0,
        folder=str(run.root),
        output=str(files.output),
        wrapper=str(run.root / WRAPPER),
        table=str(files.table),
        ends=str(files.ends),
    )
    return _rendered(script, template)


def engine_script(spec: EngineJobSpec, run: RunPaths, settings: Mapping[str, object], template: str) -> str:
    """Render the script of the job that runs the engine; raises `ConfigError` when the settings are invalid."""
    site = sge_map(settings)
    kept = ("mem_resource", "memoryPer", "default_prio", "hard", "soft")
    own = merge_settings({SERVICE: {name: site.get(name) for name in kept}, **_directives(settings)}, spec.settings)
    batch = Batch(id="0", tag=spec.name, request=spec.request, members=())
    limit = spec.request.walltime_s
    # USR1 at the soft limit, KILL at the hard one (queue_conf(5): s_rt).
    soft = (f"-l s_rt={max(1, int(limit) - spec.warning_s)}",) if limit and spec.warning_s else ()
    script = SgeScript(
        name=job_name(spec.name, str(site.get("repo_key") or "")),
        tag=spec.name,
        options=(*soft, *options(batch, own, defaults=_project(settings))),
        folder=str(run.root),
        output=str(run.engine_log),
        rerun=True,
    )
    return _rendered(script, template, by=spec.by, command=spec.command, body=spec.body)


def merge_settings(settings: Mapping[str, object], own: SgeMap) -> dict[str, YamlValue]:
    """Merge the jobs' map over the site's, with the raw options of either."""
    # The jobs' own value already contains the site's.
    site: dict[str, YamlValue] = {**sge_map(settings), "directives": settings.get("directives")}  # type: ignore[dict-item]
    return {**site, **own}


def _directives(settings: Mapping[str, object]) -> dict[str, object]:
    return {"directives": settings.get("directives")}


def allocation(batch: Batch, settings: Mapping[str, object]) -> Allocation:
    """Return what jobs ask for by their request and by lines of options, which win; `settings` are the executor's."""
    own = merge_settings(settings, batch.settings)
    lines = "\n".join((*raw_options(own.get("hard")), *raw_options(own.get("directives"))))
    text = re.sub(r"(?s)(?:^|\s)-soft\b.*?(?=\s-hard\b|$)", "", lines).replace('"', "").replace("'", "")
    asked = {name: str(amount) for name, amount in batch.request.resources.items()} | requested(text)
    found = Allocation.of_request(batch.request)
    queues = re.findall(r"(?:^|\s)-q\s+(\S+)", text) or [str(batch.attributes.get("queue") or "")]
    # Of a range of slots, the largest counts.
    ranges = re.findall(r"(?:^|\s)-pe\s+\S+\s+(\S+)", text)
    slots = max(map(int, re.findall(r"\d{1,9}", ranges[-1])), default=0) if ranges else 0
    processors = asked.get(str(own.get("cpu_resource")), "")
    cpus = slots or (int(processors) if is_number(processors) else 0) or found.cpus_per_task
    size, disk = (parse_bytes(asked.get(str(own.get(key)), "")) for key in ("mem_resource", "tmp_resource"))
    per_slot = slots or (cpus if own.get("parallelEnvironment") else 1)
    limit_s = parse_seconds(asked["h_rt"]) if "h_rt" in asked else math.inf
    return msgspec.structs.replace(
        found,
        cpus_per_task=cpus,
        memory_b=size * (per_slot if memory_per(own) == "slot" else 1) or found.memory_b,
        disk_b=disk or found.disk_b,
        walltime_s=found.walltime_s if limit_s == math.inf else limit_s,
        # A queue may be that of some hosts: all.q@@fast.
        partitions=tuple(name for queue in queues[-1].split(",") if (name := queue.partition("@")[0])),
    )


def _defaults(settings: Mapping[str, object], asked: Allocation) -> dict[str, str]:
    """Return the site's project, and its first queue that holds a job; raises `ConfigError` when none does."""
    rows = cast("Sequence[PartitionRow]", settings.get("partitions") or ())
    row = choose_partition(rows, asked)
    if row is None:
        return _project(settings)
    return {
        **_project({**settings, **{key: row[key] for key in ("account",) if row.get("account")}}),
        "queue": row["name"],
    }


def _project(settings: Mapping[str, object]) -> dict[str, str]:
    return {"project": str(settings["account"])} if settings.get("account") else {}


def batch_name(settings: Mapping[str, object], tag: str) -> str:
    """Return the name of a batch's job in Grid Engine, by which it is found again."""
    return job_name(tag, str(sge_map(settings).get("repo_key") or ""))


def job_name(tag: str, key: str = "") -> str:
    """Make a name that Grid Engine and its patterns accept, shortened with a hash; its first sign is a letter."""
    plain = _ILLEGAL.sub("_", (key + tag).translate(_CLOSE))
    plain = plain if plain[:1].isalpha() else f"j{plain}"
    if len(plain) <= _LONGEST:
        return plain
    digest = sha256(plain.encode()).hexdigest()[:10]
    return f"{plain[: _LONGEST - 11 - len(tag)]}-{digest}{_ILLEGAL.sub('_', tag)}"[:_LONGEST]


def _rendered(script: SgeScript, template: str, **more: str) -> str:
    # The result is a shell script, not a page: no HTML escaping.
    environment = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template).render(job=script, **more)
