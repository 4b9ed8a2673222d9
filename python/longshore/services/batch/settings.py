"""Settings of a service that all batch systems have, apart because dialects read them and the kit too."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

import msgspec

from longshore.config import value_types as vt
from longshore.config.keys import SITE, Key
from longshore.config.quantities import parse_bool, parse_walltime
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all

HOPELESS_AFTER_S: Final = 600.0
"""Time that a job which can never start waits by default: enough for an operator who changes a limit."""


# fmt: off
def kit_keys(service: str, title: str, *, listing: str) -> tuple[Key, ...]:
    """Return the rows of the keys that the kit reads in the own map of a service.

    `title` is the display name of the workload manager, `listing` its program that lists jobs.
    """
    rows = (
        Key("n_max_queued_jobs", vt.POSITIVE, SITE,
            f"Number of jobs with similar requests that may wait in the queue of {title} at once; others wait in the "
            "run.", implied="1000", example=200),
        Key("pollInterval", vt.DURATION, SITE,
            "Shortest interval between two queries about jobs, as in requestWalltime. A site's pollFloor holds if it "
            "is longer.", implied="2", example=10),
        Key("pollCeiling", vt.DURATION, SITE,
            "Longest interval between two queries about jobs while nothing happens.", implied="60", example=120),
        Key("gather", vt.SWITCH, SITE,
            f"Whether {title} is also asked for memory, time and other fields of jobs that ended.", implied="true",
            example=False),
        Key("fence", vt.SWITCH, SITE,
            "Whether another attempt, after its node failed, waits until the first is certainly dead; with false, a "
            "copy may run for some minutes.", implied="false", example=True),
        Key("maxpendtime", vt.DURATION, SITE,
            "Longest time of a job in the queue, as in requestWalltime. A job that waits longer is cancelled, and "
            "retried within its retries.", example="24:00:00"),
        Key("hopelessAfter", vt.DURATION, SITE,
            "How long a job waits that can never start as it is, where the workload manager tells that, or whose "
            "submission is refused for no known reason, as in requestWalltime. Then it fails, and is not retried. With "
            "0 it fails at once, with never it waits.", implied=f"{HOPELESS_AFTER_S:.0f}", example="never"),
        Key("onSubmitError", vt.choice("job", "run"), SITE,
            f"What ends when {title} refuses a batch for good: job (its jobs) or run.", implied="job", example="run"),
        Key("repo_key", vt.STRING, SITE,
            f"Prefix of the names of jobs, for people who read {listing}. Signs that {title} does not accept are "
            "replaced.", example="survey:"),
        Key("engineAs", vt.choice("process", "job"), SITE,
            f"Where the engine of a run lives: process, on the host that submits; or job, a small job of {title} that "
            "is started again when its host fails.", implied="process", example="job"),
        Key("engineJob", vt.MAP, SITE,
            "Request of the engine when it is a job, or of the job that collects a run with mode: native: time, and "
            "the keys of this map that belong to jobs.", example={"time": "7-00:00:00"}),
        Key("mode", vt.choice("engine", "native"), SITE,
            f"What runs the graph: engine; or native, which submits all jobs to {title} at once with dependencies "
            "between them.", implied="engine", example="native"),
    )
    return tuple(msgspec.structs.replace(row, name=f"{service}.{row.name}") for row in rows)
# fmt: on


KIT_KEYS: Final = frozenset(row.steps[-1] for row in kit_keys("", "", listing=""))
"""Keys of a service's own map that the kit reads."""
PASSED_KEYS: Final = ("container", "directives")
"""Keys of the configuration beside the service's own map that are passed on with it."""


def check_keys(service: str, own: Mapping[str, YamlValue], known: Collection[str], *, raw_key: str = "") -> None:
    """Raise `ConfigError` for a key of a service's own map that neither the service (`known`) nor the kit has."""
    others = {*PASSED_KEYS, raw_key}
    for name in own:
        if name not in known and name not in KIT_KEYS and name not in others:
            names = sorted({*known, *KIT_KEYS})
            raise ConfigError(
                f"'{service}' has no key '{name}'",
                hint=did_you_mean(name, names, likeness=NAME_LIKENESS)
                or f"{name_all(names)} Other options go under '{raw_key or 'directives'}'.",
            )


def one_of(service: str, own: Mapping[str, YamlValue], name: str, choices: Sequence[str]) -> str:
    """Return the word of a key, the first of `choices` by default; raises `ConfigError` for another word."""
    value = str(own.get(name) or choices[0])
    if value not in choices:
        *others, last = (f"'{choice}'" for choice in choices)
        raise ConfigError(f"'{service}.{name}' must be {', '.join(others)} or {last}, not '{value}'")
    return value


def own_map(service: str, settings: Mapping[str, object]) -> Mapping[str, YamlValue]:
    """Return the service's own map in the settings of a site or of an executor."""
    return cast("Mapping[str, YamlValue]", settings.get(service) or {})


def max_wait_s(service: str, own: Mapping[str, YamlValue]) -> float | None:
    """Return the longest wait in the queue by the merged maps of site and job; ``None`` for no limit.

    Raises `ConfigError` when the value is no time.
    """
    value = own.get("maxpendtime")
    return None if value is None else parse_walltime(value, f"{service}.maxpendtime")


def hopeless_after_s(service: str, own: Mapping[str, YamlValue]) -> float | None:
    """Return how long a job that can never start waits before it fails; ``None`` for as long as a person lets it.

    Raises `ConfigError` when the value is no time and not ``never``.
    """
    value = own.get("hopelessAfter")
    if value is None:
        return HOPELESS_AFTER_S
    return None if value == "never" else parse_walltime(value, f"{service}.hopelessAfter")


def on_submit_error(service: str, own: Mapping[str, YamlValue]) -> str:
    """Return what a refusal ends: the ``job`` or the ``run``."""
    return one_of(service, own, "onSubmitError", ("job", "run"))


def node_count(service: str, own: Mapping[str, YamlValue]) -> int:
    """Return the number of nodes of a job, 1 by default; raises `ConfigError` when it is no number above 0."""
    text = str(own.get("nodeCount") or 1).strip()
    if not re.fullmatch(r"[1-9]\d{0,5}", text, re.ASCII):
        raise ConfigError(f"'{service}.nodeCount' must be a whole number above 0, not '{text}'")
    return int(text)


def wants_fence(service: str, own: Mapping[str, YamlValue]) -> bool:
    """Whether an attempt whose machine was lost ends only once no copy of it can live.

    Raises `ConfigError` when the setting is invalid.
    """
    value = own.get("fence")
    return False if value is None else parse_bool(value, f"{service}.fence")


def wants_native(service: str, settings: Mapping[str, object]) -> bool:
    """Whether runs with these executor settings have no engine.

    Raises `ConfigError` when the setting is invalid.
    """
    own = own_map(service, settings)
    if one_of(service, own, "mode", ("engine", "native")) == "engine":
        return False
    if own.get("engineAs") == "job":
        raise ConfigError(f"'{service}.engineAs: job' means nothing with '{service}.mode: native', which has no engine")
    return True
