"""Reads the tables of a pipeline's dimensions: named files, and globs matched against the disk."""

from __future__ import annotations

import glob
from pathlib import Path

from msgspec.structs import replace

from longshore.app.acquire.named_files import find_file, read_file
from longshore.app.configure.configuration import Configuration
from longshore.app.static_check import LeftOutError, StaticCheck
from longshore.config.interpolate import Interpolator
from longshore.config.merge import Node
from longshore.config.templates import Parts, Template, parts_text, plain_parts
from longshore.errors import FilesError, Origin, UndefinedVariableError
from longshore.graphs.declarations import FileKind, NeededFile, needed_files
from longshore.graphs.file_patterns import capture_values, captured_names, glob_pattern
from longshore.graphs.tables import Table, decode_table, parse_table
from longshore.model.wording import did_you_mean, quote_value


class TableUnreadableError(FilesError):
    """A table of a pipeline is missing or cannot be read."""


def read_tables(
    configuration: Configuration, node: Node, static: StaticCheck | None = None
) -> tuple[dict[str, Table], list[Path]]:
    """Return the tables that a pipeline needs, and their files; `static` limits a static check."""
    tables: dict[str, Table] = {}
    read: list[Path] = []
    for needed in needed_files(node):
        if needed.kind is FileKind.TABLE:
            name = parts_text(_expand_name(configuration, needed))
            try:
                path, text = _read_text(configuration, name, needed.origin, static)
            except FilesError as error:
                raise TableUnreadableError(error.message, origin=error.origin, hint=error.hint) from error
            tables[needed.key] = parse_table(text, Origin(str(path)), needed.comment)
            read.append(path)
        else:
            tables[needed.key] = _glob_table(configuration, needed, static)
    return tables, read


def _read_text(configuration: Configuration, name: str, origin: Origin, static: StaticCheck | None) -> tuple[Path, str]:
    """Return the path of a table and its text."""
    path = find_file(configuration, name, "a table", origin)
    if static is not None and path.stat().st_size > static.max_bytes:
        raise LeftOutError(f"the tasks by the values in '{path}', which is large, and their jobs")
    return path, decode_table(read_file(path, origin), str(path))


def _glob_table(configuration: Configuration, needed: NeededFile, static: StaticCheck | None) -> Table:
    pattern = _expand_name(configuration, needed)
    wanted = glob_pattern(pattern)
    for folder in dict.fromkeys(("", str(configuration.path.parent))):
        # Names of files are looked up in the current directory first.
        # `Path.glob` rejects patterns that begin at the root.
        paths = glob.glob(wanted, root_dir=folder or None, recursive=True, include_hidden=True)  # noqa: PTH207
        if paths:
            return capture_values(pattern, paths, needed.origin)
    if static is not None:
        shown = quote_value(parts_text(pattern))
        raise LeftOutError(f"the tasks by the files that match {shown}, and their jobs: no file does")
    return capture_values(pattern, (), needed.origin)


def _expand_name(configuration: Configuration, needed: NeededFile) -> Parts:
    """Return the name of a needed file with its variables replaced; undefined variables are captured."""
    free: frozenset[str] = frozenset()
    if needed.kind is FileKind.GLOB:
        free = frozenset(
            name
            for name in captured_names(needed.name)
            if configuration.config.lookup(name, configuration.scope()) is None
        )
    return _interpolate(configuration, Node(needed.name, needed.origin), free)


def make_template(configuration: Configuration, text: Node, names: frozenset[str]) -> Template:
    """Return a template in which only the given names are still variables.

    Raises `UndefinedVariableError` for a name that nothing defines: left out, it would give paths nobody meant.
    """
    return Template(plain_parts(_interpolate(configuration, text, names)), text.origin)


def _interpolate(configuration: Configuration, text: Node, names: frozenset[str]) -> Parts:
    def undefined(name: str, origin: Origin | None) -> str:
        raise UndefinedVariableError(
            f"{quote_value(str(text.value))} uses '{{{name}}}', which nothing defines",
            origin=origin,
            hint=did_you_mean(name, {*names, *configuration.config.names(scope)})
            or "It may be a dimension of the pipeline, or a key of the configuration.",
        )

    scope = replace(configuration.scope(), free=names, undefined=undefined)
    return Interpolator(configuration.config, scope).parts(str(text.value), text.origin)
