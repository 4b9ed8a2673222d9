"""Turns what is wrong with a configuration into text with carets, JSON, or annotations that GitHub understands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from longshore.cli.show_json import SCHEMA_VERSION
from longshore.cli.words import visible
from longshore.config.check import Finding, Severity
from longshore.origin import Origin

if TYPE_CHECKING:
    from longshore.app.lint import Linted

_WIDEST: Final = 160
_LINE_END: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What YAML takes for the end of a line; Python's `splitlines` knows more."""
_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


class _Lines:
    """Lines of files, split once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._split: dict[str, list[str]] = {}

    def at(self, origin: Origin) -> str | None:
        """The line of a place, if it is there."""
        file = origin.file
        if file not in self._split:
            self._split[file] = _LINE_END.split(self._texts[file]) if file in self._texts else []
        lines = self._split[file]
        return lines[origin.line - 1] if 0 < origin.line <= len(lines) else None


def lint_text(linted: Linted, name: str) -> str:
    """Return each finding with the line it is about and a caret, then how many there are."""
    lines = _Lines(linted.sources)
    shown = [line for finding in linted.findings for line in _finding_lines(finding, lines)]
    counts = [f"{linted.count(each)} {each.value}{'' if linted.count(each) == 1 else 's'}" for each in Severity]
    return "\n".join([*shown, f"{visible(name)}: {', '.join(counts)}"])


def _source(finding: Finding, lines: _Lines) -> str | None:
    """The line a finding is about, if it may be shown and is there."""
    return None if finding.hidden else lines.at(finding.origin)


def _finding_lines(finding: Finding, lines: _Lines) -> Iterator[str]:
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
    lines = _Lines(linted.sources)
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
