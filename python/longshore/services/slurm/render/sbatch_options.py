"""Translation of requests and settings into ``sbatch`` options, in a fixed order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.config.values.quantities import parse_memory, parse_walltime
from longshore.contract.batch import Batch
from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.model.workflow.request import MIB, Request

COMPONENT_NAMES: Final = (
    "cpu",
    "excludes",
    "features",
    "gres",
    "mem",
    "nodeCount",
    "nodes",
    "partition",
    "qos",
    "reserv",
    "tasks",
    "tasksPerNode",
    "tmp",
    "wckey",
)
"""Names that may end in the index of a component of a heterogeneous job; no index means component 0."""
JOB_NAMES: Final = (
    "exclusive",
    "launcher",
    "licence",
    "mailType",
    "mailUser",
    "nice",
    "omit",
    "priority",
    "requeue",
    "sbatch",
)
"""Names that apply to the whole job, not to a component."""
PASSED_KEYS: Final = ("container", "directives")
"""Configuration keys beside the service's own map that are passed on with it."""
ESSENTIAL_OPTIONS: Final = frozenset({"array", "job-name", "output"})
"""Options without which a job could not be found again, or would be another."""
SPELLINGS: Final = {
    "licences": "licence",
    "license": "licence",
    "licenses": "licence",
    "reservation": "reserv",
    "constraint": "features",
    "exclude": "excludes",
    "nodelist": "nodes",
}
SITE_NAMES: Final = (
    "clusters",
    "config",
    "engineAs",
    "engineJob",
    "gather",
    "lib_slurm",
    "n_max_queued_jobs",
    "nice_factor",
    "pollCeiling",
    "pollInterval",
    "maxpendtime",
    "mode",
    "onSubmitError",
    "repo_key",
    "time_origin",
    "use_nice",
)
"""Names that configure access to the cluster, not jobs."""

_NAME: Final = re.compile(r"([A-Za-z_]+?)(\d*)")
_OPTION_OF: Final = {
    "partition": "partition",
    "qos": "qos",
    "reserv": "reservation",
    "features": "constraint",
    "nodes": "nodelist",
    "excludes": "exclude",
    "wckey": "wckey",
}
_SCALARS: Final = {
    "mailUser": "mail-user",
    "mailType": "mail-type",
    "nice": "nice",
    "priority": "priority",
}
_COUNTS: Final = {"nodeCount": "nodes", "tasks": "ntasks", "tasksPerNode": "ntasks-per-node"}
_MAIL: Final = {"always": "ALL", "complete": "END", "error": "FAIL", "never": "NONE"}
"""HTCondor's (and BPS's) values for when to send mail, in Slurm's terms."""


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one component of a job; an ordinary job has one component.

    `options` maps each ``sbatch`` option without its dashes to its value; ``None`` for an option without one.
    """

    options: tuple[tuple[str, str | None], ...]


def normalize_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Normalize each name in a map to its first spelling.

    Raises `ConfigError` when two spellings of one name are used.
    """
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        found = _NAME.fullmatch(name)
        first = SPELLINGS.get(found[1], found[1]) + found[2] if found else name
        if first in plain:
            raise ConfigError(f"'slurm' has both '{name}' and another spelling of it", hint=f"Keep '{first}'.")
        plain[first] = value
    return plain


def components(
    batch: Batch,
    settings: Mapping[str, Any],
    *,
    licences: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Component, ...]:
    """Build the options of each component of a batch's jobs.

    `settings` is the service's own map, merged from site, run and label. Requested resources named in `licences` become
    licences; all others become a gres. `defaults` holds the default account, qos and partition.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    asked = normalize_names(settings)
    parts = _parts(asked)
    first = _ordinary(batch, asked, frozenset(licences)) | _own(parts[0])
    for name, value in (defaults or {}).items():
        first.setdefault(name, None if value is None else str(value))
    others = [_own(part) for part in parts[1:]]
    for part in others:
        # Account and time limit apply to the whole job, not to one component.
        part |= {name: first[name] for name in ("account", "time") if name in first}
    omitted = omitted_options(asked)
    return tuple(
        Component(options=tuple((name, part[name]) for name in _in_order(part) if name not in omitted))
        for part in (first, *others)
    )


def omitted_options(settings: Mapping[str, Any]) -> frozenset[str]:
    """Return the options, without dashes, that the user wants left out of the script.

    Raises `ConfigError` when one of them is essential.
    """
    names = frozenset(str(name).strip().lstrip("-") for name in _listed(settings.get("omit")))
    if missing := sorted(names & ESSENTIAL_OPTIONS):
        raise ConfigError(
            f"'slurm.omit' cannot leave out '{missing[0]}': the job is found again by it",
            hint="A line under 'directives' comes after ours and wins.",
        )
    return names


def component_count(settings: Mapping[str, Any]) -> int:
    """Count the components of jobs with these settings; an ordinary job has one.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    return len(_parts(normalize_names(settings)))


def check_names(settings: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for an unknown name, two spellings of one name, or a missing index."""
    plain = normalize_names(settings)
    _parts(plain)
    omitted_options(plain)


def _parts(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Split indexed names by component."""
    by_index: dict[int, dict[str, Any]] = {0: {}}
    for name, value in asked.items():
        if name in JOB_NAMES or name in SITE_NAMES or name in PASSED_KEYS or not _is_said(asked, name):
            continue
        found = _NAME.fullmatch(name)
        if not found or found[1] not in COMPONENT_NAMES:
            raise _unknown(name)
        index = int(found[2] or 0)
        part = by_index.setdefault(index, {})
        if found[1] in part:
            raise ConfigError(f"'slurm' has both '{found[1]}' and '{name}', which mean the same")
        part[found[1]] = value
    missing = sorted(set(range(max(by_index) + 1)) - by_index.keys())
    if missing:
        raise ConfigError(
            f"'slurm' asks for component {max(by_index)} of a heterogeneous job, but says nothing of {missing[0]}",
            hint=f"Number the components without gaps: add 'cpu{missing[0]}', say.",
        )
    return [by_index[index] for index in range(len(by_index))]


def _is_said(asked: Mapping[str, Any], name: str) -> bool:
    """Whether a name has a value; null and empty text are none."""
    return asked.get(name) not in (None, "", [])


def _unknown(name: str) -> ConfigError:
    known = [*COMPONENT_NAMES, *JOB_NAMES, *SITE_NAMES, *SPELLINGS]
    return ConfigError(
        f"'slurm' has no key '{name}'",
        hint=did_you_mean(name, known, likeness=NAME_LIKENESS)
        or f"There are {', '.join(sorted(known))}; other options of sbatch go under 'directives'.",
    )


def _ordinary(batch: Batch, asked: Mapping[str, Any], licences: frozenset[str]) -> dict[str, str | None]:
    """Build the options that every service supports."""
    request, attributes = batch.request, batch.attributes
    options: dict[str, str | None] = {"cpus-per-task": str(request.cpus)}
    if request.memory_b:
        options["mem"] = f"{math.ceil(request.memory_b / MIB)}M"
    if request.walltime_s is not None:
        options["time"] = str(max(1, math.ceil(request.walltime_s / 60)))
    if request.disk_b:
        options["tmp"] = f"{math.ceil(request.disk_b / MIB)}M"
    gres = [
        f"{_gres_name(name)}:{amount}" for name, amount in sorted(request.resources.items()) if name not in licences
    ]
    owned = [f"{name}:{amount}" for name, amount in sorted(request.resources.items()) if name in licences]
    owned += _listed(asked.get("licence"))
    if gres:
        options["gres"] = ",".join(gres)
    if owned:
        options["licenses"] = ",".join(owned)
    for key, option in (("queue", "partition"), ("accountingGroup", "account")):
        if attributes.get(key):
            options[option] = str(attributes[key])
    options |= _mail(attributes)
    options |= {option: ",".join(_listed(asked[key])) for key, option in _SCALARS.items() if _is_said(asked, key)}
    if asked.get("exclusive"):
        options["exclusive"] = None
    return options


def _mail(attributes: Mapping[str, Any]) -> dict[str, str | None]:
    if not attributes.get("mailTo"):
        return {}
    when = str(attributes.get("whenToMail") or "error")
    return {"mail-user": str(attributes["mailTo"]), "mail-type": _MAIL.get(when.lower(), when)}


def _own(part: Mapping[str, Any]) -> dict[str, str | None]:
    """Build the options of one component from Slurm's own settings, which override the common ones."""
    options: dict[str, str | None] = {}
    if part.get("cpu") is not None:
        options["cpus-per-task"] = str(part["cpu"])
    options |= {option: str(part[key]) for key, option in _COUNTS.items() if part.get(key) is not None}
    for name in ("mem", "tmp"):
        if part.get(name) is not None:
            options[name] = str(part[name])
    if part.get("gres") is not None:
        options["gres"] = ",".join(_listed(part["gres"]))
    for name, option in _OPTION_OF.items():
        if part.get(name) is not None:
            joint = "&" if name == "features" else ","
            options[option] = joint.join(_listed(part[name]))
    return options


def _gres_name(name: str) -> str:
    """Return Slurm's name of a generic resource: ``gpus`` is ``gpu`` there."""
    return "gpu" if name == "gpus" else name


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


_ORDER: Final = (
    "partition",
    "qos",
    "account",
    "reservation",
    "wckey",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "cpus-per-task",
    "mem",
    "tmp",
    "time",
    "gres",
    "licenses",
    "constraint",
    "nodelist",
    "exclude",
    "exclusive",
    "priority",
    "nice",
    "mail-user",
    "mail-type",
)


def _in_order(options: Mapping[str, str | None]) -> Iterator[str]:
    yield from (name for name in _ORDER if name in options)
    yield from sorted(options.keys() - set(_ORDER))


def partition_for(
    request: Request, table: Sequence[Mapping[str, Any]], features: Any = None
) -> Mapping[str, Any] | None:
    """Find the first partition in a site's table that fits a request; ``None`` when none does.

    A row without an amount has no limit, and one that names features holds only jobs that ask for none but these. A
    partition with a resource that is not requested, gpus say, is avoided while another one fits.
    """
    words = {word for text in _listed(features) for word in _FEATURE.findall(text)}
    fitting = [row for row in table if _holds(row, request) and words <= set(row.get("features") or words)]
    plain = [row for row in fitting if not (set(row.get("resources") or {}) - set(request.resources))]
    return next(iter(plain or fitting), None)


_FEATURE: Final = re.compile(r"[A-Za-z_][\w.-]*")
"""A word in an expression over features (sbatch(1): --constraint)."""


def _holds(row: Mapping[str, Any], request: Request) -> bool:
    most_memory = row.get("memory")
    most_time = row.get("walltime")
    has = row.get("resources") or {}
    return (
        request.cpus <= int(row.get("cpus") or request.cpus)
        and (most_memory is None or (request.memory_b or 0) <= parse_memory(most_memory, "partitions.memory"))
        and (most_time is None or (request.walltime_s or 0) <= parse_walltime(most_time, "partitions.walltime"))
        and all(amount <= int(has.get(name, 0)) for name, amount in request.resources.items())
    )


def raw_options(*sources: Any) -> tuple[str, ...]:
    """Collect raw options from several sources, as written: with or without ``#SBATCH`` in front."""
    lines = (line.strip() for source in sources for text in _listed(source) for line in text.splitlines())
    return tuple(plain for line in lines if (plain := line.removeprefix("#SBATCH").strip()))
