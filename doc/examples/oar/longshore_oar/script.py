"""Options of ``oarsub``, from requests and settings, and how a script is passed to it (pure functions)."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping

from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, Request
from longshore.services.batch.script import JobSpec

SERVICE = "oar"
INDEX = "OAR_ARRAY_INDEX"
"""Variable with the index of a job in its array, from 1. The command of an array has it, and that of a job has not."""
DIRECTIVE = "#OAR"


def options(job: JobSpec) -> Iterator[str]:
    """Return the options of oarsub for a job; raises `ConfigError` when a setting is invalid."""
    request, attributes = job.batch.request, job.batch.attributes
    yield f"-n {shlex.quote(job.name)}"
    if job.array:
        yield f"--array {job.array}"
    # OAR refuses many signs in paths: the script opens its output itself, and the wrapper enters the directory.
    yield "-d / -O /dev/null -E /dev/null"
    yield f"-l {shlex.quote(resources(request, job.own))}"
    if condition := properties(request, job.own):
        yield f"-p {shlex.quote(condition)}"
    if queue := attributes.get("queue") or job.defaults.queue:
        yield f"-q {shlex.quote(str(queue))}"
    if project := attributes.get("accountingGroup") or job.defaults.account:
        yield f"--project {shlex.quote(str(project))}"
    for each in read_types(job.own):
        yield f"-t {shlex.quote(each)}"
    yield from job.raw


def resources(request: Request, own: Mapping[str, YamlValue]) -> str:
    """Return the resources of a job, all on one machine, and its walltime."""
    cores = request.cpus
    per_core = own.get("memoryPerCore")
    if request.memory_b is not None and per_core:
        cores = max(cores, math.ceil(request.memory_b / (int(str(per_core)) * MIB)))
    host, core = own.get("hostResource") or "nodes", own.get("coreResource") or "core"
    limit = "" if request.walltime_s is None else f",walltime={walltime(request.walltime_s)}"
    return f"/{host}=1/{core}={cores}{limit}"


def walltime(seconds: float) -> str:
    """Return a walltime as OAR reads it: hours, minutes and seconds."""
    whole = max(1, math.ceil(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def properties(request: Request, own: Mapping[str, YamlValue]) -> str:
    """Return the condition on the properties of a job's resources; empty for none."""
    conditions = [f"({own['properties']})"] if own.get("properties") else []
    if own.get("memoryProperty") and request.memory_b is not None:
        conditions.append(f"{own['memoryProperty']} >= {math.ceil(request.memory_b / MIB)}")
    return " AND ".join(conditions)


def read_types(own: Mapping[str, YamlValue]) -> list[str]:
    """Return the types of a job; raises `ConfigError` for one that changes what its end means."""
    types = own.get("types") or []
    if not isinstance(types, list):
        raise ConfigError(f"'{SERVICE}.types' must be a list, not '{types}'")
    for each in types:
        if str(each).partition("=")[0] in ("idempotent", "noop", "container", "cosystem", "deploy"):
            raise ConfigError(f"'{SERVICE}.types' cannot have '{each}': OAR would run the job again, or not at all")
    return [str(each) for each in types]


def read_directives(script: str) -> tuple[tuple[str, ...], str]:
    """Return the words of the directives of a script, and the script without them."""
    lines = script.splitlines()
    directives = [line.removeprefix(DIRECTIVE) for line in lines if line.startswith(f"{DIRECTIVE} ")]
    words = tuple(word for line in directives for word in shlex.split(line))
    return words, "\n".join(line for line in lines if not line.startswith("#"))
