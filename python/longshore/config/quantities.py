"""Quantities of the configuration: memory, walltime, counts, exit codes, truth values, and how errors show them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Final

from longshore.config.merge import Node, plain_value
from longshore.errors import ConfigError, Origin
from longshore.model.values import YamlValue, number_of
from longshore.model.wording import quote_value
from longshore.model.workflow import MIB

# Values of the configuration as errors show them: as written, with the way to quote what YAML reads otherwise.


_WORD: Final = re.compile(r"[A-Za-z_][\w.:]*")


def quote_node(node: Node) -> str:
    """Return a value in quotes, as it was written: ``yes``, not the truth value that it is."""
    name = _placeholder(node)
    if node.value is None:
        return "'null'"
    return quote_value(f"{{{name}}}" if name else node.written or plain_value(node))


def quoting_hint(node: Node) -> str:
    """Return how to write a value that is meant as text."""
    if name := _placeholder(node):
        return f"Quote it: '{{{name}}}'. Without quotation marks a brace opens a map."
    if node.value is None:
        return 'Give it a value; an empty text is written "".'
    word = node.written or (str(node.value).lower() if isinstance(node.value, bool) else "")
    if word:
        return f"Quote it if the word is meant: '{word}'."
    return "Write one text; a list and a map are none."


def is_placeholder(node: Node) -> bool:
    """Tell whether a value is a placeholder that lacks its quotation marks."""
    return bool(_placeholder(node))


def _placeholder(node: Node) -> str:
    """Return the name of an unquoted placeholder, which YAML reads as a map with one key; empty for other values."""
    value = node.value
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    name, below = next(iter(value.items()))
    return name if below.value is None and _WORD.fullmatch(name) else ""


_AMOUNT = re.compile(
    r"(?P<number>\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})\s*(?P<unit>(?:(?P<prefix>[kmgtpe])i?)?b?)",
    re.IGNORECASE | re.ASCII,
)
_PREFIXES: Final = " kmgtpe"
_MAX_AMOUNT = 2**63 - 1
_AMOUNT_HINT = "Accepted are a number of MB (4096) and one with a unit (512M, 1.5G, '4 GiB'); units are powers of 1024."

_CLOCK = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?P<hours>\d{1,9})(?::(?P<minutes>\d{1,2}))?(?::(?P<seconds>\d{1,2}))?", re.ASCII
)
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{0,9})?", re.ASCII)
_SPELLED = re.compile(r"(?:(\d{1,9}(?:\.\d{1,9})?)\s*([dhms])\s*)+", re.IGNORECASE | re.ASCII)
_SPELLED_ONE = re.compile(r"([\d.]+)\s*([dhms])", re.IGNORECASE | re.ASCII)
_UNIT_S: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_WALLTIME_HINT = (
    "Accepted are seconds (5400), hours:minutes ('1:30'), hours:minutes:seconds ('1:30:00'), '1h30m', and days in "
    "front ('2-03:00:00')."
)

_NAME = re.compile(r"[^\s=,\x00-\x1f]+")
_MEMBER = re.compile(r"[\w.:/-]+", re.ASCII)
_REQUEST_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory", "disk": "requestDisk"}
_SPELLINGS: Final = {"cpu": "cpus", "mem": "memory", "tmp": "disk"}
"""open-lmake's names of the resources."""


def parse_memory(value: YamlValue, key: str, origin: Origin | None = None, *, round_down: bool = False) -> int:
    """Parse an amount of memory or disk to bytes; a bare number is MB, as in BPS (that is, MiB).

    A fraction of a byte is rounded up, as for a request; with `round_down` down, as for what exists.
    Raises `ConfigError`, with the key and the accepted forms, for anything else.
    """
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if isinstance(value, float) and math.isfinite(value):
        # The decimal form that people write: no exponent, no digits from the binary representation.
        text = format(Decimal(repr(value)), "f")
    elif isinstance(spelled := number_of(text), int | float) and not _AMOUNT.fullmatch(text):
        text = format(Decimal(repr(spelled)), "f")
    if found := _AMOUNT.fullmatch(text):
        factor = 1024 ** _PREFIXES.index((found["prefix"] or " ").lower()) if found["unit"] else MIB
        number = found["number"]
        # A Fraction: a float would be off by bytes, and exact amounts would be rounded up.
        amount = int(number) * factor if number.isdecimal() else Fraction(number) * factor
        if amount <= _MAX_AMOUNT:
            return math.floor(amount) if round_down else math.ceil(amount)
    raise ConfigError(
        f"'{key}' must be an amount of memory or disk, not {quote_value(value)}", origin=origin, hint=_AMOUNT_HINT
    )


def parse_walltime(value: YamlValue, key: str, origin: Origin | None = None) -> float:
    """Parse a time span to seconds.

    Raises
    ------
    ConfigError
        The value is no time span.
    """
    text = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if _SECONDS.fullmatch(text):
        return float(text)
    if _SPELLED.fullmatch(text):
        return float(sum(Decimal(number) * _UNIT_S[unit.lower()] for number, unit in _SPELLED_ONE.findall(text)))
    clock = _CLOCK.fullmatch(text)
    if clock and (seconds := _clock_seconds(clock)) is not None:
        return seconds
    if isinstance(value, str) and (number := number_of(text)) is not None and 0 <= number < 10**12:
        return float(number)
    raise ConfigError(f"'{key}' must be a time span, not {quote_value(value)}", origin=origin, hint=_WALLTIME_HINT)


def format_walltime(seconds: float) -> str:
    """Return a time span as `parse_walltime` reads it, in hours, minutes and seconds; one without an end in words."""
    if seconds == math.inf:
        return "no limit"
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def _clock_seconds(clock: re.Match[str]) -> float | None:
    """Seconds of ``days-hours:minutes:seconds``, or ``None`` when minutes or seconds exceed 59."""
    hours, minutes, seconds = (int(clock[part] or 0) for part in ("hours", "minutes", "seconds"))
    if minutes > 59 or seconds > 59 or (clock["days"] and hours > 23):
        return None
    return float(int(clock["days"] or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)


def parse_count(
    value: YamlValue, key: str, origin: Origin | None = None, *, least: int = 0, round_down: bool = False
) -> int:
    """Parse a whole number of at least `least`; text is accepted, because variables leave text behind.

    Raises
    ------
    ConfigError
        The value is no whole number, or too small.
    """
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and math.isfinite(value) and (round_down or value.is_integer()):
        number = math.floor(value)
    elif isinstance(value, str) and isinstance(spelled := number_of(value.strip()), int):
        number = spelled
    if number is None or not least <= number <= _MAX_AMOUNT:
        bound = f" of at least {least}" if least else ", 0 or more"
        raise ConfigError(
            f"'{key}' must be a whole number{bound}, not {quote_value(value)}",
            origin=origin,
            hint=f"For example '{key.rpartition('.')[2]}: {max(least, 1)}'.",
        )
    return number


def parse_exit_codes(value: YamlValue, key: str, origin: Origin | None = None) -> tuple[int, ...]:
    """Parse one exit code or a list; 0 is no failure and is left out, null means no codes.

    Raises
    ------
    ConfigError
        A code is no whole number from 0 to 255.
    """
    codes = value if isinstance(value, list) else [] if value is None else [value]
    for code in codes:
        # Text is refused, as in BPS.
        if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= 255:
            raise ConfigError(
                f"'{key}' must be an exit code from 1 to 255 or a list of such, not {quote_value(value)}",
                origin=origin,
                hint="For example 'retryUnlessExit: [1, 2]'; null or [] is none.",
            )
    return tuple(code for code in dict.fromkeys(codes) if isinstance(code, int) and code)


def check_resource_name(name: str, key: str, origin: Origin | None = None) -> str:
    """Check the name of a resource that has no key of its own.

    Raises
    ------
    ConfigError
        The name is invalid.
    """
    if (plain_name := _SPELLINGS.get(name, name)) in _REQUEST_KEYS:
        raise ConfigError(f"'{name}' is asked for by '{_REQUEST_KEYS[plain_name]}', not in '{key}'", origin=origin)
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{quote_value(name)} cannot be the name of a resource in '{key}'", origin=origin)
    return name


def parse_pool(node: Node) -> dict[str, int | tuple[str, ...]]:
    """Parse a resource pool, ``resources: {cpus, memory, disk, NAME}``: amounts in bytes, all rounded down.

    A resource that is given as a list has members with names, such as ``gpus: [0, 1, 3]``.

    Raises
    ------
    ConfigError
        The value is no such map, or names one resource in two spellings.
    """
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"'resources' must be a map, not {quote_value(node.value)}",
            origin=node.origin,
            hint="For example 'resources: {cpus: 4, memory: 8 GiB}'.",
        )
    pool: dict[str, int | tuple[str, ...]] = {}
    spelled: dict[str, str] = {}
    for name, amount in node.value.items():
        resource = _SPELLINGS.get(name, name)
        if resource in spelled:
            raise ConfigError(
                f"'resources' gives both '{spelled[resource]}' and '{name}', which are the same", origin=amount.origin
            )
        spelled[resource] = name
        if amount.value is not None:
            pool[resource] = _parse_capacity(resource, name, amount)
    return pool


def _parse_capacity(resource: str, name: str, amount: Node) -> int | tuple[str, ...]:
    key = f"resources.{name}"
    if isinstance(amount.value, list):
        return _parse_members(resource, key, amount)
    if resource in {"memory", "disk"}:
        return parse_memory(plain_value(amount), key, amount.origin, round_down=True)
    if resource == "cpus":
        return parse_count(plain_value(amount), key, amount.origin, least=1, round_down=True)
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{quote_value(name)} cannot be the name of a resource", origin=amount.origin)
    return parse_count(plain_value(amount), key, amount.origin, round_down=True)


def _parse_members(resource: str, key: str, listed: Node) -> tuple[str, ...]:
    """Names of the members of a resource."""
    if resource in _REQUEST_KEYS:
        raise ConfigError(
            f"'{key}' must be an amount, not a list", origin=listed.origin, hint="Only such as GPUs are told apart."
        )
    if not _NAME.fullmatch(resource):
        raise ConfigError(f"{quote_value(resource)} cannot be the name of a resource", origin=listed.origin)
    values = plain_value(listed)
    assert isinstance(values, list)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | str) or not _MEMBER.fullmatch(str(value)):
            raise ConfigError(
                f"'{key}' must be an amount or a list of names, and {quote_value(value)} is no name",
                origin=listed.origin,
                hint=f"For example '{key}: [0, 1, 3]', or '{key}: 4'.",
            )
    names = tuple(map(str, values))
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"'{key}' names '{twice}' twice", origin=listed.origin)
    return names


def parse_bool(value: YamlValue, key: str, origin: Origin | None = None) -> bool:
    """Parse a truth value.

    Raises
    ------
    ConfigError
        The value is neither true nor false.
    """
    word = str(value).strip().lower()
    if word not in _TRUTH:
        raise ConfigError(f"'{key}' must be true or false, not {quote_value(value)}", origin=origin)
    return _TRUTH[word]


_TRUTH: Final = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
"""Truth values of YAML, which variables leave as words."""


def parse_concurrency_maximums(node: Node, key: str) -> dict[str, int]:
    """Parse maximum numbers of concurrent jobs per limit, from ``concurrencyLimits`` and its like.

    Raises
    ------
    ConfigError
        The value is no map of names to numbers from 1.
    """
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"'{key}' must be a map, not {quote_value(node.value)}",
            origin=node.origin,
            hint=f"For example '{key}: {{db_limit: 4}}'.",
        )
    given = {name: each for name, each in node.value.items() if each.value is not None}
    return {name: parse_count(plain_value(each), f"{key}.{name}", each.origin, least=1) for name, each in given.items()}


def parse_resource_request(values: Mapping[str, YamlValue], key: str, origin: Origin | None = None) -> dict[str, int]:
    """Parse ``requestResources`` to an amount per name; null requests nothing.

    Raises
    ------
    ConfigError
        A name or an amount is invalid.
    """
    return {
        check_resource_name(name, key, origin): parse_count(amount, f"{key}.{name}", origin)
        for name, amount in values.items()
        if amount is not None
    }


def parse_request_field(key: str, value: YamlValue, origin: Origin | None) -> dict[str, object]:
    """Parse one field of a request; an amount of 0 requests nothing, as in BPS."""
    if key == "requestCpus":
        return {"cpus": parse_count(value, key, origin, least=1)}
    if key == "requestWalltime":
        return {"walltime_s": parse_walltime(value, key, origin) or None}
    return {"memory_b" if key == "requestMemory" else "disk_b": parse_memory(value, key, origin) or None}
