"""Reads a job's submit description as BPS's HTCondor plug-in writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from longshore.model.workflow import MIB, Request
from longshore.system.reading import read_file

_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_FIRST_MEMORY: Final = re.compile(r"max\(\{\s*(\d{1,12})")
"""In the expression for jobs that ran out of memory: the amount of the first attempt."""
_UNITS_MB: Final[Mapping[str, float]] = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
_VARIABLE: Final = re.compile(r"([A-Za-z_]\w*)='((?:[^']|'')*)'")
_OF_SUBMITTER: Final = re.compile(r"\$ENV\((\w+)\)")
_ATTRIBUTES: Final[Mapping[str, str]] = {
    "priority": "priority",
    "category": "category",
    "accounting_group": "accountingGroup",
    "accounting_group_user": "accountingUser",
    "notify_user": "mailTo",
    "notification": "whenToMail",
    "concurrency_limits": "concurrencyLimit",
}
"""Keys of BPS per submit command."""
_MAX_EXIT: Final = 255


class BpsDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a submit description that reports need; empty where it has none."""

    label: str = ""
    command: str = ""
    output: str = ""
    """Name of the log, as a pattern of HTCondor's."""
    request: Request = Request()
    retries: int = 0
    retry_unless_exit: tuple[int, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
    quanta: int = 0


def read_description(path: Path) -> BpsDescription | None:
    """Read a submit description; ``None`` if it cannot be read."""
    try:
        text = read_file(path).decode("utf-8", "replace")
    except OSError:
        return None
    return parse_description(text)


def parse_description(text: str) -> BpsDescription:
    """Parse the text of a submit description."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, is_assignment, value = line.partition("=")
        if is_assignment:
            values[name.strip().lower()] = value.strip()
    executable = _OF_SUBMITTER.sub(r"${\1}", values.get("executable", ""))
    arguments = _OF_SUBMITTER.sub(r"${\1}", _arguments(values.get("arguments", "")))
    return BpsDescription(
        label=values.get("+bps_job_label", "").strip('"'),
        command=f"{executable} {arguments}".strip(),
        output=values.get("output", ""),
        request=_request(values),
        retries=int(_number(values.get("max_retries", "")) or 0),
        retry_unless_exit=_exit_codes(values.get("retry_until", "")),
        environment=_environment(values.get("environment", "")),
        attributes={key: values[name] for name, key in _ATTRIBUTES.items() if values.get(name)},
        quanta=_quanta(values.get("+bps_job_quanta", "").strip('"')),
    )


def _arguments(text: str) -> str:
    """Arguments without the quotes of HTCondor's newer syntax."""
    return text[1:-1].replace('""', '"') if text[:1] == text[-1:] == '"' and len(text) > 1 else text


def _request(values: Mapping[str, str]) -> Request:
    memory = _megabytes(values.get("request_memory", ""))
    disk = _megabytes(values.get("request_disk", ""))
    return Request(
        cpus=max(1, int(_number(values.get("request_cpus", "")) or 1)),
        memory_b=None if memory is None else round(memory * MIB),
        disk_b=None if disk is None else round(disk * MIB),
    )


def _megabytes(text: str) -> float | None:
    """An amount in MiB; of an expression, that of the first attempt."""
    if found := _FIRST_MEMORY.search(text):
        return float(found[1])
    amount, unit = _NUMBER.match(text), text.strip()[-2:].upper().removesuffix("B")[-1:]
    if amount is None:
        return None
    rest = text[amount.end() :].strip().upper().removesuffix("B")
    return float(amount[0]) * _UNITS_MB.get(unit if rest else "M", 1)


def _number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    return float(found[0]) if found else None


def _exit_codes(text: str) -> tuple[int, ...]:
    """Exit codes of ``2`` or ``member(ExitCode, {1,2})``."""
    found = re.fullmatch(r"member\(ExitCode,\s*\{([\d,\s]*)\}\)|(\d{1,3})", text)
    if found is None:
        return ()
    codes = [int(code) for code in (found[1] or found[2] or "").replace(" ", "").split(",") if code.isdecimal()]
    return tuple(code for code in codes if code <= _MAX_EXIT)


def _environment(text: str) -> dict[str, str]:
    inside = _arguments(text)
    return {name: _OF_SUBMITTER.sub(r"${\1}", value.replace("''", "'")) for name, value in _VARIABLE.findall(inside)}


def _quanta(text: str) -> int:
    """Number of tasks of ``isr:2;calib:1``."""
    counts = (part.rpartition(":")[2] for part in text.split(";"))
    return sum(int(count) for count in counts if count.isdecimal() and len(count) < 10)
