"""What all JSON documents share: their base classes, the types of their members, their encoding, and errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, UnsetType

from longshore.errors import LongshoreError, Origin
from longshore.model.wording import format_timestamp

Time: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        extra_json_schema={"format": "date-time"},
    ),
]
"""A moment in UTC as ISO-8601, to the millisecond."""
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Ordinal: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
JsonValue: TypeAlias = Any
"""Any value of JSON; msgspec has no narrower type for it."""

_encode: Final = msgspec.json.Encoder().encode
_UNSAFE_CHARACTERS: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that are legal in JSON, but harmful to a terminal, a line reader or an encoder."""


class DocumentEntry(msgspec.Struct, frozen=True):
    """An object in a document.

    Members are written in the order of their declaration; an unset member is left out.
    """

    @classmethod
    def from_record(cls, record: object, **members: object) -> Self:
        """Copy the members that a record has under the same name; others are in `members`.

        A member declared as `Time` is copied from seconds since the epoch, in the record and in `members`.
        """
        copied, times = _members_to_copy(cls, tuple(members))
        found = {name: getattr(record, name) for name in copied} | members
        for name in times:
            found[name] = format_timestamp(found[name], exact=True)
        return cls(**found)


class Document(DocumentEntry, frozen=True, kw_only=True):
    """A document of a command."""

    schema_version: Literal[1] = 1
    """Version of the schema. Additions leave it; a removal or a change of meaning raises it."""
    kind: str
    """Kind of the document."""


class DatedDocument(Document, frozen=True, kw_only=True):
    """A document that shows the state of something at one moment."""

    as_of: Time | None
    """Time at which the document was true."""


class DamageEntry(DocumentEntry, frozen=True):
    """A file, or a line of it, that is not as it was written."""

    path: str
    """Path of the file."""
    line: Ordinal | None
    """Number of the line; null for the whole file."""
    what: str
    """What is wrong, as a sentence about the place."""
    unknown: str
    """What is not known because of it; may be empty."""


@lru_cache
def _members_to_copy(cls: type[DocumentEntry], given: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of required members that are not given; and of these and the given ones, those of times."""
    defaults = dict(zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False))
    copied = tuple(
        name for name in cls.__struct_fields__ if name not in given and defaults.get(name, NODEFAULT) is NODEFAULT
    )
    bases = [base for base in cls.__mro__ if issubclass(base, DocumentEntry)]
    types = {name: text for base in bases for name, text in base.__annotations__.items()}
    return copied, tuple(name for name in (*copied, *given) if types[name].startswith("Time"))


def to_json(document: object) -> str:
    r"""Encode a document as indented JSON that is safe on any terminal.

    A name of a file need not be text: a lone surrogate becomes a ``\u`` escape, and decodes to the same name.
    """
    try:
        text = msgspec.json.format(_encode(document), indent=2).decode()
    except UnicodeEncodeError:
        # Imported late: few documents need it, and it takes ten times as long.
        import json

        text = json.dumps(msgspec.to_builtins(document, str_keys=True), indent=2, ensure_ascii=False)
    return escape_unsafe(text)


def to_line(document: object) -> str:
    """Encode a document, an entry or a text as JSON in one line; see `to_json`."""
    try:
        text = _encode(document).decode()
    except UnicodeEncodeError:
        import json

        text = json.dumps(msgspec.to_builtins(document, str_keys=True))
    return escape_unsafe(text)


def escape_unsafe(text: str) -> str:
    """Escape the characters of a JSON text that are harmful to a terminal or a line reader."""
    # All but one are beyond ASCII, and `isascii` is fast.
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE_CHARACTERS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


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
