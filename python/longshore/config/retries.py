"""Reads which attempts succeed, which are tried again, and with what: retries, growth, limits, success rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from longshore.config.interpolate import RawValue
from longshore.config.merge import PACKAGED_LAYERS, Node, plain_value, to_node, written_value
from longshore.config.quantities import parse_bool, parse_count, parse_memory, parse_walltime
from longshore.config.templates import Template, unparse_fields
from longshore.errors import ConfigError, Origin
from longshore.model.states import Cause, JobState
from longshore.model.values import RegexError, YamlValue, compile_regex
from longshore.model.wording import did_you_mean, name_all, quote_value, signal_names, signal_number
from longshore.model.workflow import (
    Backoff,
    JobRules,
    KeepPolicy,
    LimitRules,
    LogValue,
    OutputCheck,
    RequestGrowth,
    RetryOn,
    SuccessIf,
)

# Reads success rules in buildtest's format (``status:``), and job states of Slurm and LSF.


SLURM_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "COMPLETED": (JobState.SUCCEEDED.value,),
    "FAILED": (Cause.EXIT.value, Cause.SIGNAL.value),
    "OUT_OF_MEMORY": (Cause.OOM.value,),
    "TIMEOUT": (Cause.WALLTIME.value,),
}
"""``successIf.state`` per Slurm state that buildtest knows."""

LSF_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "DONE": (JobState.SUCCEEDED.value,),
    **dict.fromkeys(("TERM_MEMLIMIT", "TERM_SWAP"), (Cause.OOM.value,)),
    **dict.fromkeys(("TERM_RUNLIMIT", "TERM_CPULIMIT", "TERM_DEADLINE"), (Cause.WALLTIME.value,)),
}
"""``successIf.state`` per state or reason of LSF, without those that it has itself (``EXIT``)."""

_STREAMS: Final = ("stdout", "stderr")
_MODES: Final = {"or": True, "and": False}


def parse_slurm_states(value: YamlValue, key: str, origin: Origin | None = None) -> tuple[str, ...]:
    """Translate one or several Slurm states to states of ``successIf``.

    Raises
    ------
    ConfigError
        One is no state in which a job may end on purpose.
    """
    found: list[str] = []
    for word in value if isinstance(value, list) else [value]:
        name = str(word).upper()
        if name not in SLURM_STATES:
            raise ConfigError(
                f"'{key}' must be of {', '.join(SLURM_STATES)}, not {quote_value(word)}",
                origin=origin,
                hint=did_you_mean(name, list(SLURM_STATES)),
            )
        found += SLURM_STATES[name]
    return tuple(dict.fromkeys(found))


def read_status_map(
    node: Node, key: str, readers: Mapping[str, Callable[[YamlValue, str, Origin | None], object]]
) -> SuccessIf | None:
    """Read the map ``status``; another value is a user's variable, because the name is a common one.

    `readers` are those of the values, per key of ``successIf``.

    Raises
    ------
    ConfigError
        The map has an unknown key, or a value is wrong.
    """
    if not isinstance(node.value, dict):
        return None
    found = _split_map(node, key)
    any_of, _ = found.pop("any_of")
    values = {name: readers[name](value, f"{key}.{name}", origin) for name, (value, origin) in found.items()}
    rename_conditions(values, key, node.origin)
    return msgspec.structs.replace(SuccessIf(), **values, any_of=any_of) if values else None


def rename_conditions(values: dict[str, object], key: str, origin: Origin | None) -> None:
    """Rename values, in place, to the fields of `SuccessIf`: ``walltime`` and Slurm's state codes.

    Raises
    ------
    ConfigError
        One condition is given twice.
    """
    if "walltime" in values:
        span = values.pop("walltime")
        assert isinstance(span, tuple)
        values["least_s"], values["most_s"] = span
    if "slurm_job_state_codes" in values:
        if "state" in values:
            raise ConfigError(f"'{key}' has both 'state' and 'slurm_job_state_codes'", origin=origin, hint="Keep one.")
        values["state"] = values.pop("slurm_job_state_codes")


def _split_map(node: Node, key: str) -> dict[str, tuple[YamlValue, Origin]]:
    """The map as keys and values of ``successIf`` with their origins, and ``any_of``."""
    assert isinstance(node.value, dict)
    found: dict[str, tuple[YamlValue, Origin]] = {"any_of": (True, node.origin)}
    for name, below in node.value.items():
        if name not in _CONDITION_KEYS:
            raise ConfigError(
                f"'{key}' has no '{name}' here",
                origin=below.origin,
                hint=did_you_mean(name, list(_CONDITION_KEYS)) or name_all(_CONDITION_KEYS),
            )
        if below.value is not None:
            found[_CONDITION_KEYS[name]] = (_read_condition(name, below, f"{key}.{name}"), below.origin)
    return found


_CONDITION_KEYS: Final = {
    "returncode": "exit",
    "regex": "log",
    "runtime": "walltime",
    "slurm_job_state_codes": "slurm_job_state_codes",
    "mode": "any_of",
}
"""Key of ``successIf`` per key of ``status``."""


def _read_condition(name: str, node: Node, key: str) -> YamlValue:
    value = plain_value(node)
    if name == "mode":
        if str(value).lower() not in _MODES:
            raise ConfigError(f"'{key}' must be one of or, and; not {quote_value(value)}", origin=node.origin)
        return _MODES[str(value).lower()]
    if name == "regex":
        items = _check_map(value, key, node, ("stream", "exp"))
        if items.get("stream", _STREAMS[0]) not in _STREAMS:
            raise ConfigError(
                f"'{key}.stream' must be stdout or stderr, not {quote_value(items['stream'])}", origin=node.origin
            )
        if "exp" not in items:
            raise ConfigError(f"'{key}' needs an 'exp'", origin=node.origin)
        return items["exp"]
    if name == "runtime":
        items = _check_map(value, key, node, ("min", "max"))
        return [items.get("min"), items.get("max")]
    return value


def _check_map(value: YamlValue, key: str, node: Node, names: tuple[str, ...]) -> Mapping[str, YamlValue]:
    if not isinstance(value, dict) or not set(value) <= set(names):
        raise ConfigError(
            f"'{key}' must be a map of {' and '.join(names)}, not {quote_value(value)}", origin=node.origin
        )
    return value


# Reads the rules of a profile: retries, growth, limits and success.


_Result = TypeVar("_Result")
_Default = TypeVar("_Default")
_RETRIES_ON_MATCH: Final = 2
"""Retries after the ends of ``retryOn``, where no number is given."""
ValueReader: TypeAlias = Callable[[YamlValue, str, Origin | None], _Result]
"""Reads the value of a key; errors name the key and its origin."""

_STATES: Final = (
    JobState.SUCCEEDED.value,
    Cause.EXIT.value,
    Cause.SIGNAL.value,
    Cause.OOM.value,
    Cause.WALLTIME.value,
    Cause.OUTPUT.value,
)


class ProfileLookup(Protocol):
    """Looks up the values of a profile."""

    def checked(self, key: str, check: ValueReader[_Result], default: _Default) -> _Result | _Default:
        """The value of a key, as `check` reads it, or `default`."""

    def found(self, key: str) -> RawValue | None:
        """The value of a key as written."""

    def filled(self, key: str, text: str, origin: Origin | None) -> Template:
        """Interpolate a text, but for variables of the job."""


def read_rules(lookup: ProfileLookup, defaulted: Collection[str]) -> JobRules:
    """Read the rules of a profile.

    `defaulted` are the keys of the request that only defaults set.

    Raises
    ------
    ConfigError
        A value is wrong.
    """
    enforcement = lookup.checked("enforceMemory", _parse_enforce_memory, "written")
    grace_share, grace_b = lookup.checked("memoryGrace", parse_memory_grace, (0.1, 0))
    success_rules = _read_section(lookup, "successIf", partial(read_success_if, fill=lookup))
    status_rules = _read_section(lookup, "status", read_status)
    if success_rules is not None and status_rules is not None:
        hit = lookup.found("status")
        raise ConfigError(
            "both 'status' and 'successIf' say what a success is",
            origin=hit.origin if hit else None,
            hint="Keep one: 'status: null' unsets it.",
        )
    retries = lookup.checked("numberOfRetries", parse_count, 0)
    has_number = retries or _is_written(lookup, "numberOfRetries")
    retry_on = _read_section(lookup, "retryOn", read_retry_on)

    def budget(key: str, default: _Default) -> int | _Default:
        value = lookup.checked(key, parse_count, default)
        # A user who writes 0 wants one attempt, whatever the defaults of other causes.
        is_none = has_number and not retries and value is not None and not _is_written(lookup, key)
        return 0 if is_none else value

    return JobRules(
        retry_on=retry_on,
        retries_on_match=None if has_number or retry_on is None else _RETRIES_ON_MATCH,
        retries_on_memory=budget("retryOnMemory", None),
        retries_on_time=budget("retryOnTime", None),
        retries_on_lost=budget("retryOnLost", 1) if has_number and not retries else None,
        retries_on_preempted=budget("retryOnPreempted", 20),
        retries_on_transfer=budget("retryOnTransfer", 3),
        retry_unstartable=lookup.checked("retryUnstartable", parse_bool, default=False),
        growth=RequestGrowth(
            of_usage=lookup.checked("memoryGrowth", _parse_memory_growth, "request") == "usage",
            memory_limit_b=lookup.checked("memoryLimit", parse_memory, 0) or None,
            walltime=lookup.checked("walltimeMultiplier", parse_multiplier, None),
            walltime_most_s=lookup.checked("requestWalltimeMax", parse_walltime, 0.0) or None,
        ),
        backoff=Backoff(
            first_s=lookup.checked("retryDelay", parse_walltime, 1.0),
            most_s=lookup.checked("retryDelayMax", parse_walltime, 300.0),
        ),
        success_if=success_rules or status_rules,
        bounds=LimitRules(
            memory=enforcement == "all" or (enforcement == "written" and "requestMemory" not in defaulted),
            grace_share=grace_share,
            grace_b=grace_b,
            log_b=lookup.checked("maxLogSize", parse_memory, None),
            tmp=lookup.checked("keepTmp", parse_keep_tmp, KeepPolicy.NONE),
            logs=lookup.checked("keepLogs", parse_keep_logs, KeepPolicy.ALL),
        ),
        # `auto`: only where jobs can read the record of finished tasks, which depends on the site.
        resume_tasks=lookup.checked("resumeTasks", parse_resume_tasks, "auto") is not False,
        check_outputs=lookup.checked("checkOutputs", parse_check_outputs, OutputCheck.EXISTS),
    )


def _is_written(lookup: ProfileLookup, key: str) -> bool:
    """Return whether a user or a site sets a key, rather than a default of the package."""
    hit = lookup.found(key)
    return hit is not None and hit.value is not None and not (hit.origin and hit.origin.layer in PACKAGED_LAYERS)


def _read_section(lookup: ProfileLookup, key: str, read: Callable[[Node, str], _Result]) -> _Result | None:
    hit = lookup.found(key)
    if hit is None or hit.value is None:
        return None
    node = hit.node or to_node(hit.value, Origin(key))
    return read(node, key)


def read_retry_on(node: Node, key: str) -> RetryOn | None:
    """Read ``retryOn``: ends after which a job is retried, regardless of other rules.

    Raises
    ------
    ConfigError
        The value is no such map.
    """
    values = _read_map(
        node,
        key,
        {
            "exit": _parse_exit_codes,
            "signal": parse_signals,
            "log": parse_regex,
            "only": parse_bool,
            "operator": parse_bool,
        },
        example="{exit: [75], log: timeout}",
    )
    return msgspec.structs.replace(RetryOn(), **values) if values else None


def read_success_if(node: Node, key: str, *, fill: ProfileLookup | None = None) -> SuccessIf | None:
    """Read ``successIf``: conditions for the success of an attempt.

    `fill` interpolates variables of the file's path; with ``None`` they stay as written.

    Raises
    ------
    ConfigError
        The value is no such map.
    """
    readers: dict[str, ValueReader[object]] = {
        "exit": _parse_exit_codes,
        "log": parse_regex,
        "file": _parse_path,
        "walltime": _parse_walltime_range,
        "state": _parse_states,
        "slurm_job_state_codes": parse_slurm_states,
        "value": lambda value, _key, _origin: value,
    }
    values = _read_map(node, key, readers, example="{exit: [0], log: done}")
    rename_conditions(values, key, node.origin)
    parts = node.value if isinstance(node.value, dict) else {}
    if "value" in values:
        values["value"] = _read_log_value(parts["value"], f"{key}.value")
    if fill is not None and "file" in values:
        template = fill.filled(f"{key}.file", str(values["file"]), parts["file"].origin)
        values["file"] = unparse_fields(template.parts)
    return msgspec.structs.replace(SuccessIf(), **values) if values else None


def _read_log_value(node: Node, key: str) -> LogValue:
    """A number in the log, and its allowed range."""
    readers: dict[str, ValueReader[object]] = {"regex": parse_regex, "min": parse_number, "max": parse_number}
    bounds = _read_map(node, key, readers, example="{regex: 'chi2 = (.*)', max: 1.5}")
    if "regex" not in bounds:
        raise ConfigError(f"'{key}' needs a 'regex'", origin=node.origin)
    least, most = (bound if isinstance(bound, float) else None for bound in map(bounds.get, ("min", "max")))
    if least is not None and most is not None and least > most:
        raise ConfigError(f"'{key}' has a 'min' of {least:g} above its 'max' of {most:g}", origin=node.origin)
    return LogValue(regex=str(bounds["regex"]), least=least, most=most)


def read_status(node: Node, key: str) -> SuccessIf | None:
    """Read buildtest's ``status``: conditions for success, any of them, or with ``mode: and`` all."""
    readers: dict[str, ValueReader[object]] = {
        "exit": _parse_exit_codes,
        "log": parse_regex,
        "walltime": _parse_walltime_range,
        "slurm_job_state_codes": parse_slurm_states,
    }
    return read_status_map(node, key, readers)


def _read_map(node: Node, key: str, readers: Mapping[str, ValueReader[object]], *, example: str) -> dict[str, object]:
    """Values of a map, each parsed by its reader; null leaves a key out."""
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"'{key}' must be a map, not {quote_value(plain_value(node))}",
            origin=node.origin,
            hint=f"For example '{key.rpartition('.')[2]}: {example}'.",
        )
    values: dict[str, object] = {}
    for name, below in node.value.items():
        if name not in readers:
            raise ConfigError(
                f"'{key}' has no '{name}'",
                origin=below.origin,
                hint=did_you_mean(name, list(readers)) or name_all(readers),
            )
        if below.value is not None:
            given = written_value(below) if readers[name] in _TEXT_READERS else plain_value(below)
            values[name] = readers[name](given, f"{key}.{name}", below.origin)
    return values


# ------------------------------------------------------------------------------------------------------- single values


def parse_regex(value: YamlValue, key: str, origin: Origin | None = None) -> str:
    """Check a regular expression.

    Raises
    ------
    ConfigError
        The value is no regular expression.
    """
    if isinstance(value, list | dict | bool) or not str(value):
        raise ConfigError(f"'{key}' must be a regular expression, not {quote_value(value)}", origin=origin)
    try:
        compile_regex(str(value), multiline=True)
    except RegexError as error:
        if error.position:
            what = f"is not a regular expression: {error} of {quote_value(value)}"
            hint = "Escape literal special characters by a backslash; single quotes in YAML keep it."
        else:
            what, hint = f"{quote_value(value)} cannot be used: {error}", "Use a shorter or simpler regular expression."
        raise ConfigError(f"'{key}' {what}", origin=origin, hint=hint) from error
    return str(value)


def parse_number(value: YamlValue, key: str, origin: Origin | None = None) -> float:
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
        raise ConfigError(f"'{key}' must be a number, not {quote_value(value)}", origin=origin)
    return found


def parse_multiplier(value: YamlValue, key: str, origin: Origin | None = None) -> float | None:
    """Parse a growth factor; one that is not above 1 turns growth off."""
    factor = parse_number(value, key, origin)
    return factor if factor > 1 else None


def parse_memory_grace(value: YamlValue, key: str, origin: Origin | None = None) -> tuple[float, int]:
    """Parse a share in percent, or an amount of memory.

    Raises
    ------
    ConfigError
        The value is neither.
    """
    text = str(value).strip()
    if not text.endswith("%"):
        return 0.0, parse_memory(value, key, origin)
    share = parse_number(text[:-1], key, origin)
    if share < 0:
        raise ConfigError(f"'{key}' must be 0% or more, not {quote_value(value)}", origin=origin)
    return share / 100, 0


def parse_signals(value: YamlValue, key: str, origin: Origin | None = None) -> tuple[int, ...]:
    """Parse one signal or a list of signals, by names or numbers.

    Raises
    ------
    ConfigError
        One is no signal.
    """
    values = value if isinstance(value, list) else [value]
    _refuse_empty(values, key, origin)
    return tuple(_parse_signal(each, key, origin) for each in values)


def _parse_signal(value: YamlValue, key: str, origin: Origin | None) -> int:
    found = signal_number(str(value))
    if isinstance(value, bool) or found is None:
        hint = did_you_mean(str(value).upper().removeprefix("SIG"), signal_names()) or "For example TERM, INT or 10."
        raise ConfigError(f"'{key}' must name signals, not {quote_value(value)}", origin=origin, hint=hint)
    return found


def parse_keep_tmp(value: YamlValue, key: str, origin: Origin | None = None) -> KeepPolicy:
    """Parse ``keepTmp``: attempts that keep their temporary directories, ``false``, ``failed`` or ``true``."""
    return _parse_choice(
        value, key, origin, {"false": KeepPolicy.NONE, "failed": KeepPolicy.FAILED, "true": KeepPolicy.ALL}
    )


def parse_check_outputs(value: YamlValue, key: str, origin: Origin | None = None) -> OutputCheck:
    """Parse ``checkOutputs``: the check of declared outputs, ``true``, ``fresh`` or ``false``."""
    choices = {"true": OutputCheck.EXISTS, "fresh": OutputCheck.FRESH, "false": OutputCheck.NONE}
    return _parse_choice(value, key, origin, choices)


def parse_keep_logs(value: YamlValue, key: str, origin: Origin | None = None) -> KeepPolicy:
    """Parse ``keepLogs``: attempts that keep their logs, ``all`` or ``failed``."""
    return _parse_choice(value, key, origin, {"all": KeepPolicy.ALL, "failed": KeepPolicy.FAILED})


def _parse_enforce_memory(value: YamlValue, key: str, origin: Origin | None) -> str:
    return _parse_choice(value, key, origin, {word: word for word in ("written", "all", "none")})


def _parse_memory_growth(value: YamlValue, key: str, origin: Origin | None) -> str:
    return _parse_choice(value, key, origin, {word: word for word in ("request", "usage")})


def _parse_choice(value: YamlValue, key: str, origin: Origin | None, choices: Mapping[str, _Result]) -> _Result:
    word = str(value).lower()
    if word not in choices:
        raise ConfigError(
            f"'{key}' must be one of {', '.join(choices)}, not {quote_value(value)}",
            origin=origin,
            hint=did_you_mean(word, list(choices)),
        )
    return choices[word]


def _parse_exit_codes(value: YamlValue, key: str, origin: Origin | None) -> tuple[int, ...]:
    codes = value if isinstance(value, list) else [value]
    _refuse_empty(codes, key, origin)
    for code in codes:
        if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= 255:
            raise ConfigError(
                f"'{key}' must be an exit code from 0 to 255 or a list of such, not {quote_value(value)}", origin=origin
            )
    return tuple(code for code in dict.fromkeys(codes) if isinstance(code, int))


def _parse_path(value: YamlValue, key: str, origin: Origin | None) -> str:
    if isinstance(value, list | dict | bool) or not str(value) or "\0" in str(value):
        raise ConfigError(f"'{key}' must be the path of a file, not {quote_value(value)}", origin=origin)
    return str(value)


_TEXT_READERS: Final = frozenset({parse_regex, _parse_path})
"""Readers of texts, which take numbers and truth values as they were written."""


def _parse_walltime_range(value: YamlValue, key: str, origin: Origin | None) -> tuple[float | None, float | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError(
            f"'{key}' must be a list of the least and the most, not {quote_value(value)}",
            origin=origin,
            hint="For example 'walltime: [10, 1h]', or 'walltime: [null, 1h]' for no least.",
        )
    least, most = (None if each is None else parse_walltime(each, key, origin) for each in value)
    if least is not None and most is not None and least > most:
        raise ConfigError(f"'{key}' has a least of {least:g} s above its most of {most:g} s", origin=origin)
    return least, most


def _parse_states(value: YamlValue, key: str, origin: Origin | None) -> tuple[str, ...]:
    words = value if isinstance(value, list) else [value]
    _refuse_empty(words, key, origin)
    found: list[str] = []
    for word in words:
        name = str(word).upper()
        if name not in _STATES and name not in LSF_STATES:
            raise ConfigError(
                f"'{key}' must be one of {', '.join(_STATES)}, or LSF's {', '.join(LSF_STATES)}, "
                f"not {quote_value(word)}",
                origin=origin,
                hint=did_you_mean(name, [*_STATES, *LSF_STATES]),
            )
        found += LSF_STATES.get(name, (name,))
    return tuple(dict.fromkeys(found))


def _refuse_empty(values: Sequence[YamlValue], key: str, origin: Origin | None) -> None:
    """Refuse an empty list: it matches no end, or changes nothing, and is a mistake."""
    if not values:
        raise ConfigError(f"'{key}' is empty", origin=origin, hint="Name at least one, or leave the key out.")


def parse_resume_tasks(value: YamlValue, key: str, origin: Origin | None) -> bool | str:
    """Whether a retried job of several tasks resumes at the failed task: true, false, or ``auto``.

    Raises
    ------
    ConfigError
        The value is none of these.
    """
    if isinstance(value, bool):
        return value
    choices: Mapping[str, bool | str] = {"auto": "auto", "true": True, "false": False}
    return _parse_choice(str(value), key, origin, choices)


def parse_packing(value: YamlValue, key: str, origin: Origin | None = None) -> str:
    """Where jobs run: ``pilot``, ``auto``, or empty for jobs of their own; raises `ConfigError`."""
    found: str = _parse_choice(str(value), key, origin, {"job": "", "pilot": "pilot", "auto": "auto"})
    return found


MAP_READERS: Final[Mapping[str, Callable[[Node, str], object]]] = {
    "retryOn": read_retry_on,
    "successIf": read_success_if,
    "status": read_status,
}
"""Reader per key that holds a map."""
VALUE_READERS: Final[Mapping[str, ValueReader[object]]] = {
    "retryOnMemory": parse_count,
    "retryOnTime": parse_count,
    "retryOnPreempted": parse_count,
    "retryOnTransfer": parse_count,
    "walltimeMultiplier": parse_multiplier,
    "requestWalltimeMax": parse_walltime,
    "retryDelay": parse_walltime,
    "retryDelayMax": parse_walltime,
    "memoryGrowth": _parse_memory_growth,
    "enforceMemory": _parse_enforce_memory,
    "memoryGrace": parse_memory_grace,
    "maxLogSize": parse_memory,
    "keepTmp": parse_keep_tmp,
    "keepLogs": parse_keep_logs,
    "resumeTasks": parse_resume_tasks,
    "checkOutputs": parse_check_outputs,
    "killSignals": parse_signals,
    "maxFastFailures": parse_count,
    "packing": parse_packing,
    "fastFailureTime": parse_walltime,
}
"""Reader per key that holds a single value."""
