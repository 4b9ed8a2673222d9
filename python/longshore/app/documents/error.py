"""The document of an error, and the place in the input that an error names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.app.documents.document import Count, DocumentEntry, Ordinal
from longshore.errors import LongshoreError
from longshore.origin import Origin

Code: TypeAlias = Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]


class PlaceEntry(DocumentEntry, frozen=True):
    """The place in the input where something was written."""

    file: str
    """Path as the user knows it, or a name such as `--set` for what stands in no file."""
    line: Ordinal | None
    """Line, counted from 1; null where there are no lines."""
    column: Ordinal | None
    """Column, counted from 1; null where there are no lines."""
    layer: str
    """Layer of the configuration, such as `defaults` or `user`; empty outside it."""


class ProblemEntry(DocumentEntry, frozen=True):
    """One of several problems. One job stands for all jobs that have the same problem."""

    code: Code
    """Kind of the error that the problem would be by itself."""
    message: str
    """The problem, for people."""
    origin: PlaceEntry | None
    """Place where it was written; null if there is none."""
    hint: str
    """The way out; empty if none is known."""
    label: str
    """Label of the jobs concerned; empty if no job is."""
    jobs: Count
    """Number of these jobs."""


class ErrorEntry(DocumentEntry, frozen=True):
    """An error."""

    code: Code
    """Kind of the error, for programs."""
    message: str
    """The problem, for people."""
    origin: PlaceEntry | None
    """Place where it was written; null if there is none."""
    hint: str
    """The way out; empty if none is known."""
    exit_status: Annotated[int, Meta(ge=1, le=255)]
    """Exit status of the command."""
    problems: Annotated[Sequence[ProblemEntry], Meta(min_length=1)] | UnsetType = UNSET
    """All problems, from commands that look for all at once; the message is that of the first."""


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An error, in place of the document that the command would have printed with `--json`."""

    schema_version: Literal[1] = 1
    """Version of the schema. Additions leave it; a removal or a change of meaning raises it."""
    error: ErrorEntry
    """The error."""


def place_entry(origin: Origin | None) -> PlaceEntry | None:
    """Return a place for a document."""
    if origin is None:
        return None
    return PlaceEntry(origin.file, origin.line or None, origin.column or None, origin.layer)


def error_entry(error: LongshoreError) -> ErrorEntry:
    """Return an error for a document."""
    problems = [ProblemEntry.from_record(fault, origin=place_entry(fault.origin)) for fault in error.details]
    return ErrorEntry.from_record(error, origin=place_entry(error.origin), problems=problems or UNSET)


def error_document(error: LongshoreError) -> ErrorDocument:
    """Return an error as every command prints it with ``--json``."""
    return ErrorDocument(error=error_entry(error))
