"""Moves findings about keys from the place of the value to that of the key, which only the text of the file knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from longshore.config.check import Finding
from longshore.origin import Origin

_LINE_END: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What YAML takes for the end of a line; Python's `splitlines` knows more."""
_NOTHING: Final = re.compile(r"\s*(#.*)?")
_BEFORE: Final = re.compile(r"\s*([&!]\S*\s+)*")


class Lines:
    """Lines of files, split once.

    Parameters
    ----------
    texts
        Text per file.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._split: dict[str, list[str]] = {}

    def of(self, file: str) -> list[str]:
        """The lines of a file; none of one that is not there."""
        if file not in self._split:
            self._split[file] = _LINE_END.split(self._texts[file]) if file in self._texts else []
        return self._split[file]

    def at(self, origin: Origin) -> str | None:
        """The line of a place, if it is there."""
        lines = self.of(origin.file)
        return lines[origin.line - 1] if 0 < origin.line <= len(lines) else None


def at_keys(findings: Iterable[Finding], lines: Lines) -> Iterator[Finding]:
    """The findings, of which those about keys point to these.

    Parameters
    ----------
    findings
        What was found.
    lines
        The files that they are about; a finding about another one stays as it is.
    """
    for finding in findings:
        if finding.at_key and finding.path and (place := key_place(lines.of(finding.origin.file), finding)):
            yield msgspec.structs.replace(finding, origin=place, at_key=False)
        else:
            yield finding


def key_place(lines: list[str], finding: Finding) -> Origin | None:
    """Where the key of a value begins; ``None`` where it cannot be told, as for one that an alias brought there."""
    origin = finding.origin
    if not 0 < origin.line <= len(lines):
        return None
    # A key is whole, in or out of quotes; what is between it and the value are at most an anchor and a tag.
    name = re.escape(finding.path[-1])
    key = re.compile(rf"(?<![^\s{{\[,])(?P<key>(?P<quote>['\"]?){name}(?P=quote))\s*:\s*([&!]\S*(\s+|$))*(#.*)?$")
    before = lines[origin.line - 1][: origin.column - 1]
    number = origin.line
    found = key.search(before)
    if found is None and _BEFORE.fullmatch(before):
        number -= 1
        while number and _NOTHING.fullmatch(lines[number - 1]):
            number -= 1
        found = key.search(lines[number - 1]) if number else None
    return Origin(origin.file, number, found.start("key") + 1, origin.layer) if found else None
