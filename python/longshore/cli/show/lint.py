"""Formats lint findings as text with carets, or as GitHub annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from longshore.cli.show.format import escape_controls
from longshore.config.schema import Finding, Severity

if TYPE_CHECKING:
    from longshore.plan.lint import LintResult

_MAX_WIDTH: Final = 160
_GITHUB_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def lint_text(linted: LintResult, name: str) -> str:
    """Format each finding with its line and a caret, then the number of findings."""
    shown = [line for finding in linted.findings for line in _finding_lines(finding, linted.source(finding))]
    counts = [f"{linted.count(each)} {each.value}{'' if linted.count(each) == 1 else 's'}" for each in Severity]
    ending = [f"{escape_controls(name)}: {', '.join(counts)}"]
    if linted.left_out:
        ending.append(escape_controls(f"Not checked: {'; '.join(linted.left_out)}."))
    return "\n".join([*shown, *ending])


def _finding_lines(finding: Finding, line: str | None) -> Iterator[str]:
    yield escape_controls(f"{finding.origin}: {finding.severity.value}: {finding.message}")
    if line is not None:
        column = finding.origin.column - 1
        start = max(0, min(column - _MAX_WIDTH // 2, len(line) - _MAX_WIDTH)) if len(line) > _MAX_WIDTH else 0
        part = line[start : start + _MAX_WIDTH].replace("\t", " ")
        yield f"    {escape_controls(part)}"
        yield f"    {' ' * len(escape_controls(part[: column - start]))}^"
    if finding.hint:
        yield escape_controls(f"    {finding.hint}")


def lint_github(linted: LintResult) -> str:
    """Format the findings as GitHub workflow commands, which GitHub shows beside the lines."""
    return "\n".join(_annotation(finding) for finding in linted.findings)


def _annotation(finding: Finding) -> str:
    origin = finding.origin
    message = f"{finding.message}. {finding.hint}" if finding.hint else finding.message
    if not origin.line and origin.layer:
        # Findings about options or environment variables have no file that GitHub could show.
        return escape_controls(f"::{_GITHUB_COMMANDS[finding.severity]}::{_escape_data(f'{origin}: {message}')}")
    place = f"file={_escape_property(origin.file)}"
    if origin.line:
        place += f",line={origin.line},col={origin.column}"
    return escape_controls(f"::{_GITHUB_COMMANDS[finding.severity]} {place}::{_escape_data(message)}")


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
