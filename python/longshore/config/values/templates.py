"""Parses ``{name}``, ``${NAME}`` and ``<ENV:NAME>`` in text, and substitutes values for these variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from longshore.errors import ConfigError, UndefinedVariableError
from longshore.model.wording import quote_value
from longshore.origin import Origin

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


def substitute_values(text: str, values: Mapping[str, object], origin: Origin | None = None) -> str:
    """Replace the fields that have a value; leave the rest of the text as written."""
    if "{" not in text:
        return text
    return "".join(
        format_value(values[part.name], part, origin) if isinstance(part, Field) and part.name in values else written
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


def format_value(value: object, variable: Field, origin: Origin | None = None) -> str:
    """Format a value by the format specification of its field.

    Raises
    ------
    ConfigError
        The format specification does not suit the value.
    """
    if not variable.spec:
        return str(value)
    # A format width of nine digits would take gigabytes.
    if not _LONG_NUMBER.search(variable.spec):
        try:
            return format(value, variable.spec)
        except (ValueError, TypeError):
            pass
    raise ConfigError(
        f"'{variable}' cannot write the value {quote_value(value)}: '{variable.spec[:40]}' is not a format for it",
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
