"""Reads YAML files with their includes (``includeConfigs``, ``!include``) into layers; refuses include cycles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from longshore.config.lint import add_intended_keys
from longshore.config.merge import Layer, LayerRank, Node, nest
from longshore.config.schema import Finding
from longshore.config.templates import expand_env
from longshore.config.yaml_text import MAX_DEPTH, MAX_NODES, SizedTree, read_document
from longshore.errors import ConfigError, Origin
from longshore.model.wording import quote_value

_INCLUDE_KEY: Final = "includeConfigs"
_MAX_INCLUDES: Final = 10_000
_MAX_FILE_B: Final = 16 * 1024 * 1024


class SourceFile(msgspec.Struct, frozen=True):
    """A file that took part in a configuration, with its state when it was read.

    `notes` holds warnings about the text for its author; a duplicate key is among them, as an error.
    """

    path: Path
    content: bytes
    notes: tuple[Finding, ...] = ()


class LoadedLayers(msgspec.Struct, frozen=True):
    """The layers of a file and its includes.

    `layers` is ordered weakest first: includes, then the file itself, all of one rank. `files` lists every file that
    was read, in reading order.
    """

    layers: tuple[Layer, ...]
    files: tuple[SourceFile, ...]


def read_yaml(path: Path, *, rank: LayerRank = LayerRank.FILE) -> Node:
    """Read one file and its ``!include`` files; ``includeConfigs`` stays unresolved.

    Raises `ConfigError` when it is unreadable, no YAML, or does not hold a map.
    """
    return _IncludeReader(rank=rank, env={}, cwd=Path(), strict=True).root(path, None)


def load_layers(
    path: Path, *, env: Mapping[str, str], rank: LayerRank = LayerRank.FILE, cwd: Path = Path()
) -> LoadedLayers:
    """Read a file and all its includes as layers.

    A file's own values win over its includes, and later includes over earlier ones. Included files are looked up in
    `cwd` first, then in the directory of the including file; `env` replaces variables in their names. A duplicate key
    is a note of its file (see `SourceFile`), no error, so that all of them can be reported.

    Raises `ConfigError` when a file is unreadable, no YAML, holds no map, or includes itself.
    """
    reader = _IncludeReader(rank=rank, env=env, cwd=cwd)
    layers = tuple(reader.layers(path, None, (), ()))
    return LoadedLayers(layers, tuple(reader.files.values()))


_BINARY: Final = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\0.\0", re.DOTALL)
"""Bytes of files that are no text."""


class _IncludeDirective(msgspec.Struct, frozen=True):
    """An ``includeConfigs`` and its section."""

    section: tuple[str, ...]
    names: tuple[Node, ...]


class _IncludeReader:
    """Reads each file once, and resolves its includes."""

    def __init__(self, *, rank: LayerRank, env: Mapping[str, str], cwd: Path, strict: bool = False) -> None:
        self.rank = rank
        self.strict = strict
        self.env = env
        self.cwd = cwd
        self.files: dict[Path, SourceFile] = {}
        self._documents: dict[Path, SizedTree] = {}
        self._reading: list[Path] = []
        self._includes = 0
        self._size = 0

    def root(self, path: Path, origin: Origin | None) -> Node:
        """Read the map in a file."""
        node = self._read_document(path, origin, 0).node
        if node.value is None:
            return Node({}, node.origin)
        if not isinstance(node.value, dict):
            raise ConfigError(
                "a configuration file must hold keys with values at its top",
                origin=node.origin,
                hint="For example 'key: 1'.",
            )
        return node

    def _read_document(self, path: Path, origin: Origin | None, depth: int) -> SizedTree:
        """Parse a file that is included at the nesting depth `depth`."""
        identity = _canonical_path(path)
        if identity in self._reading:
            raise _include_cycle_error([*self._reading, identity], origin)
        if identity not in self._documents:
            text = self._read_text(path, identity, origin)
            notes: list[Finding] | None = None if self.strict else []
            self._reading.append(identity)
            self._documents[identity] = read_document(
                text, str(path), self.rank.label, include=self._read_include_tag, depth=depth, notes=notes
            )
            self._reading.pop()
            if notes:
                self.files[identity] = msgspec.structs.replace(self.files[identity], notes=tuple(notes))
        found = self._documents[identity]
        self._size += found.size
        if self._size > MAX_NODES:
            raise ConfigError(f"included files make more than {MAX_NODES:,} values", origin=origin)
        return found

    def _read_text(self, path: Path, identity: Path, origin: Origin | None) -> str:
        try:
            if not path.exists():
                raise ConfigError(f"there is no file {quote_value(path, 200)}", origin=origin)
            if not path.is_file():
                kind = "a file but a directory" if path.is_dir() else "a file"
                raise ConfigError(f"{quote_value(path, 200)} is not {kind}", origin=origin)
            if path.stat().st_size > _MAX_FILE_B:
                raise ConfigError(
                    f"{quote_value(path, 200)} is larger than {_MAX_FILE_B // 1024**2} MiB", origin=origin
                )
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{quote_value(path, 200)} cannot be read: {error.strerror}", origin=origin) from error
        self.files[identity] = SourceFile(path, content)
        return _decode(content, Origin(str(path), 1, 1, self.rank.label))

    def layers(
        self, path: Path, origin: Origin | None, section: tuple[str, ...], chain: tuple[Path, ...]
    ) -> Iterator[Layer]:
        """Read the layers of a file that is included in a section, weakest first."""
        identity = _canonical_path(path)
        if identity in chain:
            raise _include_cycle_error([*chain, identity], origin)
        if len(chain) >= MAX_DEPTH or len(section) >= MAX_DEPTH:
            raise ConfigError(f"files include each other more than {MAX_DEPTH} deep", origin=origin)
        directives: list[_IncludeDirective] = []
        own_values = _split_includes(self.root(path, origin), (), directives)
        # The first directive of a file wins over the others: BPS handles them in this order and never overwrites.
        for directive in reversed(directives):
            for name in directive.names:
                yield from self.layers(
                    self._find_include(name), name.origin, section + directive.section, (*chain, identity)
                )
        yield Layer(str(path), self.rank, add_intended_keys(nest(own_values, section)))

    def _find_include(self, name: Node) -> Path:
        """Find the file that an include names."""
        file_name = self._included_name(name, f"'{_INCLUDE_KEY}' must name a file or a list of files")
        # `/` keeps an absolute path as it is.
        candidates = [self.cwd / file_name, Path(name.origin.file).parent / file_name]
        try:
            for candidate in candidates:
                if candidate.exists():
                    return candidate
        except OSError as error:
            raise ConfigError(
                f"{quote_value(file_name, 200)} cannot be read: {error.strerror}", origin=name.origin
            ) from error
        searched = dict.fromkeys(candidate.absolute() for candidate in candidates)
        raise ConfigError(
            f"the included file {quote_value(file_name, 200)} does not exist",
            origin=name.origin,
            hint=f"Searched: {' and '.join(quote_value(path, 200) for path in searched)}.",
        )

    def _read_include_tag(self, name: Node, depth: int) -> SizedTree:
        """Read the file of an ``!include``, relative to the file that contains it."""
        file_name = self._included_name(name, "'!include' must name a file")
        return self._read_document(Path(name.origin.file).parent / file_name, name.origin, depth)

    def _included_name(self, name: Node, complaint: str) -> Path:
        """Expand and count the name of an included file."""
        if not name.has_text or not name.text or "\0" in name.text:
            raise ConfigError(complaint, origin=name.origin)
        self._includes += 1
        if self._includes > _MAX_INCLUDES:
            raise ConfigError(f"more than {_MAX_INCLUDES:,} files are included", origin=name.origin)
        return Path(expand_env(name.text, self.env))


def _canonical_path(path: Path) -> Path:
    """Return one canonical path for all spellings of it."""
    # Not `Path.resolve`: until Python 3.13 that fails for circular links.
    return Path(os.path.realpath(path))


def _include_cycle_error(files: list[Path], origin: Origin | None) -> ConfigError:
    chain = files[files.index(files[-1]) :]
    return ConfigError(
        f"the file {quote_value(chain[-1], 200)} includes itself: "
        + " -> ".join(quote_value(each.name) for each in chain),
        origin=origin,
    )


def _split_includes(node: Node, section: tuple[str, ...], directives: list[_IncludeDirective]) -> Node:
    """Remove ``includeConfigs`` at every level; append them to the directives, in document order."""
    if not isinstance(node.value, dict):
        return node
    values: dict[str, Node] = {}
    for key, item in node.value.items():
        if key == _INCLUDE_KEY:
            if item.value is not None:
                names = item.value if isinstance(item.value, list) else [item]
                directives.append(_IncludeDirective(section, tuple(names)))
        else:
            values[key] = _split_includes(item, (*section, key), directives)
    return Node(values, node.origin, node.replaced_node)


def _decode(content: bytes, origin: Origin) -> str:
    """Decode a file's text."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        hint = "It seems to be UTF-16. Save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW."
        raise ConfigError("the file is not UTF-8 text", origin=origin, hint=hint)
    # A single NUL in a text is told with its place by the parser.
    if b"\0" in content[:4096] and _BINARY.search(content[:4096]):
        raise ConfigError("the file is not UTF-8 text", origin=origin, hint="Save it as UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        place = Origin(origin.file, before.count("\n") + 1, len(before) - before.rfind("\n"), origin.layer)
        raise ConfigError(
            f"the file is not UTF-8 text: it has the byte {content[error.start]:#04x}",
            origin=place,
            hint="Save it as UTF-8. If it is LATIN1: iconv -f LATIN1 -t UTF-8 FILE > NEW.",
        ) from error
