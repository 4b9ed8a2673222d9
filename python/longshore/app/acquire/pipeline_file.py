"""Pipeline reader: YAML pipelines with their tables and imported files, as input for the task graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from longshore.app.acquire.configured_commands import command_context
from longshore.app.acquire.dimension_tables import make_template, read_tables
from longshore.app.acquire.named_files import find_file
from longshore.app.configure.configuration import Configuration
from longshore.app.payload.pipeline_imports import ImportReader, pipeline_node
from longshore.app.static_check import StaticCheck
from longshore.config.merge import Node, map_items
from longshore.config.profile import REQUEST_KEYS
from longshore.config.quantities import parse_count
from longshore.config.templates import column_names, parts_text
from longshore.contract.service import Problem
from longshore.errors import ConfigError, FilesError, PreparationError
from longshore.graphs.declarations import PipelineKind, pipeline_kind, select_tasks, substitute_parameters
from longshore.graphs.path_templates import RequestedColumn
from longshore.graphs.pipeline import (
    DEFAULT_LIMIT,
    Pipeline,
    PipelineSettings,
    SpreadOutput,
    check_pipeline,
    missing_files,
    read_pipeline,
)
from longshore.model.file_identity import FileIdentity
from longshore.model.wording import count_noun
from longshore.system.reading import can_see, read_file
from longshore.world.read.value_places import locate_error
from longshore.world.read.yaml_includes import read_yaml

_INLINE: Final = "pipeline"


def read_inline_pipeline(
    configuration: Configuration, identity: FileIdentity, static: StaticCheck | None = None
) -> tuple[Pipeline, tuple[Path, ...]]:
    """Return the pipeline written in the configuration itself, and the files of its tables.

    `identity` decides which paths name one file. `static` limits a static check.

    Raises `ConfigError`, `GraphError` or `FilesError` if the pipeline is wrong or a file is missing.
    """
    node = configuration.config.node_at(_INLINE)
    if node is None:
        raise ConfigError("'pipeline' must stand at the root", origin=configuration.origin(_INLINE))
    return _read_pipeline(configuration, node, _INLINE, configuration.path, identity=identity, static=static)


def read_pipeline_file(
    configuration: Configuration, key: str, identity: FileIdentity, static: StaticCheck | None = None
) -> tuple[Pipeline, tuple[Path, ...]]:
    """Return the pipeline in the file that a key names, and all files that were read.

    ``FILE#LABEL,LABEL`` or ``FILE#BEGIN..END`` selects a part of it. `identity` decides which
    paths name one file. `static` limits a static check.

    Raises `ConfigError`, `GraphError` or `FilesError` if the pipeline is wrong or a file is missing.
    """
    origin = configuration.origin(key)
    name, marked, labels = configuration.text(key).partition("#")
    path = find_file(configuration, name, f"'{key}'", origin)
    names = [label.strip() for label in labels.split(",")] if marked else None
    node = pipeline_node(read_yaml(path))
    pipeline, files = _read_pipeline(configuration, node, key, path, names, identity=identity, static=static)
    return pipeline, (path, *files)


def _read_pipeline(
    configuration: Configuration,
    node: Node,
    key: str,
    path: Path,
    names: list[str] | None = None,
    *,
    identity: FileIdentity,
    static: StaticCheck | None,
) -> tuple[Pipeline, tuple[Path, ...]]:
    """Return the pipeline, limited to labels if some are named, and the files it read beside its own."""
    try:
        return _build_pipeline(configuration, node, key, path, names, identity=identity, static=static)
    except ConfigError as error:
        places = [(error.origin, error.part), *((each.origin, each.part) for each in error.details)]
        for file in {origin.file for origin, part in places if origin is not None and part is not None}:
            if text := _text_of_file(configuration, file):
                locate_error(error, text, file)
        raise


def _text_of_file(configuration: Configuration, name: str) -> str:
    """Return the text of a file of the configuration or of a pipeline; empty if it cannot be read again."""
    content = next((read.content for read in configuration.layers.files if str(read.path) == name), b"")
    path = Path(configuration.env["PWD"], name)
    if not content and path.is_file():
        with suppress(OSError):
            content = read_file(path)
    return content.decode("utf-8-sig", "replace")


def _build_pipeline(
    configuration: Configuration,
    node: Node,
    key: str,
    path: Path,
    names: list[str] | None = None,
    *,
    identity: FileIdentity,
    static: StaticCheck | None,
) -> tuple[Pipeline, tuple[Path, ...]]:
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
    folder = configuration.env["PWD"]
    limit = configuration.search("maxTasks")
    settings = PipelineSettings(
        query=configuration.text("dataQuery"),
        query_origin=configuration.origin("dataQuery"),
        limit=parse_count(limit, "maxTasks", configuration.origin("maxTasks"), least=1) if limit else DEFAULT_LIMIT,
        name=configuration.text("payloadName"),
        directory=folder,
        identity=identity,
        sample=static.max_tasks if static else 0,
        expand=lambda text, names: make_template(configuration, text, names),
        columns=frozenset(_find_columns(configuration.config.root)),
        requested=dict(_find_requested(configuration.config.root)),
        context=command_context(configuration, node),
    )
    check_pipeline(node, settings.expand, settings.context)
    tables, read = read_tables(configuration, node, static)
    pipeline = read_pipeline(node, tables, settings)
    missing = _find_missing(pipeline, folder)
    if static is not None:
        static.seen.extend(Problem(message=each.message, hint=each.hint, origin=each.origin) for each in missing)
        static.notes.extend((*map(_note_spread_output, pipeline.spread), *pipeline.doubts))
        if left_out := pipeline.tasks - len(pipeline.graph.dag):
            static.left_out.append(
                f"{left_out:,} of {count_noun(pipeline.tasks, 'task')}, and files that two of them write"
            )
    elif missing:
        raise missing[0]
    return pipeline, (*imports.files, *read)


def _find_import(configuration: Configuration, name: Node, folder: Path) -> Path:
    """Return the file of an imported pipeline: in the current directory, else beside the importing file."""
    written = parts_text(make_template(configuration, name, frozenset()).parts)
    return find_file(configuration, written, "an import", name.origin, folder=folder)


def _find_missing(pipeline: Pipeline, folder: str) -> list[FilesError]:
    """Return the error for external files that do not exist, if any."""
    paths = [path for external in pipeline.external for path in external.paths]
    absent = frozenset(path for path in paths if not can_see(Path(folder, path)))
    error = missing_files(pipeline, absent)
    return [error] if error else []


def _note_spread_output(output: SpreadOutput) -> Problem:
    """Return a note: the dimensions of the task may be forgotten."""
    files = count_noun(output.files, "file") if output.files else "several files"
    return Problem(
        message=f"the task '{output.label}' writes {files} of '{output.dataset}' in one job",
        origin=output.origin,
        hint=f"For one job per file, add {', '.join(output.dimensions)} to the task's 'dimensions'.",
        fatal=False,
    )


def _find_requested(node: Node) -> Iterator[tuple[str, RequestedColumn]]:
    """Yield the names in requests of resources that may be columns of tables."""
    for key, below in map_items(node).items():
        if key in REQUEST_KEYS:
            for value in (below, *map_items(below).values()):
                for name in _find_columns(value):
                    yield name, RequestedColumn(key=key, origin=value.origin)
        else:
            yield from _find_requested(below)


def _find_columns(node: Node) -> Iterator[str]:
    """Yield the names in texts of the configuration that may be columns of tables."""
    if isinstance(node.value, str):
        yield from column_names(node.value)
    elif isinstance(node.value, dict | list):
        for below in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from _find_columns(below)
