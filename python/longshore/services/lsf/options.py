"""Options of bsub for a job, from its request and its settings (pure functions)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from longshore.contract.batch import Batch
from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.model.values import YamlValue
from longshore.model.workflow.request import MIB, Request

SERVICE: Final = "lsf"
"""Name of the service, and key of its own map."""
LsfMap: TypeAlias = Mapping[str, YamlValue]
"""The service's own map, ``lsf:``, of a site or of jobs."""
Option: TypeAlias = tuple[str, str | None]
"""An option with its dash and its value; ``None`` for an option without one."""

JOB_NAMES: Final = {
    "project": "-P",
    "userGroup": "-G",
    "application": "-app",
    "serviceClass": "-sla",
    "hosts": "-m",
    "priority": "-sp",
    "exclusive": "-x",
    "resource": "-R",
    "requeue": "-r",
}
"""Names that each stand for an option of bsub."""
_TEXTS: Final = ("userGroup", "application", "serviceClass", "hosts", "priority")
AMOUNT_NAMES: Final = ("hardMemory", "memoryPer", "memoryUnit", "selectMemory")
"""Names that say how a request for memory is written."""
SITE_NAMES: Final = (
    *(
        "bjobsFormat",
        "engineAs",
        "engineJob",
        "envdir",
        "fence",
        "gather",
        "group",
        "hopelessAfter",
        "maxpendtime",
        "mode",
    ),
    *("n_max_queued_jobs", "onSubmitError", "pollCeiling", "pollInterval", "repo_key"),
)
"""Names that configure access to the cluster, not jobs."""
PASSED_KEYS: Final = ("bsub", "container", "directives")
"""Configuration keys beside the service's own map that are passed on with it."""

UNITS: Final = {"KB": 1024, "MB": MIB, "GB": 1024 * MIB, "TB": 1024 * 1024 * MIB}
"""Bytes in each unit of LSF_UNIT_FOR_LIMITS."""
_PER: Final = ("job", "host", "task", "none")
_MAIL: Final = {"always": ("-B", "-N"), "complete": ("-N",), "error": ("-Ne",), "never": ()}
"""When to send mail, in HTCondor's (and BPS's) words, as options of bsub."""
_WHOLE_NODES: Final = "-nnodes"
"""Raw option that asks for whole nodes: LSF then takes no number of slots and no span."""
_ESSENTIAL: Final = frozenset({"-J", "-o", "-oo", "-cwd", "-w", "-H", "-K", "-I", "-Is", "-Ip"})
"""Raw options that would make the job another one, or keep it from being found."""
_WORD: Final = re.compile(r"[A-Za-z_][\w.-]*")


def check_names(settings: LsfMap) -> None:
    """Check the names in a map; raises `ConfigError` for one that does not exist."""
    known = [*JOB_NAMES, *AMOUNT_NAMES, *SITE_NAMES]
    for name in settings:
        if name not in known and name not in PASSED_KEYS:
            raise ConfigError(
                f"'{SERVICE}' has no key '{name}'",
                hint=did_you_mean(name, known, likeness=NAME_LIKENESS)
                or f"There are {', '.join(sorted(known))}; other options of bsub go under 'bsub'.",
            )


def one_of(own: Mapping[str, object], name: str, choices: Iterable[str]) -> str:
    """Return the word of a key, the first of `choices` by default; raises `ConfigError` for another word."""
    words = tuple(choices)
    value = str(own.get(name) or words[0])
    if value not in words:
        raise ConfigError(f"'{SERVICE}.{name}' must be one of {', '.join(words)}, not '{value}'")
    return value


def raw_options(*sources: object) -> tuple[str, ...]:
    """Collect raw options, as written: with or without ``#BSUB`` in front.

    Raises `ConfigError` for an option without which a job could not be found again.
    """
    lines = (line.strip() for source in sources for text in to_list(source) for line in text.splitlines())
    plain = tuple(words for line in lines if (words := line.removeprefix("#BSUB").strip()))
    for words in plain:
        if words.split()[0] in _ESSENTIAL:
            raise ConfigError(
                f"'bsub' cannot have '{words.split()[0]}': Longshore sets the name, output, directory and dependencies",
                hint="Leave it out. 'lsf.repo_key' is a prefix of names.",
            )
    return plain


def to_list(value: object) -> list[str]:
    """Return a value, or the items of a list, as texts; none of null and empty text."""
    if value is None or value == "":
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


def job_options(batch: Batch, own: Mapping[str, object], raw: Iterable[str]) -> Iterator[Option]:
    """Return the options of a job, but for those that raw options replace.

    `own` are the merged maps of site and job, with ``queue`` of the site. Raises `ConfigError` when a setting is
    invalid.
    """
    given = {words.split()[0] for words in raw}
    whole = _WHOLE_NODES in given
    request, attributes = batch.request, batch.attributes
    account = attributes.get("accountingGroup") or own.get("project")
    pairs: list[Option] = [
        ("-q", str(attributes.get("queue") or own.get("queue") or "") or None),
        ("-P", str(account) if account else None),
        *((JOB_NAMES[name], " ".join(to_list(own.get(name))) or None) for name in ("userGroup", "application")),
        *(
            (JOB_NAMES[name], " ".join(to_list(own.get(name))) or None)
            for name in ("serviceClass", "hosts", "priority")
        ),
        ("-n", None if whole else str(request.cpus)),
        # In minutes: LSF has no seconds here (bsub(1): -W [hour:]minute).
        ("-W", None if request.walltime_s is None else str(max(1, math.ceil(request.walltime_s / 60)))),
        ("-M", _limit(request, own)),
        ("-gpu", f"num={request.resources['gpus']}" if request.resources.get("gpus") else None),
        ("-R", None if whole else _requirement(request, own)),
    ]
    yield from ((name, value) for name, value in pairs if value and (name == "-R" or name not in given))
    yield from (("-R", text) for text in to_list(own.get("resource")))
    yield from (("-x", None),) if own.get("exclusive") else ()
    yield ("-r" if own.get("requeue") else "-rn"), None
    if attributes.get("mailTo"):
        yield "-u", str(attributes["mailTo"])
        yield from ((name, None) for name in _MAIL.get(str(attributes.get("whenToMail") or "error").lower(), ("-N",)))


def _limit(request: Request, own: Mapping[str, object]) -> str | None:
    """Return the limit of memory with its unit: without one, it would be in KB, or in what the cluster says."""
    if request.memory_b is None:
        return None
    return f"{math.ceil(request.memory_b / MIB)}MB{'!' if own.get('hardMemory') else ''}"


def _requirement(request: Request, own: Mapping[str, object]) -> str:
    """Return the requirement of resources: what is reserved, and that all slots are on one host."""
    unit, per = UNITS[one_of(own, "memoryUnit", ("MB", "KB", "GB", "TB"))], one_of(own, "memoryPer", _PER)
    reserved: dict[str, int] = {}
    if request.memory_b is not None:
        reserved["mem"] = math.ceil(request.memory_b / unit / (request.cpus if per == "task" else 1))
    if request.disk_b is not None:
        reserved["tmp"] = math.ceil(request.disk_b / unit / (request.cpus if per == "task" else 1))
    for name, amount in sorted(request.resources.items()):
        if not _WORD.fullmatch(name):
            raise ConfigError(f"'requestResources' cannot have '{name}': it is no name of a resource of LSF")
        if name != "gpus":
            reserved[name] = math.ceil(amount / request.cpus) if per == "task" else amount
    end = "" if per == "none" else f"/{per}"
    whole = math.ceil((request.memory_b or 0) / unit)
    parts = [f"select[mem>{whole}]"] if own.get("selectMemory") and whole else []
    parts += [f"rusage[{':'.join(f'{name}={amount}{end}' for name, amount in reserved.items())}]"] if reserved else []
    parts += ["span[hosts=1]"] if request.cpus > 1 else []
    return " ".join(parts)
