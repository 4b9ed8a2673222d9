"""Documents of ``config show``, ``config explain`` and ``config lint``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType

from longshore.config.explain import KeyExplanation, OverriddenValue, StepKind
from longshore.config.merge import Node, written_value
from longshore.config.schema import Severity
from longshore.errors import Origin
from longshore.reports.documents.document import Count, Document, DocumentEntry, ErrorEntry, JsonValue, error_entry

if TYPE_CHECKING:
    from longshore.plan.lint import LintResult


class OriginEntry(DocumentEntry, frozen=True):
    """Place where a value was written."""

    file: str
    """Path, or a name for what is no file."""
    line: Count
    """Line, counted from 1; 0 where there are no lines."""
    column: Count
    """Column, counted from 1; 0 where there are no lines."""
    layer: str
    """Layer of the configuration."""


class ValueOriginEntry(DocumentEntry, frozen=True):
    """Place of one value."""

    path: Sequence[str]
    """Keys that lead to the value."""
    origin: OriginEntry
    """Place where it was written."""


class ConfigShowDocument(Document, frozen=True, kw_only=True):
    """The effective configuration: `longshore config show --json`."""

    kind: Literal["config_show"] = "config_show"
    values: Mapping[str, JsonValue]
    """All layers merged, values as they were written."""
    origins: Sequence[ValueOriginEntry] | UnsetType = UNSET
    """Place of each value, with --origins."""


class ReplacedEntry(DocumentEntry, frozen=True):
    """A value that another one replaced."""

    value: JsonValue
    """The value as it was written."""
    origin: OriginEntry
    """Place where it was written."""
    section: str | UnsetType = UNSET
    """Section in which a search would have found it later."""


class StepEntry(DocumentEntry, frozen=True):
    """A step from a text to its value."""

    kind: StepKind
    """What the step did: `undefined` is a variable that nothing defines."""
    depth: Count
    """Number of variables that lead to this text."""
    name: str
    """The key or variable."""
    text: str
    """The text after the step."""
    origin: OriginEntry | None
    """Place where the text was written; null for a computed text."""


class ValueEntry(DocumentEntry, frozen=True):
    """The value of a key and its history."""

    found: bool
    """Whether a search finds the key."""
    value: JsonValue
    """Result of the search; an empty text if nothing was found, null if there is an error."""
    origin: OriginEntry | None
    """Place where it was written; null if nothing was found, or for a current value."""
    written: JsonValue
    """The value as it was written."""
    overrode: Sequence[ReplacedEntry]
    """Values of weaker layers that it replaced, the strongest first."""
    hides: Sequence[ReplacedEntry]
    """Values that the search would have found otherwise."""
    steps: Sequence[StepEntry]
    """Steps from the written text to the value; up to the error if there is one."""
    default: JsonValue
    """Value that holds where nothing sets the key; null if there is none."""
    error: ErrorEntry | UnsetType = UNSET
    """Why the value cannot be computed; absent if it can."""


class ExplainDocument(Document, frozen=True, kw_only=True):
    """Values with their histories: `longshore config explain --json`."""

    kind: Literal["explain"] = "explain"
    values: Mapping[str, ValueEntry]
    """The value of each key."""


class FindingEntry(DocumentEntry, frozen=True):
    """A finding about the configuration."""

    severity: Severity
    """Severity; an error prevents the submission of a run."""
    message: str
    """The problem."""
    hint: str
    """The way out; empty if none is known."""
    origin: OriginEntry
    """Place of the problem."""
    source: str | None
    """The line concerned; null if there is none or it looks like a secret."""


class LintDocument(Document, frozen=True, kw_only=True):
    """Findings about a configuration: `longshore config lint --format json`."""

    kind: Literal["lint"] = "lint"
    ok: bool
    """Whether the exit status is 0."""
    errors: Count
    """Number of errors."""
    warnings: Count
    """Number of warnings."""
    notes: Count
    """Number of notes."""
    findings: Sequence[FindingEntry]
    """The findings, in the order of the files."""
    left_out: Sequence[str]
    """What was not checked, because it depends on files, functions or the machine."""


def config_show_document(root: Node, *, origins: bool) -> ConfigShowDocument:
    """Return the whole configuration as ``config show --json`` prints it."""
    places = [ValueOriginEntry(path, OriginEntry.from_record(origin)) for path, origin in _origins(root, ())]
    return ConfigShowDocument(values=_json_value(written_value(root)), origins=places if origins else UNSET)


def explain_document(values: Mapping[str, KeyExplanation]) -> ExplainDocument:
    """Return values with their histories as ``config explain --json`` prints them."""
    return ExplainDocument(values={key: _value_entry(value) for key, value in values.items()})


def lint_document(linted: LintResult, *, ok: bool) -> LintDocument:
    """Return findings as ``config lint --format json`` prints them."""
    return LintDocument(
        ok=ok,
        errors=linted.count(Severity.ERROR),
        warnings=linted.count(Severity.WARNING),
        notes=linted.count(Severity.NOTE),
        findings=[
            FindingEntry.from_record(
                finding,
                origin=OriginEntry.from_record(finding.origin),
                source=linted.source(finding),
            )
            for finding in linted.findings
        ],
        left_out=linted.left_out,
    )


def _origins(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Origin]]:
    if isinstance(node.value, dict) and node.value:
        for key, below in node.value.items():
            yield from _origins(below, (*path, key))
    elif path:
        yield path, node.origin


def _value_entry(explained: KeyExplanation) -> ValueEntry:
    return ValueEntry.from_record(
        explained,
        found=explained.is_found,
        value=_json_value(explained.value),
        origin=_origin_entry(explained.origin),
        written=_json_value(explained.written),
        overrode=list(map(_replaced_entry, explained.overridden_values)),
        hides=list(map(_replaced_entry, explained.hidden_values)),
        steps=[StepEntry.from_record(step, origin=_origin_entry(step.origin)) for step in explained.steps],
        error=error_entry(explained.error) if explained.error else UNSET,
    )


def _replaced_entry(replaced: OverriddenValue) -> ReplacedEntry:
    section = UNSET if replaced.section is None else replaced.section
    return ReplacedEntry(_json_value(replaced.value), OriginEntry.from_record(replaced.origin), section)


def _origin_entry(origin: Origin | None) -> OriginEntry | None:
    return None if origin is None else OriginEntry.from_record(origin)


def _json_value(value: object) -> JsonValue:
    """Return a value with numbers that JSON lacks as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _json_value(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_json_value(below) for below in value]
    return value
