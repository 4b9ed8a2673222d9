"""Turns what is wrong with a configuration into text with carets, JSON, or annotations that GitHub understands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from longshore.cli.show_json import SCHEMA_VERSION
from longshore.cli.words import visible
from longshore.config.check import Finding, Severity
from longshore.config.locate import Lines

if TYPE_CHECKING:
    from longshore.app.lint import Linted

_WIDEST: Final = 160
_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def lint_text(linted: Linted, name: str) -> str:
    """Return each finding with the line it is about and a caret, then how many there are."""
    lines = Lines(linted.sources)
    shown = [line for finding in linted.findings for line in _finding_lines(finding, lines)]
    counts = [f"{linted.count(each)} {each.value}{'' if linted.count(each) == 1 else 's'}" for each in Severity]
    return "\n".join([*shown, f"{visible(name)}: {', '.join(counts)}"])


def _source(finding: Finding, lines: Lines) -> str | None:
    """The line a finding is about, if it may be shown and is there."""
    return None if finding.hidden else lines.at(finding.origin)


def _finding_lines(finding: Finding, lines: Lines) -> Iterator[str]:
    yield visible(f"{finding.origin}: {finding.severity.value}: {finding.message}")
    line = _source(finding, lines)
    if line is not None:
        column = finding.origin.column - 1
        begin = max(0, min(column - _WIDEST // 2, len(line) - _WIDEST)) if len(line) > _WIDEST else 0
        part = line[begin : begin + _WIDEST].replace("\t", " ")
        yield f"    {visible(part)}"
        yield f"    {' ' * len(visible(part[: column - begin]))}^"
    if finding.hint:
        yield visible(f"    {finding.hint}")


def lint_document(linted: Linted, *, ok: bool) -> dict[str, Any]:
    """Return the findings as ``config lint --format json`` gives them."""
    lines = Lines(linted.sources)
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "lint",
        "ok": ok,
        "errors": linted.count(Severity.ERROR),
        "warnings": linted.count(Severity.WARNING),
        "notes": linted.count(Severity.NOTE),
        "findings": [
            {
                "severity": finding.severity.value,
                "message": finding.message,
                "hint": finding.hint,
                "origin": msgspec.to_builtins(finding.origin),
                "source": _source(finding, lines),
            }
            for finding in linted.findings
        ],
    }


def lint_github(linted: Linted) -> str:
    """Return the findings as commands of GitHub's workflows, which shows them beside the lines."""
    return "\n".join(_annotation(finding) for finding in linted.findings)


def _annotation(finding: Finding) -> str:
    origin = finding.origin
    message = f"{finding.message}. {finding.hint}" if finding.hint else finding.message
    if not origin.line and origin.layer:
        # An option or a variable of the environment is no file that GitHub could show.
        return visible(f"::{_COMMANDS[finding.severity]}::{_data(f'{origin}: {message}')}")
    place = f"file={_property(origin.file)}"
    if origin.line:
        place += f",line={origin.line},col={origin.column}"
    return visible(f"::{_COMMANDS[finding.severity]} {place}::{_data(message)}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
