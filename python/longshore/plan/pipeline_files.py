"""Reads YAML pipelines with their tables, imported files and configured commands, as input for the task graph."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from longshore.config.final_job import WhenRun, final_command_nodes, read_when_run
from longshore.config.includes import read_yaml
from longshore.config.interpolate import Interpolator
from longshore.config.merge import Node, map_items
from longshore.config.profile import REQUEST_KEYS
from longshore.config.quantities import parse_count
from longshore.config.search import INIT_LABEL
from longshore.config.templates import Parts, Template, column_names, parts_text, plain_parts
from longshore.config.yaml_text import locate_error, read_as_bps
from longshore.contract.service import Problem
from longshore.errors import ConfigError, FilesError, Origin, PreparationError, UndefinedVariableError
from longshore.graphs.declarations import (
    FileKind,
    NeededFile,
    PipelineKind,
    needed_files,
    pipeline_kind,
    select_tasks,
    substitute_parameters,
)
from longshore.graphs.file_patterns import capture_values, captured_names, glob_pattern
from longshore.graphs.path_templates import RequestedColumn
from longshore.graphs.payload_files import ImportReader, pipeline_node
from longshore.graphs.pipeline import (
    DEFAULT_LIMIT,
    Pipeline,
    PipelineSettings,
    SpreadOutput,
    check_pipeline,
    missing_files,
    read_pipeline,
)
from longshore.graphs.placeholders import CommandContext, ConfiguredCommand
from longshore.graphs.tables import Table, decode_table, parse_table
from longshore.model.file_identity import FileIdentity
from longshore.model.report import FINAL_LABEL
from longshore.model.wording import count_noun, did_you_mean, quote_value
from longshore.plan.configuration import Configuration, find_file, read_named_file
from longshore.plan.lint import LeftOutError, StaticCheck
from longshore.system.reading import can_see, read_file

# Finds the commands that a configuration has beside its pipeline: of tasks, of the init job and of the final job.


def command_context(configuration: Configuration, pipeline: Node) -> CommandContext:
    """Return what a configuration has for the commands of a pipeline."""
    return CommandContext(
        shell_variables=frozenset(_environment_names(configuration.config.root)),
        commands=tuple(_commands(configuration, pipeline)),
        has_path=lambda path: configuration.config.node_at(*path.split(".")) is not None,
    )


def _commands(configuration: Configuration, pipeline: Node) -> Iterator[ConfiguredCommand]:
    """Yield the commands that some job runs; faults of their form are told where jobs are made."""
    config = configuration.config
    tasks = map_items(pipeline).get("tasks")
    for label in map_items(tasks) if tasks else ():
        hit = config.lookup("runQuantumCommand", configuration.scope(curr_pipetask=label, curr_cluster=label))
        if hit is not None and hit.node is not None:
            yield _command(label, hit.node)
    own = config.node_at("pipetask", INIT_LABEL, "runQuantumCommand")
    with suppress(ConfigError):
        if own is not None and configuration.flag("runInit"):
            yield _command(INIT_LABEL, own)
    with suppress(ConfigError):
        if read_when_run(config) is not WhenRun.NEVER:
            lines = [node for node in final_command_nodes(config) if isinstance(node.value, str)]
            if lines:
                # One script: a variable that a line sets is set for the others.
                whole = Node("\n".join(line.text for line in lines), lines[0].origin)
                yield ConfiguredCommand(label=FINAL_LABEL, whole=whole, words=tuple(lines))


def _command(label: str, node: Node) -> ConfiguredCommand:
    words = node.value if isinstance(node.value, list) else [node]
    return ConfiguredCommand(
        label=label, whole=node, words=tuple(word for word in words if isinstance(word.value, str))
    )


def _environment_names(node: Node) -> Iterator[str]:
    """Yield the variables of every map ``environment``."""
    for key, below in map_items(node).items():
        yield from map_items(below) if key == "environment" else _environment_names(below)


# Reads the tables of a pipeline's dimensions: named files, and globs matched against the disk.


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
            tables[needed.key] = _glob_table(configuration, needed)
    return tables, read


def _read_text(configuration: Configuration, name: str, origin: Origin, static: StaticCheck | None) -> tuple[Path, str]:
    """Return the path of a table and its text."""
    path = find_file(configuration, name, "a table", origin)
    if static is not None and path.stat().st_size > static.max_bytes:
        raise LeftOutError(f"the tasks by the values in '{path}', which is large, and their jobs")
    return path, decode_table(read_named_file(path, origin), str(path))


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
            f"{quote_value(text.text)} uses '{{{name}}}', which nothing defines",
            origin=origin,
            hint=did_you_mean(name, {*names, *configuration.config.names(scope)})
            or "It may be a dimension of the pipeline, or a key of the configuration.",
        )

    scope = replace(configuration.scope(), free=names, undefined=undefined)
    return Interpolator(configuration.config, scope).parts(text.text, text.origin)


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
    if configuration.is_of_bps:
        node = read_as_bps(node)
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
        static.seen.extend(
            Problem(message=each.message, hint=each.hint, origin=each.origin, code=each.code) for each in missing
        )
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
