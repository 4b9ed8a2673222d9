"""The text of YAML files: its parse into values with lines and columns, and what is wrong or surprising in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from datetime import date
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from longshore.config.merge import LayerRank, Marker, Node, YamlScalar, plain_value
from longshore.config.quantities import parse_walltime
from longshore.config.schema import Finding, Severity
from longshore.errors import ConfigError, LongshoreError, Origin
from longshore.model.values import number_of
from longshore.model.wording import invisible_character, quote_value, visible_text

# Detects what surprises in YAML text, and what was likely meant: characters that look like others or like nothing, and
# a comment that ends a command.


_COMMAND_KEY = re.compile(r"command|cmd|^(setup|launcher)$", re.IGNORECASE)
"""Keys of shell text."""
_COMMENT = re.compile(r"[ \t]+#")
ODD_BLANKS: Final = {
    "\u00a0": "a no-break space (U+00A0)",
    "\u202f": "a narrow no-break space (U+202F)",
    "\u3000": "an ideographic space (U+3000)",
    **{chr(code): f"a special blank (U+{code:04X})" for code in (0x1680, *range(0x2000, 0x200B), 0x205F)},
}
"""Blanks that YAML and shells take for letters."""
_TYPOGRAPHIC: Final = "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"
"""Quotation marks that quote nothing."""
_NO_ORIGIN: Final = Origin("")


def check_key_signs(key: str) -> tuple[str, str]:
    """What is wrong with the characters of an unquoted key, and the way out; empty if nothing is."""
    if key.isascii():
        return "", ""
    if key[0] in ODD_BLANKS:
        return f"the line begins with {ODD_BLANKS[key[0]]}, which YAML takes for a letter", "Indent with spaces."
    if sign := invisible_character(key):
        return f"the key {quote_value(visible_text(key))} has an invisible character ({sign})", "Delete it."
    if key[-1] in ODD_BLANKS:
        return f"the key {quote_value(key)} ends with {ODD_BLANKS[key[-1]]}", "Delete it."
    if key[0] in _TYPOGRAPHIC:
        return f"the key {quote_value(key)} has typographic quotation marks", "Write \" or ', or none."
    return "", ""


def check_signs(text: str, key: str, *, quoted: bool) -> Finding | None:
    """Finding for characters of a value that look like others or like nothing, without a place."""
    if not text or text.isascii():
        return None
    if sign := invisible_character(text):
        return _finding(f"the value of '{key}' has an invisible character ({sign})", "Delete it if it is not meant.")
    is_command = bool(_COMMAND_KEY.search(key))
    searched = text if is_command else "" if quoted else text[0] + text[-1]
    blank = next((sign for sign in searched if sign in ODD_BLANKS), "")
    if blank:
        verb = "has" if is_command else "begins or ends with"
        return _finding(
            f"the value of '{key}' {verb} {ODD_BLANKS[blank]}, which is no blank to shells and YAML",
            "Write a plain space.",
        )
    marks = "".join(dict.fromkeys(sign for sign in text if sign in _TYPOGRAPHIC))
    if marks and (is_command or (not quoted and text[0] in _TYPOGRAPHIC and text[-1] in _TYPOGRAPHIC)):
        return _finding(
            f"the value of '{key}' has typographic quotation marks ({marks}), which quote nothing",
            "Write \" or '.",
        )
    return None


def check_comment(key: str, behind: str) -> Finding | None:
    """Note for an unquoted command with a comment behind it, without a place; `behind` is the rest of its line."""
    if not _COMMENT.match(behind) or not _COMMAND_KEY.search(key):
        return None
    return Finding(
        message=f"'{key}' ends here: ' #' begins a comment, which is no part of it",
        origin=_NO_ORIGIN,
        hint="Quote the whole text if the rest belongs to it.",
        severity=Severity.NOTE,
    )


def _finding(message: str, hint: str) -> Finding:
    return Finding(message=message, origin=_NO_ORIGIN, hint=hint, severity=Severity.WARNING)


# Explains why a text is no YAML: by indentation, brackets, quotation marks, tabs and unquoted placeholders.


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


# YAML parser: one document's text becomes a tree of values with lines and columns.


try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # pragma: no cover - PyYAML without libyaml reads the same, only slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

MAX_DEPTH: Final = 100
_TOO_DEEP: Final = f"values are nested more than {MAX_DEPTH} deep"
MAX_NODES: Final = 500_000
"""Maximum of values in a document with aliases expanded: nine lines of aliases can expand to billions."""

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset({"yes", "true", "on"})
_BOOLEAN = re.compile(r"yes|no|true|false|on|off", re.IGNORECASE)
_TIME = re.compile(
    r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9:.Zz +-]+"
)
_NUMBER_SIGNS: Final = frozenset("+-.0123456789")
_SPECIAL_FLOATS: Final = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}


class SizedTree(msgspec.Struct, frozen=True, gc=False):
    """A tree, its number of values (each alias counts as its expansion), and its depth."""

    node: Node
    size: int = 1
    height: int = 0


Include: TypeAlias = Callable[[Node, int], SizedTree]
"""Resolves ``!include``: takes the node with the file's name and the nesting depth."""


def refuse_include(name: Node, _depth: int) -> SizedTree:
    """Refuse every ``!include``."""
    raise ConfigError("'!include' can only be used in a file", origin=name.origin)


def read_document(
    text: str,
    name: str,
    layer: str = "",
    *,
    include: Include = refuse_include,
    depth: int = 0,
    notes: list[Finding] | None = None,
) -> SizedTree:
    """Parse a document into a tree; an empty one becomes null.

    `name` and `layer` go into origins and errors. `depth` is the document's own nesting depth in others. `notes`
    collects warnings about the text, and duplicate keys, whose last value then counts; without `notes` a duplicate key
    is an error.

    Raises `ConfigError` when the text is no YAML, has a duplicate key or an unknown tag, or is too deep or too large.
    """
    place = Origin(name, 1, 1, layer)
    try:
        top = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, place) from error
    except yaml.reader.ReaderError as error:
        raise _character_error(error, text, place) from error
    except UnicodeEncodeError as error:
        raise ConfigError("the text is not Unicode", origin=place, hint="Write it in UTF-8.") from error
    except _LimitError as error:
        mark = error.mark
        raise ConfigError(str(error), origin=Origin(name, mark.line + 1, mark.column + 1, layer)) from error
    if top is None:
        return SizedTree(Node(None, place))
    return _TreeBuilder(name, layer, include, notes, text).build(top, depth)


KeyPlaces: TypeAlias = dict[tuple[int, int, str], tuple[int, int]]
"""Line and column of a key, by line and column of its value and its own name; all count from 1."""


def key_places(text: str) -> KeyPlaces:
    """Find the position of each key in a valid document; anchors, tags and comments may separate it from its value."""
    places: KeyPlaces = {}
    for node in compose_nodes(text):
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                mark = value.start_mark
                place = (key.start_mark.line + 1, key.start_mark.column + 1)
                places.setdefault((mark.line + 1, mark.column + 1, key.value), place)
    return places


def compose_nodes(text: str) -> Iterator[yaml.Node]:
    """Compose a valid document, and yield each of its values once, with its marks; keys are left out."""
    seen: set[int] = set()
    stack = [yaml.compose(text, Loader=_Loader)]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.SequenceNode):
            stack += node.value
        elif isinstance(node, yaml.MappingNode):
            stack += [value for _, value in node.value]


class _LimitError(Exception):
    """The document is deeper or larger than allowed."""

    def __init__(self, message: str, mark: yaml.Mark) -> None:
        super().__init__(message)
        self.mark = mark


class _Loader(_SafeLoader):
    """Loader that limits size and depth; PyYAML's composer is recursive and has no limit."""

    depth = 0
    count = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        self.depth += 1
        self.count += 1
        if current_node is not None and self.depth > MAX_DEPTH:
            raise _LimitError(_TOO_DEEP, current_node.start_mark)
        if current_node is not None and self.count > MAX_NODES:
            raise _LimitError(f"there are more than {MAX_NODES:,} values", current_node.start_mark)

    def ascend_resolver(self) -> None:
        self.depth -= 1


class _TreeBuilder:
    """Converts PyYAML's nodes to ours."""

    def __init__(self, name: str, layer: str, include: Include, notes: list[Finding] | None, text: str) -> None:
        self.name = name
        self.layer = layer
        self.include = include
        self.notes = notes
        self.text = text
        self._lines: list[str] | None = None
        self._built: dict[int, SizedTree] = {}
        self._open: set[int] = set()

    def origin(self, node: yaml.Node) -> Origin:
        """Return the position of a node."""
        return Origin(self.name, node.start_mark.line + 1, node.start_mark.column + 1, self.layer)

    def build(self, node: yaml.Node, depth: int, key: str = "") -> SizedTree:
        """Build the tree of a node; items of a list have the key of the list."""
        if node.tag == "!include":
            name = Node(node.value if isinstance(node, yaml.ScalarNode) else None, self.origin(node))
            # An included file counts as a level even when it adds none, which bounds chains of includes.
            return self._check_depth(self.include(name, depth + 1), node, depth)
        if isinstance(node, yaml.ScalarNode):
            value, written = self._parse_scalar(node)
            if self.notes is not None:
                self._note_traps(node, key)
            return SizedTree(Node(value, self.origin(node), written=written))
        # PyYAML reuses the node for each alias: it is built once, but counted at each use.
        if id(node) in self._built:
            return self._check_depth(self._built[id(node)], node, depth)
        if id(node) in self._open:
            raise ConfigError("an alias stands for something that it is a part of", origin=self.origin(node))
        self._check_depth(SizedTree(Node(None, self.origin(node))), node, depth)
        self._open.add(id(node))
        built = (
            self._build_map(node, depth) if isinstance(node, yaml.MappingNode) else self._build_list(node, depth, key)
        )
        if built.size > MAX_NODES:
            raise ConfigError(f"aliases make more than {MAX_NODES:,} values of this", origin=self.origin(node))
        self._open.remove(id(node))
        self._built[id(node)] = built
        return built

    def _check_depth(self, built: SizedTree, node: yaml.Node, depth: int) -> SizedTree:
        if depth + built.height > MAX_DEPTH:
            raise ConfigError(_TOO_DEEP, origin=self.origin(node))
        return built

    def _note_traps(self, node: yaml.ScalarNode, key: str) -> None:
        """Note what surprises in a scalar."""
        assert self.notes is not None
        traps = [check_signs(node.value, key, quoted=bool(node.style))]
        if not node.style:
            traps.append(check_comment(key, self._behind(node.end_mark)))
        self.notes += [msgspec.structs.replace(trap, origin=self.origin(node)) for trap in traps if trap]

    def _behind(self, mark: yaml.Mark) -> str:
        """Return the rest of a line."""
        if self._lines is None:
            self._lines = LINE_END.split(self.text)
        return self._lines[mark.line][mark.column :] if mark.line < len(self._lines) else ""

    def _build_list(self, node: yaml.Node, depth: int, key: str) -> SizedTree:
        if node.tag != f"{_TAG}seq":
            raise self._unknown_tag(node)
        items = [self.build(item, depth + 1, key) for item in node.value]
        for item in items:
            if item.node.value is Marker.DELETE:
                raise ConfigError("'!delete' can only be the value of a key", origin=item.node.origin)
        return _make_collection(Node([item.node for item in items], self.origin(node)), items)

    def _build_map(self, node: yaml.Node, depth: int) -> SizedTree:
        if node.tag != f"{_TAG}map":
            raise self._unknown_tag(node)
        entries: dict[str, SizedTree] = {}
        first: dict[str, yaml.Node] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError("a key must be text, not a list or map", origin=self.origin(key))
            # Keys are the text as written: `no: 1` and `010: 1` have the keys 'no' and '010'.
            name = key.value
            if not key.style:
                message, hint = check_key_signs(name)
                if message:
                    raise ConfigError(message, origin=self.origin(key), hint=hint)
            if name in first:
                self._report_duplicate_key(key, first[name])
            first[name] = key
            entries[name] = self.build(value, depth + 1, name)
        items = self._merge_maps(merged, entries, depth) if merged else entries
        return _make_collection(
            Node({name: item.node for name, item in items.items()}, self.origin(node)), items.values()
        )

    def _report_duplicate_key(self, key: yaml.Node, first: yaml.Node) -> None:
        message = f"the key {quote_value(key.value)} is given twice"
        hint = f"It was given first at {self.origin(first)}; remove one of the two."
        if self.notes is None:
            raise ConfigError(message, origin=self.origin(key), hint=hint)
        self.notes.append(Finding(message=message, origin=self.origin(key), hint=hint))

    def _merge_maps(self, sources: list[yaml.Node], entries: dict[str, SizedTree], depth: int) -> dict[str, SizedTree]:
        """Merge the maps listed under ``<<``; among several maps, the first wins."""
        merged_entries: dict[str, SizedTree] = {}
        for source in reversed(sources):
            built = self.build(source, depth + 1)
            if not isinstance(built.node.value, dict):
                raise ConfigError("'<<' can only take in maps", origin=self.origin(source))
            # Size and depth of the parts of an alias are not kept; those of the whole are a safe upper bound.
            merged_entries |= {
                name: SizedTree(item, built.size, built.height) for name, item in built.node.value.items()
            }
        return merged_entries | entries

    def _parse_scalar(self, node: yaml.ScalarNode) -> tuple[YamlScalar | Marker, str]:
        """The value of a scalar, and its text where it is no quoted text and Python writes the value otherwise."""
        text: str = node.value
        if "\0" in text:
            raise ConfigError(
                "the text has the null character, which no path, command or variable can have",
                origin=self.origin(node),
            )
        kind = node.tag.removeprefix(_TAG)
        value: YamlScalar
        match kind:
            case "str" | "timestamp" | "value" | "merge":
                return _read_word(text) if text[:1] in _NUMBER_SIGNS and self._is_plain(node) else (text, "")
            case "null":
                return None, ""
            case "bool" if _BOOLEAN.fullmatch(text):
                return text.lower() in _TRUE, text if self._is_plain(node) else ""
            case "int" | "float" if self._is_plain(node):
                return _read_word(text)
            case "int" | "float":
                value = _read_tagged(text, kind)
                if value is not None:
                    return value, ""
            case "!delete":
                return Marker.DELETE, ""
        if kind in {"bool", "int", "float"}:
            raise ConfigError(f"{quote_value(text)} cannot be read as '{kind}'", origin=self.origin(node))
        raise self._unknown_tag(node)

    def _is_plain(self, node: yaml.ScalarNode) -> bool:
        """Whether a scalar has neither quotation marks nor a tag: these say what type it has."""
        start, end = node.start_mark.index, node.end_mark.index - len(node.value)
        return not node.style and (start == end or "!" not in self.text[start:end])

    def _unknown_tag(self, node: yaml.Node) -> ConfigError:
        tag = node.tag.replace(_TAG, "!!", 1)
        return ConfigError(
            f"the tag {quote_value(tag)} is not known here",
            origin=self.origin(node),
            hint="Known are '!include FILE' and, as the value of a key, '!delete'.",
        )


def _make_collection(node: Node, items: Collection[SizedTree]) -> SizedTree:
    """Make a list or map with the size and depth of its items."""
    height = 1 + max((item.height for item in items), default=0)
    return SizedTree(node, 1 + sum(item.size for item in items), height)


def _read_word(text: str) -> tuple[YamlScalar, str]:
    """The value of an unquoted word that begins like a number, and its text if that is not how Python writes it."""
    value: YamlScalar = number_of(text)
    if value is None:
        special = _SPECIAL_FLOATS.get(text.lower())
        # A time such as 1:30 is the text that was written; only BPS has another value for it.
        return (float(special), text) if special else (text, text if _TIME.fullmatch(text) else "")
    return value, "" if str(value) == text else text


def _read_tagged(text: str, kind: str) -> YamlScalar:
    """The number that the tag of a text asks for; ``None`` if it is none, and the text of a time."""
    value, _ = _read_word(text)
    if kind == "float" and isinstance(value, int):
        return float(value)
    return value if isinstance(value, int if kind == "int" else float) or _TIME.fullmatch(text) else None


class _Dumper(yaml.SafeDumper):
    """Writes plain values, and words as they are."""


class _Word(str):
    """A word that YAML reads as a number or a truth value."""

    __slots__ = ()


def _write_word(dumper: yaml.SafeDumper, word: _Word) -> yaml.ScalarNode:
    text = str(word)
    tag: str = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return dumper.represent_scalar(tag, text)


_Dumper.add_representer(_Word, _write_word)


def dump_tree(node: Node, **options: Any) -> str:
    """Write a tree as YAML, with numbers and truth values as they were written; `options` are those of PyYAML."""
    text: str = yaml.dump(_words_of(node), Dumper=_Dumper, sort_keys=False, **options)
    return text


def _words_of(node: Node) -> object:
    if isinstance(node.value, dict):
        return {key: _words_of(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [_words_of(item) for item in node.value]
    return _Word(node.written) if node.written else plain_value(node)


def read_as_bps(node: Node) -> Node:
    """The tree with the values that BPS reads, by YAML 1.1: ``010`` is 8, ``1.10`` is 1.1, and ``1:30`` is 90."""
    if isinstance(node.value, dict):
        return msgspec.structs.replace(node, value={key: read_as_bps(item) for key, item in node.value.items()})
    if isinstance(node.value, list):
        return msgspec.structs.replace(node, value=[read_as_bps(item) for item in node.value])
    return msgspec.structs.replace(node, value=_value_of_bps(node.written), written="") if node.written else node


def _value_of_bps(text: str) -> YamlScalar:
    """The value of an unquoted word by YAML 1.1."""
    try:
        value = yaml.load(text, Loader=_SafeLoader)
    except (ValueError, yaml.YAMLError):
        return text
    return str(value) if isinstance(value, date) else value if isinstance(value, bool | int | float) else text


def note_values_of_bps(
    node: Node, takes_value: Callable[[tuple[str, ...]], bool], path: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A warning for each unquoted word whose text is not the value that BPS, and a run of BPS here, has for it.

    `takes_value` tells of a path of keys whether its value is a number or a truth value anyway.
    """
    if isinstance(node.value, dict):
        for key, item in node.value.items():
            yield from note_values_of_bps(item, takes_value, (*path, key))
    elif isinstance(node.value, list):
        for item in node.value:
            yield from note_values_of_bps(item, takes_value, path)
    elif node.written and (value := _value_of_bps(node.written)) is not None:
        text = node.written
        if str(value) == text or (isinstance(value, bool) and text.lower() in {"true", "false"}):
            return
        if takes_value(path) and _is_same_amount(node, value):
            return
        hint = f'Quote it if the text is meant: "{text}".'
        if isinstance(value, bool):
            hint = f'Write {str(value).lower()}, or quote it if the word is meant: "{text}".'
        elif node.value != value and isinstance(node.value, int):
            hint = f'Write {node.value} for the decimal number, {value} for this one, or quote it: "{text}".'
        yield Finding(
            message=f"'{text}' is {str(value).lower() if isinstance(value, bool) else value} here, as BPS reads it "
            "by YAML 1.1",
            origin=node.origin,
            hint=hint,
            severity=Severity.WARNING,
        )


def _is_same_amount(node: Node, value: YamlScalar) -> bool:
    """Whether a word means to BPS what it means to Longshore, where a number or a time is asked for."""
    if not isinstance(node.value, str):
        return node.value == value
    try:
        return parse_walltime(node.value, "", node.origin) == value
    except ConfigError:
        return False


def _syntax_error(error: yaml.MarkedYAMLError, text: str, place: Origin) -> ConfigError:
    found = explain_syntax_error(error, text)
    origin = Origin(place.file, found.line + 1, found.column + 1, place.layer)
    if "maximum nesting depth" in (error.problem or ""):
        # libyaml 0.2.6 has a limit of its own, which is above ours, and meets it before a node is made.
        return ConfigError(_TOO_DEEP, origin=origin)
    return ConfigError(f"this is not YAML: {found.message}", origin=origin, hint=found.hint)


def _character_error(error: yaml.reader.ReaderError, text: str, place: Origin) -> ConfigError:
    # libyaml counts bytes, and the pure reader characters.
    before = text.encode()[: error.position].decode(errors="replace")
    column = len(before) - (before.rfind("\n") + 1) + 1
    code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
    origin = Origin(place.file, before.count("\n") + 1, column, place.layer)
    if code == 0:
        return ConfigError("this is not text: it has the character NUL", origin=origin, hint="Delete it.")
    return ConfigError(
        f"this is not text: {error.reason[:100]} (character {code:#x})", origin=origin, hint="Delete the character."
    )


def parse_yaml(text: str, name: str, *, rank: LayerRank = LayerRank.FILE) -> Node:
    """Parse a text as YAML; an empty one becomes null. Raises `ConfigError` when it is no YAML."""
    return read_document(text, name, rank.label).node


# Finds the place in a YAML file of a value's key, or of a character of its text.


def locate_error(error: LongshoreError, text: str, file: str) -> None:
    """Move an error from values in a file of a given text to the parts that it is about."""
    error.details = tuple(
        msgspec.structs.replace(detail, origin=_part_origin(detail.origin, detail.part, text, file))
        for detail in error.details
    )
    error.origin = _part_origin(error.origin, error.part, text, file)


def _part_origin(origin: Origin | None, part: str | int | None, text: str, file: str) -> Origin | None:
    if origin is None or part is None or origin.file != file:
        return origin
    place = (
        key_places(text).get((origin.line, origin.column, part))
        if isinstance(part, str)
        else find_character(text, origin.line, origin.column, part)
    )
    return origin if place is None else msgspec.structs.replace(origin, line=place[0], column=place[1])


def find_character(text: str, line: int, column: int, index: int) -> tuple[int, int] | None:
    """Find the line and column of a character in the text of a value.

    `line` and `column` are those of the value in a valid document, and count from 1. Only texts on one line without
    escapes, and literal blocks have their characters where they can be found; ``None`` for others.
    """
    node = next(_scalars_at(text, line - 1, column - 1), None)
    if node is None or not 0 <= index < len(node.value):
        return None
    lines = LINE_END.split(text)
    if node.style == ">":
        return None
    if node.style != "|":
        start = lines[line - 1].find(node.value, column - 1)
        return None if start < 0 else (line, start + index + 1)
    number = node.value.count("\n", 0, index)
    in_line = index - (node.value.rfind("\n", 0, index) + 1)
    wanted = node.value.split("\n")[number]
    # The text of a block begins below its indicator.
    written = lines[line + number] if line + number < len(lines) else ""
    indent = len(written) - len(wanted)
    if indent < 0 or written != " " * indent + wanted:
        return None
    return line + number + 1, indent + in_line + 1


def _scalars_at(text: str, line: int, column: int) -> Iterator[yaml.ScalarNode]:
    for node in compose_nodes(text):
        if isinstance(node, yaml.ScalarNode) and (node.start_mark.line, node.start_mark.column) == (line, column):
            yield node
