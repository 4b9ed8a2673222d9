"""Pipeline reader: YAML pipelines with their tables and imported files, as input for the task graph."""

from __future__ import annotations

import glob
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from longshore.app.acquire.find_files import find_file, read_file
from longshore.app.configure.configuration import Configuration
from longshore.app.payload.pipeline_imports import ImportReader, pipeline_node
from longshore.config.values.interpolate import Template, parts_text
from longshore.config.values.merge import Node
from longshore.config.values.quantities import parse_count
from longshore.config.values.search import Interpolator
from longshore.errors import ConfigError, PreparationError
from longshore.graph.declaration.description import FileKind, NeededFile
from longshore.graph.declaration.imports import substitute_parameters
from longshore.graph.declaration.pipeline_parts import PipelineKind, needed_files, pipeline_kind, select_tasks
from longshore.graph.pipeline.pipeline import DEFAULT_LIMIT, Pipeline, PipelineSettings, missing_files, read_pipeline
from longshore.graph.query.tables import Table, capture_values, captured_names, glob_pattern, parse_table
from longshore.origin import Origin
from longshore.world.read.yaml_file import read_yaml

_INLINE: Final = "pipeline"


def read_inline_pipeline(configuration: Configuration) -> tuple[Pipeline, tuple[Path, ...]]:
    """Return the pipeline written in the configuration itself, and the files of its tables.

    Raises `ConfigError`, `GraphError` or `FilesError` if the pipeline is wrong or a file is missing.
    """
    node = configuration.config.node_at(_INLINE)
    if node is None:
        raise ConfigError("'pipeline' must stand at the root", origin=configuration.origin(_INLINE))
    return _read_pipeline(configuration, node, _INLINE, configuration.path)


def read_pipeline_file(configuration: Configuration, key: str = "pipelineYaml") -> tuple[Pipeline, tuple[Path, ...]]:
    """Return the pipeline in the file that a key names, and all files that were read.

    ``FILE#LABEL,LABEL`` or ``FILE#BEGIN..END`` selects a part of it. Raises `ConfigError`, `GraphError` or
    `FilesError` if the pipeline is wrong or a file is missing.
    """
    origin = configuration.origin(key)
    name, marked, labels = configuration.text(key).partition("#")
    path = find_file(configuration, name, f"'{key}'", origin)
    names = [label.strip() for label in labels.split(",")] if marked else None
    pipeline, files = _read_pipeline(configuration, pipeline_node(read_yaml(path)), key, path, names)
    return pipeline, (path, *files)


def _read_pipeline(
    configuration: Configuration, node: Node, key: str, path: Path, names: list[str] | None = None
) -> tuple[Pipeline, tuple[Path, ...]]:
    """Return the pipeline, limited to labels if some are named, and the files it read beside its own."""
    imports = ImportReader(partial(_find_import, configuration))
    node = imports.join(node, path)
    if names is not None:
        node = select_tasks(node, names, configuration.origin(key))
    if pipeline_kind(node) is PipelineKind.LSST:
        raise PreparationError(
            f"'{key}' holds a pipeline of LSST's tasks, which can only be read from a file of its own",
            origin=node.origin,
            hint="Put it into one, and name that with 'pipelineYaml'.",
        )
    node = substitute_parameters(node)
    tables, read = _read_tables(configuration, node)
    folder = configuration.env["PWD"]
    limit = configuration.search("maxTasks")
    settings = PipelineSettings(
        query=configuration.text("dataQuery"),
        query_origin=configuration.origin("dataQuery"),
        limit=parse_count(limit, "maxTasks", configuration.origin("maxTasks"), least=1) if limit else DEFAULT_LIMIT,
        name=configuration.text("payloadName"),
        directory=folder,
        expand=lambda text, names: _template(configuration, text, names),
    )
    pipeline = read_pipeline(node, tables, settings)
    _refuse_missing(pipeline, folder)
    return pipeline, (*imports.files, *read)


def _find_import(configuration: Configuration, name: Node, folder: Path) -> Path:
    """Return the file of an imported pipeline: in the current directory, else beside the importing file."""
    written = parts_text(_template(configuration, name, frozenset()).parts)
    return find_file(configuration, written, "an import", name.origin, folder=folder)


def _read_tables(configuration: Configuration, node: Node) -> tuple[dict[str, Table], list[Path]]:
    """Return the tables that a pipeline needs, and their files."""
    tables: dict[str, Table] = {}
    read: list[Path] = []
    for needed in needed_files(node):
        if needed.kind is FileKind.TABLE:
            path = find_file(configuration, _expand_name(configuration, needed), "a table", needed.origin)
            text = _decode(read_file(path, needed.origin), path, needed.origin)
            tables[needed.name] = parse_table(text, Origin(str(path)))
            read.append(path)
        else:
            tables[needed.name] = _glob_table(configuration, needed)
    return tables, read


def _template(configuration: Configuration, text: Node, names: frozenset[str]) -> Template:
    """Return a template in which only the given names are still variables."""
    scope = replace(configuration.scope(), free=names)
    return Interpolator(configuration.config, scope).template(str(text.value), text.origin)


def _expand_name(configuration: Configuration, needed: NeededFile) -> str:
    """Return the name of a needed file with its variables replaced; undefined variables are captured."""
    free: frozenset[str] = frozenset()
    if needed.kind is FileKind.GLOB:
        free = frozenset(
            name
            for name in captured_names(needed.name)
            if configuration.config.lookup(name, configuration.scope()) is None
        )
    template = _template(configuration, Node(needed.name, needed.origin), free)
    return parts_text(template.parts)


def _glob_table(configuration: Configuration, needed: NeededFile) -> Table:
    pattern = _expand_name(configuration, needed)
    wanted = glob_pattern(pattern)
    for folder in dict.fromkeys(("", str(configuration.path.parent))):
        # Names of files are looked up in the current directory first.
        # `Path.glob` rejects patterns that begin at the root.
        paths = glob.glob(wanted, root_dir=folder or None, recursive=True, include_hidden=True)  # noqa: PTH207
        if paths:
            return capture_values(pattern, paths, needed.origin)
    return capture_values(pattern, (), needed.origin)


def _decode(content: bytes, path: Path, origin: Origin) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the table '{path}' is not UTF-8: {error.reason} at byte {error.start}", origin=origin
        ) from None


def _refuse_missing(pipeline: Pipeline, folder: str) -> None:
    paths = [path for external in pipeline.external for path in external.paths]
    absent = frozenset(path for path in paths if not Path(folder, path).exists())
    if error := missing_files(pipeline, absent):
        raise error
