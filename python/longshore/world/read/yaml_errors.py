"""Explains why a text is no YAML: by indentation, brackets, quotation marks, tabs and unquoted placeholders."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import yaml

from longshore.config.yaml11 import ODD_BLANKS

LINE_END: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""Counts lines as libyaml does, unlike Python's `splitlines`."""
_ITEM: Final = re.compile(r" *-(?=\s|$)")
_KEY: Final = re.compile(r" *(?P<name>[^\s#:\[\]{},&*!|>'\"%@`-][^:#]*?|'[^']*'|\"[^\"]*\")\s*:(?=\s|$)(?P<value>.*)")
_PLACEHOLDER: Final = re.compile(r"(?:^|[\s\[,:])(\{[A-Za-z_][\w.]*\})")
_TEXT_WITH_PLACEHOLDER: Final = re.compile(
    r"(?<![^\s\[,:{])[^\s\[\]{},\"'#:&*!|>][^\s\[\]{},\"']*(\{[A-Za-z_][\w.]*(?::[^{}\s]*)?\})(?:\{[A-Za-z_][\w.:]*\}|[^\s\[\]{},\"'])*"
)
"""A word outside quotation marks that has a placeholder behind its first character."""
_UNSPACED_KEY: Final = re.compile(r" *(?:- +)*([A-Za-z_][\w.-]*):(?!//)([^\s:]+)")
_OPENERS: Final = {"[": "]", "{": "}", '"': '"', "'": "'"}


_UNSPACED_PREFIX: Final = re.compile(r" *|[ \w.-]+:")
"""What stands before a blank that is meant to indent a line, or to follow its key."""


class SyntaxProblem(msgspec.Struct, frozen=True):
    """Why a text is no YAML, with line and column counted from 0."""

    message: str
    line: int
    column: int
    hint: str = ""


class _Entry(msgspec.Struct, frozen=True):
    """A key or list item at the beginning of a line."""

    line: int
    indent: int
    name: str
    has_value: bool
    is_block: bool = False


def explain_syntax_error(error: yaml.MarkedYAMLError, text: str) -> SyntaxProblem:
    """Explain an error of the YAML parser by what the text has there."""
    lines = LINE_END.split(text)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if line >= len(lines):
        # libyaml reports the end of a text one line too late.
        line, column = len(lines) - 1, len(lines[-1])
    if odd := _odd_blank(error, lines, line):
        return odd
    if "\t" not in lines[line][: column + 1]:
        found = _unquoted_placeholder(lines, line, column) or _placeholder_in_map(error, lines, line)
        found = found or _missing_blank(error, lines) or _unclosed(error, lines, line) or _indentation(lines, line)
        if found:
            return found
    problem = (error.problem or "it has an error")[:200]
    message = problem + (f" ({error.context[:100]})" if error.context else "")
    return SyntaxProblem(message, line, column, _hint(error, problem, lines[line][: column + 1]))


def _odd_blank(error: yaml.MarkedYAMLError, lines: list[str], line: int) -> SyntaxProblem | None:
    """Explain a blank that is none to YAML, in a line of the error or before other text of a line above it."""
    start = error.context_mark.line if error.context_mark else line
    for number, text in enumerate(lines[: line + 1]):
        at = -1 if text.isascii() else next((i for i, sign in enumerate(text) if sign in ODD_BLANKS), -1)
        if at >= 0 and (number >= min(start, line) or _UNSPACED_PREFIX.fullmatch(text[:at])):
            where, hint = (
                ("has", "Write a plain space.") if text[:at].strip() else ("begins with", "Indent with spaces.")
            )
            return SyntaxProblem(
                f"the line {where} {ODD_BLANKS[text[at]]}, which YAML takes for a letter", number, at, hint
            )
    return None


def _hint(error: yaml.MarkedYAMLError, problem: str, before: str) -> str:
    if "\t" in before:
        return "Indent with spaces; YAML does not allow tabs there."
    if "mapping values are not allowed" in problem:
        return "Text with ': ' in it must be quoted, and keys of one map must begin in one column."
    if error.context == "while scanning a tag":
        return "There must be a space behind a tag such as '!delete'."
    if "cannot start any token" in problem:
        return "Text that begins with '%', '@' or '`' must be quoted."
    return ""


def _unquoted_placeholder(lines: list[str], line: int, column: int) -> SyntaxProblem | None:
    """Explain text that begins with a placeholder: to YAML its brace opens a map."""
    for found in _PLACEHOLDER.finditer(lines[line]):
        end = found.end(1)
        if end <= column + 1 and not re.match(r"\s*([,\]}#]|$)", lines[line][end:]):
            name = found[1]
            return SyntaxProblem(
                f"a text that begins with '{name}' is not quoted",
                line,
                found.start(1),
                f'Quote the whole text, as in "{name}...": a brace opens a map.',
            )
    return None


def _placeholder_in_map(error: yaml.MarkedYAMLError, lines: list[str], line: int) -> SyntaxProblem | None:
    """Explain text with a placeholder in a map or list of one line: its brace opens another map."""
    if "flow" not in (error.context or ""):
        return None
    for found in _TEXT_WITH_PLACEHOLDER.finditer(lines[line]):
        return SyntaxProblem(
            f"a text with the placeholder '{found[1]}' is not quoted",
            line,
            found.start(),
            f'Quote the whole text: "{found.group()}". Between braces or brackets, a brace opens a map.',
        )
    return None


def _missing_blank(error: yaml.MarkedYAMLError, lines: list[str]) -> SyntaxProblem | None:
    """Explain a key without a blank behind its colon: to YAML, the line is one word."""
    start = error.context_mark
    if start is None or "simple key" not in (error.context or "") or start.line >= len(lines):
        return None
    found = _UNSPACED_KEY.match(lines[start.line])
    if found is None:
        return None
    message = f"there is no blank behind '{found[1]}:'"
    return SyntaxProblem(message, start.line, found.end(1), f"Write '{found[1]}: {found[2]}...'.")


def _unclosed(error: yaml.MarkedYAMLError, lines: list[str], line: int) -> SyntaxProblem | None:
    """Explain a bracket or quotation mark that is never closed, at the place where it opens."""
    start = error.context_mark
    context = error.context or ""
    if start is None or not ("flow" in context or "quoted scalar" in context) or start.line >= len(lines):
        return None
    opener = lines[start.line][start.column : start.column + 1]
    if opener not in _OPENERS or (start.line == line and "end of" not in (error.problem or "")):
        return None
    kind = "quotation mark" if opener in "'\"" else "bracket"
    is_cut = kind == "bracket" and _OPENERS[opener] in lines[start.line].partition(" #")[2]
    return SyntaxProblem(
        f"the {kind} {_quoted(opener)} that opens here is never closed",
        start.line,
        start.column,
        f"Close it with {_quoted(_OPENERS[opener])}; the error shows in line {line + 1}."
        + (" What follows ' #' is a comment: quote the text if it belongs to it." if is_cut else ""),
    )


def _quoted(sign: str) -> str:
    return f'"{sign}"' if sign == "'" else f"'{sign}'"


def _indentation(lines: list[str], line: int) -> SyntaxProblem | None:
    """Explain a key whose indentation is none of those before it."""
    levels, nearest = _open_levels(lines, line)
    entry = next(iter(_entries(lines, line)), None)
    if entry is None or nearest is None:
        return None
    may_be_below = entry.indent > nearest.indent and not nearest.has_value
    if may_be_below or any(level.indent == entry.indent for level in levels):
        return None
    beside = min(reversed(levels), key=lambda each: abs(each.indent - entry.indent))
    if entry.indent > nearest.indent:
        beside = nearest
    return SyntaxProblem(
        f"'{entry.name}' has {_spaces(entry.indent)} before it, and '{beside.name}' in line {beside.line + 1} has "
        f"{beside.indent or 'none'}",
        line,
        entry.indent,
        "Keys of one map, and items of one list, must begin in one column.",
    )


def _spaces(number: int) -> str:
    return "1 space" if number == 1 else f"{number} spaces" if number else "no space"


def _open_levels(lines: list[str], end: int) -> tuple[list[_Entry], _Entry | None]:
    """Keys and items before a line whose maps and lists are still open, and the last key or item."""
    levels: list[_Entry] = []
    block: _Entry | None = None
    for number in range(end):
        for each in _entries(lines, number):
            if block is not None and each.indent > block.indent:
                break  # a line of a text
            levels = [*(level for level in levels if level.indent < each.indent), each]
            block = each if each.is_block else None
    return levels, levels[-1] if levels else None


def _entries(lines: list[str], number: int) -> list[_Entry]:
    """Items and the key that begin a line, outermost first."""
    entries, at, text = [], 0, lines[number]
    while item := _ITEM.match(text, at):
        entries.append(_Entry(number, item.end() - 1, text[item.end() - 1 :].strip(), has_value=False))
        at = item.end()
    if key := _KEY.match(text, at):
        value = key["value"].split(" #")[0].strip()
        entries.append(
            _Entry(number, key.start("name"), key["name"].strip("'\""), bool(value), value[:1] in {"|", ">"})
        )
    return entries
