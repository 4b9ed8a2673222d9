"""Semantic versions and inclusive ranges of them."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Final, NamedTuple

_VERSION: Final = re.compile(
    r"[vV]?(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:-([0-9A-Za-z.-]{1,200}))?(?:\+[0-9A-Za-z.-]{1,200})?",
    re.ASCII,
)


@total_ordering
class PreRelease:
    """Order of pre-releases: numbers below words, fewer identifiers below more, none above all."""

    def __init__(self, text: str) -> None:
        self._key = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in text.split(".") if text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PreRelease) and self._key == other._key

    def __lt__(self, other: PreRelease) -> bool:
        if not self._key or not other._key:
            return bool(self._key) and not other._key
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __bool__(self) -> bool:
        return bool(self._key)


class Version(NamedTuple):
    """A semantic version: its written numbers, one to three, and its pre-release."""

    numbers: tuple[int, ...]
    pre_release: PreRelease

    @property
    def full(self) -> tuple[tuple[int, ...], PreRelease]:
        """Numbers filled up with zeros, and the pre-release; they compare as versions do."""
        return (*self.numbers, 0, 0)[:3], self.pre_release


def parse_version(text: str) -> Version | None:
    """Parse a version, with or without ``v``, of one to three numbers; ``None`` for another text."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    return Version(tuple(int(part) for part in found.groups()[:3] if part is not None), PreRelease(found[4] or ""))


def is_in_range(version: Version, least: Version | None, most: Version | None) -> bool:
    """Whether a version lies in a range with its bounds; a maximum of fewer numbers includes all that begin so.

    A pre-release lies in no range, unless a bound is one.
    """
    bounds = [bound for bound in (least, most) if bound is not None]
    if version.pre_release and not any(bound.pre_release for bound in bounds):
        return False
    if least is not None and version.full < least.full:
        return False
    if most is None:
        return True
    if len(most.numbers) < 3 and not most.pre_release and version.full[0][: len(most.numbers)] == most.numbers:
        return True
    return version.full <= most.full
