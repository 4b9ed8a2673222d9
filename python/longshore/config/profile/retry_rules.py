"""Reads retry rules, success rules, growth and limits of attempts from the configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from longshore.config.profile import buildtest_status
from longshore.config.profile.buildtest_status import slurm_states
from longshore.config.values.interpolate import Template, shown, unparse
from longshore.config.values.merge import Node, plain, tree
from longshore.config.values.quantities import count, memory, truth, walltime
from longshore.config.values.search import Hit
from longshore.errors import ConfigError
from longshore.model.run.state import Cause, JobState
from longshore.model.signals import signal_names, signal_number
from longshore.model.suggestions import did_you_mean
from longshore.model.values import YamlValue
from longshore.model.workflow.attempt_rules import Backoff, Bounds, Growth, JobRules, Keep, RetryOn, SuccessIf, Value
from longshore.origin import Origin

_Answer = TypeVar("_Answer")
_Otherwise = TypeVar("_Otherwise")
Read: TypeAlias = Callable[[YamlValue, str, Origin | None], _Answer]
"""Reads the value of a key; errors name the key and its origin."""

_STATES: Final = (
    JobState.SUCCEEDED.value,
    Cause.EXIT.value,
    Cause.SIGNAL.value,
    Cause.OOM.value,
    Cause.WALLTIME.value,
    Cause.OUTPUT.value,
)


class Lookup(Protocol):
    """Looks up the values of a profile."""

    def checked(self, key: str, check: Read[_Answer], otherwise: _Otherwise) -> _Answer | _Otherwise:
        """The value of a key, as `check` reads it, or `otherwise`."""

    def found(self, key: str) -> Hit | None:
        """The value of a key as written."""

    def filled(self, key: str, text: str, origin: Origin | None) -> Template:
        """Interpolate a text, but for variables of the job."""


def read_rules(lookup: Lookup, defaulted: Collection[str]) -> JobRules:
    """Read the rules of a profile.

    `defaulted` are the keys of the request that only defaults set.

    Raises
    ------
    ConfigError
        A value is wrong.
    """
    enforced = lookup.checked("enforceMemory", _enforced, "written")
    share, amount = lookup.checked("memoryGrace", memory_grace, (0.1, 0))
    return JobRules(
        retry_on=_section(lookup, "retryOn", retry_on),
        retries_on_preempted=lookup.checked("retryOnPreempted", count, 20),
        growth=Growth(
            of_usage=lookup.checked("memoryGrowth", _growth, "request") == "usage",
            memory_limit_b=lookup.checked("memoryLimit", memory, 0) or None,
            walltime=lookup.checked("walltimeMultiplier", multiplier, None),
            walltime_most_s=lookup.checked("requestWalltimeMax", walltime, 0.0) or None,
        ),
        backoff=Backoff(
            first_s=lookup.checked("retryDelay", walltime, 1.0),
            most_s=lookup.checked("retryDelayMax", walltime, 300.0),
        ),
        success_if=_success(lookup),
        bounds=Bounds(
            memory=enforced == "all" or (enforced == "written" and "requestMemory" not in defaulted),
            grace_share=share,
            grace_b=amount,
            log_b=lookup.checked("maxLogSize", memory, 0) or None,
            tmp=lookup.checked("keepTmp", keep_tmp, Keep.NONE),
            logs=lookup.checked("keepLogs", keep_logs, Keep.ALL),
        ),
        # `auto`: only where jobs can read the record of finished tasks, which depends on the site.
        resume_tasks=lookup.checked("resumeTasks", resume_tasks, "auto") is not False,
    )


def _success(lookup: Lookup) -> SuccessIf | None:
    """Success rules, from ``successIf`` or buildtest's ``status``."""
    own = _section(lookup, "successIf", partial(success_if, fill=lookup))
    theirs = _section(lookup, "status", status)
    hit = lookup.found("status")
    buildtest_status.refuse_both(theirs, own, hit.origin if hit else None)
    return own or theirs


def _section(lookup: Lookup, key: str, read: Callable[[Node, str], _Answer]) -> _Answer | None:
    hit = lookup.found(key)
    if hit is None or hit.value is None:
        return None
    node = hit.node or tree(hit.value, Origin(key))
    return read(node, key)


def retry_on(node: Node, key: str) -> RetryOn | None:
    """Read ``retryOn``: ends after which a job is retried, regardless of other rules.

    Raises
    ------
    ConfigError
        The value is no such map.
    """
    values = _read_map(
        node,
        key,
        {"exit": _codes, "signal": signals, "log": regex, "only": truth},
        example="{exit: [75], log: timeout}",
    )
    return msgspec.structs.replace(RetryOn(), **values) if values else None


def success_if(node: Node, key: str, *, fill: Lookup | None = None) -> SuccessIf | None:
    """Read ``successIf``: conditions for the success of an attempt.

    `fill` interpolates variables of the file's path; with ``None`` they stay as written.

    Raises
    ------
    ConfigError
        The value is no such map.
    """
    readers: dict[str, Read[object]] = {
        "exit": _codes,
        "log": regex,
        "file": _path,
        "walltime": _span,
        "state": _states,
        "slurm_job_state_codes": slurm_states,
        "value": _whole,
    }
    values = _read_map(node, key, readers, example="{exit: [0], log: done}")
    buildtest_status.spell_out(values, key, node.origin)
    parts = node.value if isinstance(node.value, dict) else {}
    if "value" in values:
        values["value"] = _bounded_value(parts["value"], f"{key}.value")
    if fill is not None and "file" in values:
        template = fill.filled(f"{key}.file", str(values["file"]), parts["file"].origin)
        values["file"] = unparse(template.parts)
    return msgspec.structs.replace(SuccessIf(), **values) if values else None


def _bounded_value(node: Node, key: str) -> Value:
    """A number in the log, and its allowed range."""
    readers: dict[str, Read[object]] = {"regex": regex, "min": number, "max": number}
    bounds = _read_map(node, key, readers, example="{regex: 'chi2 = (.*)', max: 1.5}")
    if "regex" not in bounds:
        raise ConfigError(f"'{key}' needs a 'regex'", origin=node.origin)
    least, most = (bound if isinstance(bound, float) else None for bound in (bounds.get("min"), bounds.get("max")))
    if least is not None and most is not None and least > most:
        raise ConfigError(f"'{key}' has a 'min' of {least:g} above its 'max' of {most:g}", origin=node.origin)
    return Value(regex=str(bounds["regex"]), least=least, most=most)


def status(node: Node, key: str) -> SuccessIf | None:
    """Read buildtest's ``status``: conditions for success, any of them, or with ``mode: and`` all."""
    readers: dict[str, Read[object]] = {
        "exit": _codes,
        "log": regex,
        "walltime": _span,
        "slurm_job_state_codes": slurm_states,
    }
    return buildtest_status.status(node, key, readers)


def _read_map(node: Node, key: str, readers: Mapping[str, Read[object]], *, example: str) -> dict[str, object]:
    """Values of a map, each parsed by its reader; null leaves a key out."""
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"'{key}' must be a map, not {shown(plain(node))}",
            origin=node.origin,
            hint=f"For example '{key.rpartition('.')[2]}: {example}'.",
        )
    values: dict[str, object] = {}
    for name, below in node.value.items():
        if name not in readers:
            raise ConfigError(
                f"'{key}' has no '{name}'",
                origin=below.origin,
                hint=did_you_mean(name, list(readers)) or f"It has {', '.join(readers)}.",
            )
        if below.value is not None:
            values[name] = readers[name](plain(below), f"{key}.{name}", below.origin)
    return values


# ------------------------------------------------------------------------------------------------------- single values


def regex(value: YamlValue, key: str, origin: Origin | None = None) -> str:
    """Check a regular expression.

    Raises
    ------
    ConfigError
        The value is no regular expression.
    """
    if isinstance(value, list | dict | bool) or not str(value):
        raise ConfigError(f"'{key}' must be a regular expression, not {shown(value)}", origin=origin)
    try:
        re.compile(str(value), re.MULTILINE)
    except re.error as error:
        at = f" at character {error.pos + 1}" if error.pos is not None else ""
        raise ConfigError(
            f"'{key}' is no regular expression: {error.msg}{at} of {shown(value)}",
            origin=origin,
            hint="Signs that are meant as they are need a backslash; single quotes in YAML leave it alone.",
        ) from error
    return str(value)


def number(value: YamlValue, key: str, origin: Origin | None = None) -> float:
    """Parse a finite number.

    Raises
    ------
    ConfigError
        The value is no such number.
    """
    try:
        found = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ConfigError(f"'{key}' must be a number, not {shown(value)}", origin=origin)
    return found


def multiplier(value: YamlValue, key: str, origin: Origin | None = None) -> float | None:
    """Parse a growth factor; one that is not above 1 turns growth off."""
    factor = number(value, key, origin)
    return factor if factor > 1 else None


def memory_grace(value: YamlValue, key: str, origin: Origin | None = None) -> tuple[float, int]:
    """Parse a share in percent, or an amount of memory.

    Raises
    ------
    ConfigError
        The value is neither.
    """
    text = str(value).strip()
    if not text.endswith("%"):
        return 0.0, memory(value, key, origin)
    share = number(text[:-1], key, origin)
    if share < 0:
        raise ConfigError(f"'{key}' must be 0% or more, not {shown(value)}", origin=origin)
    return share / 100, 0


def signals(value: YamlValue, key: str, origin: Origin | None = None) -> tuple[int, ...]:
    """Parse one signal or a list of signals, by names or numbers.

    Raises
    ------
    ConfigError
        One is no signal.
    """
    values = value if isinstance(value, list) else [value]
    _refuse_nothing(values, key, origin)
    return tuple(_signal(each, key, origin) for each in values)


def _signal(value: YamlValue, key: str, origin: Origin | None) -> int:
    found = signal_number(str(value))
    if isinstance(value, bool) or found is None:
        hint = did_you_mean(str(value).upper().removeprefix("SIG"), signal_names()) or "For example TERM, INT or 10."
        raise ConfigError(f"'{key}' must name signals, not {shown(value)}", origin=origin, hint=hint)
    return found


def keep_tmp(value: YamlValue, key: str, origin: Origin | None = None) -> Keep:
    """Attempts whose temporary directories are kept: ``false``, ``failed`` or ``true``."""
    return _choice(value, key, origin, {"false": Keep.NONE, "failed": Keep.FAILED, "true": Keep.ALL})


def keep_logs(value: YamlValue, key: str, origin: Origin | None = None) -> Keep:
    """Attempts whose logs are kept: ``all`` or ``failed``."""
    return _choice(value, key, origin, {"all": Keep.ALL, "failed": Keep.FAILED})


def _enforced(value: YamlValue, key: str, origin: Origin | None) -> str:
    return _choice(value, key, origin, {word: word for word in ("written", "all", "none")})


def _growth(value: YamlValue, key: str, origin: Origin | None) -> str:
    return _choice(value, key, origin, {word: word for word in ("request", "usage")})


def _choice(value: YamlValue, key: str, origin: Origin | None, choices: Mapping[str, _Answer]) -> _Answer:
    word = str(value).lower()
    if word not in choices:
        raise ConfigError(
            f"'{key}' must be one of {', '.join(choices)}, not {shown(value)}",
            origin=origin,
            hint=did_you_mean(word, list(choices)),
        )
    return choices[word]


def _codes(value: YamlValue, key: str, origin: Origin | None) -> tuple[int, ...]:
    codes = value if isinstance(value, list) else [value]
    _refuse_nothing(codes, key, origin)
    for code in codes:
        if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= 255:
            raise ConfigError(
                f"'{key}' must be an exit code from 0 to 255 or a list of such, not {shown(value)}", origin=origin
            )
    return tuple(code for code in dict.fromkeys(codes) if isinstance(code, int))


def _path(value: YamlValue, key: str, origin: Origin | None) -> str:
    if isinstance(value, list | dict | bool) or not str(value) or "\0" in str(value):
        raise ConfigError(f"'{key}' must be the path of a file, not {shown(value)}", origin=origin)
    return str(value)


def _span(value: YamlValue, key: str, origin: Origin | None) -> tuple[float | None, float | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError(
            f"'{key}' must be a list of the least and the most, not {shown(value)}",
            origin=origin,
            hint="For example 'walltime: [10, 1h]', or 'walltime: [null, 1h]' for no least.",
        )
    least, most = (None if each is None else walltime(each, key, origin) for each in value)
    if least is not None and most is not None and least > most:
        raise ConfigError(f"'{key}' has a least of {least:g} s above its most of {most:g} s", origin=origin)
    return least, most


def _states(value: YamlValue, key: str, origin: Origin | None) -> tuple[str, ...]:
    words = value if isinstance(value, list) else [value]
    _refuse_nothing(words, key, origin)
    for word in words:
        if str(word).upper() not in _STATES:
            raise ConfigError(
                f"'{key}' must be one of {', '.join(_STATES)}, not {shown(word)}",
                origin=origin,
                hint=did_you_mean(str(word).upper(), list(_STATES)),
            )
    return tuple(str(word).upper() for word in words)


def _refuse_nothing(values: Sequence[YamlValue], key: str, origin: Origin | None) -> None:
    """Refuse an empty list: it matches no end, or changes nothing, and is a mistake."""
    if not values:
        raise ConfigError(f"'{key}' names nothing", origin=origin, hint="Name at least one, or leave the key out.")


def resume_tasks(value: YamlValue, key: str, origin: Origin | None) -> bool | str:
    """Whether a retried job of several tasks resumes at the failed task: true, false, or ``auto``.

    Raises
    ------
    ConfigError
        The value is none of these.
    """
    if isinstance(value, bool):
        return value
    choices: Mapping[str, bool | str] = {"auto": "auto", "true": True, "false": False}
    return _choice(str(value), key, origin, choices)


def _whole(value: YamlValue, _key: str, _origin: Origin | None) -> YamlValue:
    return value


SECTIONS: Final[Mapping[str, Callable[[Node, str], object]]] = {
    "retryOn": retry_on,
    "successIf": success_if,
    "status": status,
}
"""Readers of the keys that hold maps."""
RANGES: Final[Mapping[str, Read[object]]] = {
    "retryOnPreempted": count,
    "walltimeMultiplier": multiplier,
    "requestWalltimeMax": walltime,
    "retryDelay": walltime,
    "retryDelayMax": walltime,
    "memoryGrowth": _growth,
    "enforceMemory": _enforced,
    "memoryGrace": memory_grace,
    "maxLogSize": memory,
    "keepTmp": keep_tmp,
    "keepLogs": keep_logs,
    "resumeTasks": resume_tasks,
    "killSignals": signals,
    "maxFastFailures": count,
    "fastFailureTime": walltime,
}
"""Readers of the keys that hold single values."""
