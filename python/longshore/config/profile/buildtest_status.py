"""Reads success rules in buildtest's format (``status:``), and job states of Slurm and LSF."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from longshore.config.values.merge import Node, plain_value
from longshore.errors import ConfigError
from longshore.model.run.states import Cause, JobState
from longshore.model.suggestions import did_you_mean, name_all
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.model.workflow.attempt_rules import SuccessIf
from longshore.origin import Origin

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
