"""Validates a DAG before submission: parses it, and checks its submit descriptions with HTCondor's own parser."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from longshore.errors import SubmissionRefusedError
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.services.htcondor.submission.parse_dag import Description, parse_dag

_QUOTED: Final = frozenset({"arguments", "environment"})
_EXPRESSIONS: Final = re.compile(
    r"(my\.|\+).*|request_(?!disk|memory).*|periodic_.*|on_exit_.*|retry_until|requirements|rank|allowed_.*_duration",
    re.IGNORECASE,
)
_WITH_UNIT: Final = re.compile(r"request_(disk|memory)", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"\d+(\.\d+)?\s*[kmgtp]?b?", re.IGNORECASE)
_TEXTS: Final = frozenset({"on_exit_hold_reason", "periodic_hold_reason"})


def validate_dag(
    dag: Path, lines: Iterable[str], client: CondorClient, *, is_folder: Callable[[str], bool] = os.path.isdir
) -> None:
    """Refuse a DAG with errors; no daemon is asked.

    `lines` contains those of included files. Raises `SubmissionRefusedError` if the DAG cannot work.
    """
    parsed = parse_dag(lines)
    if parsed.faults:
        fault = parsed.faults[0]
        more = f" (and {len(parsed.faults) - 1} more like it)" if parsed.faults[1:] else ""
        raise SubmissionRefusedError(
            f"'{dag}'{_line_text(fault.line)}: {fault.message}{more}", hint="Correct it, or prepare the run again."
        )
    for name, description in parsed.descriptions.items():
        commands = client.expand_macros(_filled_text(description))
        if why := description_error(commands, client):
            raise SubmissionRefusedError(
                f"'{dag}'{_line_text(description.line)}: of the submit description '{name}' {why}",
                hint="Values of 'profile.condor', 'attrs', 'directives' and 'releaseExpr' are used unchanged.",
            )
        folder = commands.get("initialdir", "")
        if folder and not is_folder(folder):
            raise SubmissionRefusedError(
                f"jobs of the submit description '{name}' would run in '{folder}', which is no directory on this host: "
                "HTCondor would accept none of them",
                hint="Create it, or correct 'workingDirectory'.",
            )


def _line_text(line: int) -> str:
    return f", line {line}" if line else ""


def _filled_text(description: Description) -> str:
    """A submit description with the values that are most likely to break it."""
    before, after = (
        "".join(f"{name} = {value}\n" for name, value in values.items())
        for values in ({"JOB": "j0", "RETRY": "0", **description.longest_values}, description.appended_values)
    )
    return before + description.text + after


def description_error(commands: Mapping[str, str], client: CondorClient) -> str:
    """The error of a submit description, given its commands with macros expanded; empty if there is no error."""
    for name, value in commands.items():
        plain = name.lower()
        if plain in _QUOTED and not _is_quoted(value):
            return f"'{name}' has a quote that is not closed: {value}"
        if _WITH_UNIT.fullmatch(plain) and _AMOUNT.fullmatch(value):
            continue
        is_read = plain not in _TEXTS and (_EXPRESSIONS.fullmatch(plain) or _WITH_UNIT.fullmatch(plain))
        if is_read and not client.is_expression(value):
            return f"'{name}' is no expression: {value}"
    return ""


def _is_quoted(value: str) -> bool:
    """Whether arguments or variables in HTCondor's new syntax have balanced quotes."""
    if not value.startswith('"'):
        return True
    inner = value[1:-1].replace('""', "")
    return len(value) > 1 and value.endswith('"') and '"' not in inner and not value.count("'") % 2
