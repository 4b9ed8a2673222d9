"""Values of a job in a line for the shell: each stays itself in any quotation marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from longshore.config.command_lines import ShellLine
from longshore.config.templates import Quotation, ShellContext, Template, format_value, is_value
from longshore.plan.job_commands import quote_literal

_MARK_NAME: Final = re.compile(r"\b(FILE|WMS):")
"""What is substituted later in a command, unless it is a value's own text."""
_SPECIAL_IN_DOUBLE: Final = re.compile(r'(["\\$`])')


class _Quoted(str):
    """Text that is quoted for a shell already."""

    __slots__ = ()

    def __str__(self) -> str:
        # Not a plain copy, which would be quoted once more.
        return self


def render_line(line: Template, values: Mapping[str, Any]) -> str:
    """Substitute the values of a job in a line for the shell; several files are several words.

    In a `ShellLine`, a value in quotation marks is exactly the value, and several files are joined by blanks.

    Raises
    ------
    UndefinedVariableError
        A value is missing.
    ConfigError
        A value does not suit its format specification.
    """
    if isinstance(line, ShellLine) and not line.is_plain:
        return "".join(_render_parts(line, values))
    for name in line.names:
        if type(values.get(name)) is tuple:
            # Only what the line uses is made fit for it: of a hundred thousand jobs, quoting takes most of the time.
            used = {name: _quote_files(values[name]) for name in line.names if name in values}
            return line.render(used, quote=_quote)
    return line.render(values, quote=_quote_cached)


def _render_parts(line: ShellLine, values: Mapping[str, Any]) -> Iterator[str]:
    contexts = iter(line.contexts)
    for part in line.parts:
        if isinstance(part, str):
            yield _write_texts((str(part),), next(contexts)) if is_value(part) else part
            continue
        context = next(contexts)
        value = values.get(part.name)
        if isinstance(value, tuple):
            yield _write_texts(value, context)
        elif value is None:
            yield Template((part,), line.origin).render(values)
        else:
            yield _write_texts((format_value(value, part, line.origin),), context)


def _write_texts(texts: tuple[str, ...], context: ShellContext) -> str:
    """Write texts where a field stands."""
    quotation = context.quotation
    if quotation is Quotation.COMMENT:
        return " ".join(texts).replace("\n", " ")
    if quotation in _WRITERS:
        is_script = quotation in (Quotation.SINGLE_SCRIPT, Quotation.DOUBLE_SCRIPT)
        written = _WRITERS[quotation](" ".join(map(quote_literal, texts) if is_script else texts))
        # The backslash would quote what begins the value; a second one makes it a plain sign, as it is elsewhere.
        needed = context.after_backslash and (not written or written[0] in '\\"$`\n')
        return f"\\{written}" if needed else written
    written = " ".join(map(quote_literal, texts))
    # A backslash before the end of a line is nothing.
    return f"\n{written}" if context.after_backslash and (not written or written[0] == "'") else written


def _write_in_single(text: str) -> str:
    """Write a text within single quotation marks."""
    return _MARK_NAME.sub(r"\1'':", text.replace("'", "'\"'\"'"))


def _write_in_double(text: str) -> str:
    """Write a text within double quotation marks."""
    return _MARK_NAME.sub(r'\1"":', _SPECIAL_IN_DOUBLE.sub(r"\\\1", text))


_WRITERS: Final[Mapping[Quotation, Callable[[str], str]]] = {
    Quotation.SINGLE: _write_in_single,
    Quotation.SINGLE_SCRIPT: _write_in_single,
    Quotation.DOUBLE: _write_in_double,
    Quotation.DOUBLE_SCRIPT: _write_in_double,
}


def _quote_files(value: Any) -> Any:
    """Quote several files as several words."""
    return _Quoted(" ".join(map(quote_literal, value))) if isinstance(value, tuple) else value


def _quote(text: str) -> str:
    # What a value is written as, its format applied, is data whatever signs it has in it: the shell must see one word.
    return text if isinstance(text, _Quoted) else _quote_cached(text)


_quote_cached = lru_cache(maxsize=4096)(quote_literal)
"""Jobs of one dimension or another have most of their values in common."""
