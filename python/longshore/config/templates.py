"""Placeholders in text: ``{name}``, ``${NAME}`` and ``<ENV:NAME>``, and how a shell line quotes their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import cached_property
from typing import Final, Self, TypeAlias

import msgspec

from longshore.errors import ConfigError, Origin, UndefinedVariableError
from longshore.model.values import number_of
from longshore.model.wording import quote_value

# Parses ``{name}``, ``${NAME}`` and ``<ENV:NAME>`` in text, and substitutes values for these variables.


ATTEMPT_NAME: Final = "wmsAttemptNum"
"""The only name of a workload manager's that has a value: the number of the attempt, from 0."""
ATTEMPT_MARK: Final = "<WMS:attemptNum>"
"""Stands for it in commands and variables of jobs (as in BPS), until an attempt is made."""
WMS_HINT: Final = f"There is '{{{ATTEMPT_NAME}}}' alone, the number of the attempt from 0."


class Field(msgspec.Struct, frozen=True, gc=False):
    """A variable in a text, to be replaced by a value.

    Attributes
    ----------
    name
        An identifier, a dotted key with a dot in front, or a column of a dimension's table (``sample.size``).
    spec
        Python's format specification for the value.
    """

    name: str
    spec: str = ""

    def __str__(self) -> str:
        return f"{{{self.name}:{self.spec}}}" if self.spec else f"{{{self.name}}}"


class Data(str):
    """Text that came from outside of what a user wrote: nothing in it is a variable, a call or a placeholder."""

    __slots__ = ()


class Spelled(Data):
    """Data that is the text of a number or a truth value; `value` is how Python writes what it means."""

    def __new__(cls, text: str, value: str) -> Self:
        """Make the text, with its value."""
        made = super().__new__(cls, text)
        made.value = value
        return made

    value: str


class Word(Data):
    """Data that is one word in a line for the shell, such as the name of a file."""

    __slots__ = ()


Part: TypeAlias = str | Field
Parts: TypeAlias = tuple[Part, ...]
EnvExpander: TypeAlias = Callable[[str, str], str]
"""Text for a reference to an environment variable, by its name and the reference as written."""

LESS_THAN: Final = "<ENV:LONGSHORE_JOB_LESS_THAN>"
"""A sign ``<`` that begins no placeholder, in a text whose placeholders are substituted when its job starts."""

_BRACES = (
    r"\{\{|\}\}"
    # `${` belongs to the environment or the shell, unless the brace is doubled.
    r"|\$\{(?!\{)"
    r"|\{(?P<name>[^\W\d]\w*(?P<column>\.[^\W\d]\w*)?|\.[^\W\d][\w+-]*(?:\.[\w+-]+)*)(?::(?P<spec>[^{}]*))?\}"
    r"|[{}]"
)
_TOKEN = re.compile(_BRACES)
_TOKEN_OR_ENV = re.compile(
    r"(?a:(?P<escaped>\$\$)|(?P<env>\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\}|<(?P<angled>[A-Za-z_]\w*)>)"
    r"|<ENV:(?P<delayed>[A-Za-z_]\w*)>))|" + _BRACES
)
_VARIABLE = re.compile(r"\$\$|\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})", re.ASCII)
_DELAYED = re.compile(r"<ENV:([A-Za-z_]\w*)>", re.ASCII)
_ANGLED = re.compile(r"(?<!\$)<([^\W\d]\w*)>")
_ANGLED_ENV = re.compile(r"\$<([A-Za-z_]\w*)>", re.ASCII)
_WMS_NAME = re.compile(r"wms[A-Z]\w*")
_UNFINISHED = r"<(?=(?:E(?:N(?:V(?::\w*)?)?)?|F(?:I(?:L(?:E(?::[^<>]*)?)?)?)?|W(?:M(?:S(?::\w*)?)?)?)?\Z)"
_PLACEHOLDER_END = re.compile(_UNFINISHED)
_PLACEHOLDER_START = re.compile(r"<(?=ENV:|FILE:|WMS:)|" + _UNFINISHED)
_LONG_NUMBER = re.compile(r"\d{5}")
_FOR_NUMBERS: Final = re.compile(r"[bcdeEfFgGnoxX%]$|^0\d")
"""Format with a type of numbers, or with zeros in front. The precision of others, as in ``.3``, is that of a text."""
_PADDING = re.compile(r".?[<>^]\d*s?|(?P<width>[1-9]\d*)|\d*s", re.DOTALL)
"""Format of a text: its width and side. A zero in front of the width is for numbers."""


def split_fields(text: str, columns: Collection[str] = ()) -> Parts:
    """Split a text into literals and fields.

    `columns` are the names with a dot inside that are fields. ``{{`` and ``}}`` are braces. Braces around other text
    than a name stay as they are (``awk '{print $1}'``, ``{}``), and so does an unbalanced brace; the same holds for
    ``${...}``.
    """
    if "{" not in text and "}" not in text:
        return (text,) if text else ()
    return join_parts(part for part, _ in _pieces(text, columns))


def split_variables(text: str, expand: EnvExpander, columns: Collection[str] = ()) -> Parts:
    """Split a text as `split_fields` does, and replace its references to the environment.

    Both happen in one pass, so that the value of a variable is never read as a template.
    """
    if "$" not in text and "<ENV:" not in text:
        return split_fields(text, columns)
    return join_parts(part for part, _ in _pieces(text, columns, expand))


def column_names(text: str) -> Iterator[str]:
    """Each name of a text that could be a column: ``sample.size`` of ``{sample.size}``, outside of doubled braces."""
    if "{" in text and "." in text:
        at = 0
        while token := _TOKEN.search(text, at):
            at = token.end()
            if token["column"]:
                yield token["name"]


def substitute_values(
    text: str, values: Mapping[str, object], origin: Origin | None = None, *, texts: Mapping[str, str] = {}
) -> str:
    """Replace the fields that have a value; leave the rest of the text as written.

    `texts` has how values were written, if Python writes them otherwise.
    """
    if "{" not in text:
        return text
    return "".join(
        format_value(values[part.name], part, origin, text=texts.get(part.name, ""))
        if isinstance(part, Field) and part.name in values
        else written
        for part, written in _pieces(text)
    )


def _pieces(text: str, columns: Collection[str] = (), expand: EnvExpander | None = None) -> Iterator[tuple[Part, str]]:
    """Literals and fields, each with its text as written; with `expand`, references to the environment are replaced."""
    tokens = _TOKEN_OR_ENV if expand else _TOKEN
    at = 0
    # Open braces that are text: their closing braces are text as well, even two together, as in
    # `{for (i in a) {print i}}`.
    open_braces = 0
    while token := tokens.search(text, at):
        yield (literal := text[at : token.start()]), literal
        at = token.end()
        found = token.group()
        if expand and (token["env"] or token["escaped"]):
            name = token["bare"] or token["braced"] or token["angled"] or token["delayed"]
            yield (expand(name, found) if name else found), found
        elif token["column"] and token["name"] not in columns:
            at = token.start() + 1
            open_braces += 1
            yield "{", "{"
        elif token["name"]:
            yield Field(token["name"], token["spec"] or ""), found
        elif found == "{{":
            yield "{", found
        elif found == "}}" and not open_braces:
            yield "}", found
        elif found[0] == "}":
            open_braces = max(open_braces - 1, 0)
            at = token.start() + 1
            yield "}", "}"
        else:
            open_braces += 1
            yield found, found
    yield text[at:], text[at:]


def join_parts(parts: Iterable[Part]) -> Parts:
    """Join neighbouring literals and drop empty ones; `Data` stays apart."""
    merged_parts: list[Part] = []
    literal: list[str] = []
    for part in parts:
        if type(part) is str:
            literal.append(part)
            continue
        if text := "".join(literal):
            merged_parts.append(text)
        literal = []
        if part:
            merged_parts.append(part)
    if text := "".join(literal):
        merged_parts.append(text)
    return tuple(merged_parts)


def plain_parts(parts: Iterable[Part]) -> Parts:
    """The parts with `Data` as ordinary literals."""
    return join_parts(str(part) if isinstance(part, Data) else part for part in parts)


def protect_data(parts: Parts) -> Parts:
    """The parts as ordinary literals, in which no data begins a placeholder.

    For texts whose ``<ENV:NAME>`` and ``<FILE:name>`` are substituted when the job starts.
    """
    last = len(parts) - 1
    return join_parts(
        part
        if isinstance(part, Field)
        else protect_text(part)
        if isinstance(part, Data)
        # With what follows, the end of a literal may begin one.
        else _PLACEHOLDER_END.sub(LESS_THAN, part)
        if number < last
        else part
        for number, part in enumerate(parts)
    )


def protect_text(text: str) -> str:
    """Write a text so that nothing in it, nor with what follows, begins a placeholder."""
    return _PLACEHOLDER_START.sub(LESS_THAN, text) if "<" in text else text


def unparse_fields(parts: Iterable[Part]) -> str:
    """The text that `split_fields` splits into these parts."""
    return "".join(part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else str(part) for part in parts)


def parts_text(parts: Iterable[Part]) -> str:
    """Text of the parts: literals as they are, fields in braces."""
    return "".join(map(str, parts))


def expand_env(text: str, env: Mapping[str, str], *, delayed: bool = True) -> str:
    """Substitute environment variables, `delayed` ones too; an undefined one, ``$$`` and ``$(`` stay as written."""
    if delayed and "<ENV:" in text:
        text = undelay_env(text)
    if "$" not in text:
        return text
    return _VARIABLE.sub(lambda found: env.get(found["bare"] or found["braced"] or "", found.group()), text)


def unset_env_names(text: str, env: Mapping[str, str]) -> list[str]:
    """Names of the environment variables (`delayed` ones too) that a text uses and the environment lacks."""
    if "$" not in text and "<ENV:" not in text:
        return []
    names = (found["bare"] or found["braced"] for found in _VARIABLE.finditer(undelay_env(text)))
    return [name for name in dict.fromkeys(names) if name and name not in env]


def rewrite_angled_env(text: str, env: Mapping[str, str]) -> str:
    """Rewrite ``$<NAME>`` as ``${NAME}`` where that environment variable is set."""
    if "$<" not in text:
        return text
    return _ANGLED_ENV.sub(lambda found: f"${{{found[1]}}}" if found[1] in env else found.group(), text)


def split_angled(text: str, exists: Callable[[str], bool]) -> Iterator[Part]:
    """Split a literal at each ``<name>`` that means ``{name}``; a shell redirection does not."""
    at = 0
    for found in _ANGLED.finditer(text):
        if exists(found[1]):
            yield text[at : found.start()]
            yield Field(found[1])
            at = found.end()
    yield text[at:]


def angled_names(text: str, env: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Each ``<name>`` of a text, and each ``$<NAME>`` without an environment variable, and whether it is the latter."""
    yield from ((found[1], False) for found in _ANGLED.finditer(text))
    yield from ((found[1], True) for found in _ANGLED_ENV.finditer(text) if found[1] not in env)


def undelay_env(text: str) -> str:
    """Rewrite ``<ENV:NAME>`` as ``${NAME}``, for a shell to expand."""
    return _DELAYED.sub(r"${\1}", text)


def is_wms_name(name: str) -> bool:
    """Whether a name is one of those that BPS leaves to the workload manager, such as ``wmsFooBar``."""
    return _WMS_NAME.fullmatch(name) is not None


def format_value(value: object, variable: Field, origin: Origin | None = None, *, text: str = "") -> str:
    """Format a value by the format specification of its field.

    `text` is how the value was written, if Python writes it otherwise. A format without a type pads this text; one with
    a type, such as ``03d``, takes the value, which may be a number that is spelled by a text.

    Raises
    ------
    ConfigError
        The format specification does not suit the value.
    """
    spec = variable.spec
    if not spec:
        return text or str(value)
    padding = _PADDING.fullmatch(spec)
    if padding and text:
        value = text
        # As Python aligns numbers.
        spec = f">{spec}" if padding["width"] and number_of(text) is not None else spec
    number = number_of(value) if isinstance(value, str) and not padding else None
    # A format width of nine digits would take gigabytes.
    values = (value,) if number is None else (number, value) if _FOR_NUMBERS.search(spec) else (value, number)
    for each in () if _LONG_NUMBER.search(spec) else values:
        with suppress(ValueError, TypeError):
            return format(each, spec)
    raise ConfigError(
        f"'{variable}' cannot write the value {quote_value(text or value)}: '{spec[:40]}' is not a format for it",
        origin=origin,
        hint=f"If no variable is meant, double the braces: '{{{{{variable.name}:{variable.spec[:40]}}}}}'.",
    )


class Template(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Text with fields that are filled per job; two are equal wherever they were written.

    Attributes
    ----------
    parts
        Literals and fields.
    origin
        Where it was written.
    """

    parts: Parts
    origin: Origin | None = None

    def __str__(self) -> str:
        return unparse_fields(self.parts)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset(part.name for part in self.parts if isinstance(part, Field))

    @cached_property
    def _fields(self) -> tuple[Field, ...]:
        return tuple(part for part in self.parts if isinstance(part, Field))

    @cached_property
    def _order(self) -> tuple[str, ...] | None:
        """Field names in order, or ``None`` when one has a format specification."""
        return None if any(part.spec for part in self._fields) else tuple(part.name for part in self._fields)

    @cached_property
    def _pattern(self) -> str:
        # Interpolation by `%` is C from end to end: a third of the time of joining the parts.
        return "".join(part.replace("%", "%%") if isinstance(part, str) else "%s" for part in self.parts)

    def render(
        self,
        values: Mapping[str, object],
        quote: Callable[[str], str] | None = None,
        *,
        missing: str | None = None,
    ) -> str:
        """Substitute values for the fields.

        Parameters
        ----------
        values
            Value per name; others than `names` are ignored.
        quote
            Applied to each value, never to the literal text.
        missing
            Replaces a value that is missing.

        Raises
        ------
        UndefinedVariableError
            A value is missing, and `missing` is not given.
        ConfigError
            A value does not suit its format specification.
        """
        try:
            if self._order is None or (missing is not None and quote is not None):
                return self._pattern % tuple(self._written(values, quote, missing))
            if missing is not None:
                return self._pattern % tuple([values.get(name, missing) for name in self._order])
            if quote is None:
                return self._pattern % tuple([values[name] for name in self._order])
            return self._pattern % tuple([quote(str(values[name])) for name in self._order])
        except KeyError as error:
            raise UndefinedVariableError(f"'{{{error.args[0]}}}' has no value here", origin=self.origin) from None

    def _written(
        self, values: Mapping[str, object], quote: Callable[[str], str] | None, missing: str | None
    ) -> Iterator[str]:
        """Formatted and quoted text of each field, in order."""
        for variable in self._fields:
            if missing is not None and variable.name not in values:
                text = missing
            else:
                text = format_value(values[variable.name], variable, self.origin)
            yield quote(text) if quote else text


# Finds the quotation marks of a POSIX shell around each field of a line, by a scan.


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
