"""Finds the quotation marks of a POSIX shell around each field of a line, by a scan."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import msgspec

from longshore.config.values.templates import Field, Part, Word


class Quotation(Enum):
    """Where a field stands in a line for the shell."""

    NONE = "no quotation marks"
    SINGLE = "single quotation marks"
    DOUBLE = "double quotation marks"
    SINGLE_SCRIPT = "a script in single quotation marks"
    DOUBLE_SCRIPT = "a script in double quotation marks"
    COMMENT = "a comment"
    UNKNOWN = "a place that is not known"


class ShellContext(msgspec.Struct, frozen=True):
    """Quotation marks around a field, and whether a backslash precedes it that quotes what follows."""

    quotation: Quotation
    after_backslash: bool = False


PLAIN: Final = ShellContext(Quotation.NONE)
_UNKNOWN: Final = ShellContext(Quotation.UNKNOWN)
_FIELD: Final = "\0"
"""Stands for a field in the scanned text; no command can contain this character."""
_MAX_DEPTH: Final = 20
_CODE: Final = re.compile(r"[\0\\'\"`#<\n$()]|\bcase\b")
_IN_DOUBLE: Final = re.compile(r"[\0\\\"`$]")
_PARAMETER: Final = re.compile(r"\$\{[#!]?(?:\w+|[@*#?$!-])[^\0'\"\\`${}\n]*\}", re.ASCII)
_ARITHMETIC: Final = re.compile(r"[()'\"\\`\n]")
_HERE_DOCUMENT: Final = re.compile(
    r"<<(?P<dash>-?)[ \t]*(?:'(?P<single>[^'\0\n]*)'|\"(?P<double>[^\"\0\n\\$`]*)\"|(?P<plain>[\w.-]+)(?=[\s;&|)>]))"
)
_SHELL: Final = r"(?:^|[\s;&|(/])(?:ba|da|k|z)?sh(?![\w.-])"
_SHELL_READS: Final = re.compile(_SHELL + r"[^;&|\n'\"]*$")
_SCRIPT_FOLLOWS: Final = re.compile(
    r"(?:" + _SHELL + r"[^'\"\n;&|]*\s-\w*c|(?:^|[\s;&|(])(?:(?:su|flock)\s[^'\"\n;&|]*-c|ssh\s[^'\"\n;&|]*|eval|trap))"
    r"[ \t]+$"
)
"""Text before a word that a shell reads as a script."""
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_MAX_BEFORE: Final = 300


class _LostError(Exception):
    """The rest of the text may be read in several ways."""


def shell_contexts(parts: tuple[Part, ...]) -> tuple[ShellContext, ...]:
    """Return the context of each value of a line, in order.

    In a here-document, after backquotes, and after expansions with quotation marks of their own, it is unknown.
    """
    text = "".join(_FIELD if is_value(part) else str(part).replace(_FIELD, " ") for part in parts)
    return tuple(_Scanner(text).contexts())


def is_value(part: Part) -> bool:
    """Tell whether a part of a line is one value to the shell, and no text of the line's own."""
    return isinstance(part, Field | Word)


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: list[ShellContext] = []
        self._escape_end = -1
        self._script_end = -1
        self._documents: list[re.Match[str]] = []

    def contexts(self) -> list[ShellContext]:
        """Return the context of each field."""
        try:
            self._scan_code(0)
        except _LostError:
            missing = self._text.count(_FIELD) - len(self._found)
            self._found += [_UNKNOWN] * missing
        return self._found

    def _scan_code(self, depth: int) -> None:
        """Scan commands to the end of the text, or to the parenthesis that closes a substitution in quotation marks."""
        parentheses = 0
        while sign := _CODE.search(self._text, self._at):
            self._at = sign.start()
            if (found := sign.group()) == ")" and depth and not parentheses:
                self._at += 1
                return
            if found in ("`", "case"):
                # In the patterns of `case`, a parenthesis closes nothing.
                if found == "`" or depth:
                    raise _LostError
                self._at = sign.end()
            elif found in "()":
                parentheses += 1 if found == "(" else -1
                self._at += 1
            else:
                self._scan_sign(found, depth)
        self._at = len(self._text)

    def _scan_sign(self, sign: str, depth: int) -> None:
        if sign == _FIELD:
            self._add(Quotation.NONE)
        elif sign == "\\":
            self._scan_backslash(Quotation.NONE)
        elif sign in "'\"":
            self._scan_quotation(sign, depth)
        elif sign == "$":
            self._scan_dollar(depth, quoted=False)
        elif sign == "#":
            self._scan_comment()
        elif sign == "<":
            self._scan_redirection()
        else:
            self._at += 1
            self._scan_documents()

    def _add(self, quotation: Quotation) -> None:
        self._found.append(ShellContext(quotation))
        self._at += 1

    def _scan_backslash(self, quotation: Quotation) -> None:
        if self._text[self._at + 1 : self._at + 2] == _FIELD:
            self._found.append(ShellContext(quotation, after_backslash=True))
        self._at += 2
        self._escape_end = self._at

    def _scan_quotation(self, mark: str, depth: int) -> None:
        before = self._text[max(0, self._at - _MAX_BEFORE) : self._at]
        is_script = self._script_end == self._at or _SCRIPT_FOLLOWS.search(before) is not None
        self._at += 1
        if mark == '"':
            self._scan_double(Quotation.DOUBLE_SCRIPT if is_script else Quotation.DOUBLE, depth)
        else:
            end = self._text.find("'", self._at)
            end = len(self._text) if end < 0 else end
            quotation = Quotation.SINGLE_SCRIPT if is_script else Quotation.SINGLE
            self._found += [ShellContext(quotation)] * self._text.count(_FIELD, self._at, end)
            self._at = end + 1
        if is_script:
            self._script_end = self._at

    def _scan_double(self, quotation: Quotation, depth: int) -> None:
        while sign := _IN_DOUBLE.search(self._text, self._at):
            self._at = sign.start()
            found = sign.group()
            if found == '"':
                self._at += 1
                return
            if found == _FIELD:
                self._add(quotation)
            elif found == "\\":
                self._scan_backslash(quotation)
            elif found == "$":
                self._scan_dollar(depth, quoted=True)
            else:
                raise _LostError
        self._at = len(self._text)

    def _scan_dollar(self, depth: int, *, quoted: bool) -> None:
        text, at = self._text, self._at
        if text.startswith("$((", at) and (end := self._arithmetic_end(at + 3)):
            self._found += [PLAIN] * text.count(_FIELD, at, end)
            self._at = end
        elif text.startswith("$(", at) and quoted:
            if depth == _MAX_DEPTH:
                raise _LostError
            self._at += 2
            self._scan_code(depth + 1)
        elif text.startswith("${", at):
            found = _PARAMETER.match(text, at)
            if found is None:
                raise _LostError
            self._at = found.end()
        elif text.startswith("$'", at) and not quoted:
            # Some shells replace backslashes there.
            raise _LostError
        else:
            self._at += 1

    def _arithmetic_end(self, at: int) -> int:
        """Return the end of an arithmetic expansion; 0 where it is none."""
        depth = 2
        for sign in _ARITHMETIC.finditer(self._text, at):
            if sign.group() not in "()":
                return 0
            depth += 1 if sign.group() == "(" else -1
            if not depth:
                return sign.end()
        return 0

    def _scan_comment(self) -> None:
        before = self._text[self._at - 1 : self._at]
        if self._at == self._escape_end or (before and before not in " \t\n;&|()<>"):
            self._at += 1
            return
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        self._found += [ShellContext(Quotation.COMMENT)] * self._text.count(_FIELD, self._at, end)
        self._at = end

    def _scan_redirection(self) -> None:
        text, at = self._text, self._at
        if text.startswith("<<<", at) or not text.startswith("<<", at):
            self._at += 3 if text.startswith("<<<", at) else 1
            return
        found = _HERE_DOCUMENT.match(text, at)
        if found is None:
            raise _LostError
        self._documents.append(found)
        self._at = found.end()

    def _scan_documents(self) -> None:
        """Scan the here-documents that begin in this line."""
        documents, self._documents = self._documents, []
        for found in documents:
            name = found["single"] or found["double"] or found["plain"] or ""
            lines: list[str] = []
            for line in _LINE.findall(self._text, self._at):
                self._at += len(line)
                if (line.lstrip("\t") if found["dash"] else line).rstrip("\n") == name:
                    # The line feed may begin the documents' next line of commands.
                    self._at -= line.endswith("\n")
                    break
                lines.append(line)
            body = "".join(lines)
            before = self._text[max(0, found.start() - _MAX_BEFORE) : found.start()]
            if found["plain"] is None and _SHELL_READS.search(before):
                # A shell reads the text as it is.
                self._found += _Scanner(body).contexts()
            else:
                self._found += [_UNKNOWN] * body.count(_FIELD)
