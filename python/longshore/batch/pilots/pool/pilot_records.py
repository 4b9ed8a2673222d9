"""Records of a pilot as the engine decodes them; `protocol` documents their members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from longshore.contract.executor import AttemptId
from longshore.engine.keeper_io.keeper_records import ExitRecord, ReapingRecord, StartRecord
from longshore.errors import DECODE_ERRORS


class PilotBegun(msgspec.Struct, frozen=True, tag_field="r", tag="pilot"):
    """The pilot has begun on a node."""

    node: int
    host: str
    cpus: int
    memory: int
    until: float = -1.0
    """Seconds that are left of the allocation; negative if it has no limit."""


class GenerationTaken(msgspec.Struct, frozen=True, tag_field="r", tag="gen"):
    """The pilot follows the orders `g`, and took the older ones up to a byte."""

    g: int
    was: int
    at: int


class Beat(msgspec.Struct, frozen=True, tag_field="r", tag="beat"):
    """The pilot lives."""

    k: int
    at: int
    run: int
    wait: int


class AttemptsGot(msgspec.Struct, frozen=True, tag_field="r", tag="got"):
    """Attempts that may begin from now on."""

    m: tuple[AttemptId, ...]


class AttemptsGivenBack(msgspec.Struct, frozen=True, tag_field="r", tag="never"):
    """Attempts that were not started, and will not be."""

    m: tuple[AttemptId, ...]


class PilotClosed(msgspec.Struct, frozen=True, tag_field="r", tag="closed"):
    """Nothing runs, and nothing will start."""

    why: str = ""


PilotNews: TypeAlias = (
    PilotBegun
    | GenerationTaken
    | Beat
    | AttemptsGot
    | AttemptsGivenBack
    | PilotClosed
    | StartRecord
    | ReapingRecord
    | ExitRecord
)
_decoder: Final = msgspec.json.Decoder(PilotNews)


def decode_news(text: bytes) -> list[PilotNews]:
    """Decode the records of whole lines; those of a newer version are left out."""
    try:
        return _decoder.decode_lines(text)
    except DECODE_ERRORS:
        return list(_decode_one_by_one(text))


def _decode_one_by_one(text: bytes) -> Iterator[PilotNews]:
    for line in text.splitlines():
        with suppress(*DECODE_ERRORS):
            yield _decoder.decode(line)
