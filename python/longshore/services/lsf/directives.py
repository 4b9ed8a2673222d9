"""The ``#BSUB`` lines of a script (pure functions)."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from longshore.batch.scripts.job_spec import JobSpec
from longshore.batch.scripts.lines import fit_line
from longshore.batch.settings import node_count
from longshore.batch.values import parse_number
from longshore.errors import ConfigError
from longshore.model.workflow.allocation import Allocation
from longshore.services.lsf.options import SERVICE, Option, job_options, refuse_essential
from longshore.services.lsf.parse_jobs import parse_bytes

_PATTERN: Final = re.compile(r"%[A-Za-z]")
"""What LSF replaces in names of files and folders."""


_AGAIN: Final = 99
"""Exit status of an engine's script that wants to be started again."""


def directives(job: JobSpec) -> Iterator[str]:
    """Return the options of a job, without ``#BSUB``; raw ones come last."""
    refuse_essential(job.raw)
    options = (*_head(job), *job_options(job), *(_engine_options(job) if job.is_engine else ()))
    yield from (name if value is None else f"{name} {_quoted(name, value)}" for name, value in options)
    yield from (fit_line("bsub", line) for line in job.raw)


def allocation(job: JobSpec) -> Allocation:
    """Return what jobs ask for by their request and by raw lines, which win."""
    values = {name: value.strip() for name, _, value in (line.partition(" ") for line in job.raw)}
    found = Allocation.of_request(job.batch.request)
    queue = values.get("-q") or str(job.batch.attributes.get("queue") or "")
    slots, nodes = (parse_number(values.get(name, "").partition(",")[0]) for name in ("-n", "-nnodes"))
    hours, _, minutes = values.get("-W", "").partition("/")[0].rpartition(":")
    limit = None if (late := parse_number(minutes)) is None else ((parse_number(hours) or 0) * 60 + late) * 60.0
    return msgspec.structs.replace(
        found,
        cpus_per_task=slots or found.cpus_per_task,
        nodes=nodes or (node_count(SERVICE, job.own) if job.own.get("nodeCount") and not slots else None),
        walltime_s=found.walltime_s if limit is None else limit,
        memory_b=parse_bytes(values.get("-M", "").rstrip("!")) or found.memory_b,
        partitions=tuple(queue.split()),
    )


def _head(job: JobSpec) -> Iterator[Option]:
    for what, path in (("the directory of the run", job.folder), ("its output", job.output)):
        if found := _PATTERN.search(path):
            raise ConfigError(
                f"{what} cannot be '{path}': LSF replaces '{found[0]}' in paths",
                hint="Move the run to a directory without percent signs.",
            )
    yield "-J", job.name + (f"[1-{job.array}]" if job.array else "")
    yield "-Jd", f"longshore run={job.run_name}"
    if job.own.get("group"):
        yield "-g", str(job.own["group"])
    yield "-cwd", job.folder
    # The engine's script opens its output itself: LSF would write it at the end.
    yield "-o", "/dev/null" if job.is_engine else job.output


def _engine_options(job: JobSpec) -> Iterator[Option]:
    """Return the options by which a job is started again, and warned before its end."""
    yield "-Q", str(_AGAIN)
    if job.warning_s:
        # LSF does not send the warning without the time limit that it warns of.
        yield "-wa", "USR1"
        yield "-wt", str(math.ceil(job.warning_s / 60))


def _quoted(name: str, value: str) -> str:
    """Quote a value as the shell does: bsub reads its lines like the words of a command."""
    text = fit_line(name, value)
    return text if re.fullmatch(r"[\w@%+=:,./!-]+", text, re.ASCII) else shlex.quote(text)
