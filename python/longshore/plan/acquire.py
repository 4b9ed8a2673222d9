"""Stage `acquire`: chooses the payload source (pipeline, graph file, WfFormat, quantum graph, plug-in) and reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from longshore.config.plugins import GRAPH_SOURCES, shipped_path
from longshore.contract.algorithms import Payload
from longshore.contract.service import RUN_FOLDER
from longshore.errors import ConfigError, GraphError, Origin
from longshore.graphs.graph_file import AcquiredPayload, read_tasks
from longshore.graphs.payload_files import is_lsst_pipeline, source_of_file_name
from longshore.graphs.wfformat import read_wfformat
from longshore.model.file_identity import with_one_path
from longshore.model.tasks import TaskGraph, collection_paused
from longshore.model.values import YamlValue
from longshore.plan.configuration import Configuration, call_function, find_function, find_payload_file, read_named_file
from longshore.plan.lint import LeftOutError, StaticCheck
from longshore.plan.resolved_run import ResolvedRun
from longshore.progress import Progress

REPLAY: Final = "programs/replay.py"
"""Program that is shipped with Longshore: another version of it is no change of the run."""
_INLINE: Final = "pipeline"
_PIPELINE: Final = "pipelineYaml"
_GRAPH: Final = "qgraphFile"
_FILE: Final = "graphFile"
_SOURCE: Final = "graphSource"
PAYLOAD_KEYS: Final = (_INLINE, _PIPELINE, "wfformat", _GRAPH, _FILE)
"""Configuration keys that name a payload."""


class AcquiredRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run whose payload was read: the result of stage `acquire`."""

    run: ResolvedRun
    payload: AcquiredPayload


def acquire_run(run: ResolvedRun, progress: Progress) -> AcquiredRun:
    """Read the payload of a run; a quantum graph is written to the run directory.

    Raises `ConfigError` if there is no payload or more than one, `GraphCommandError` if a command that makes a
    quantum graph fails, `GraphError` or `FilesError` if the payload is wrong or cannot be read.
    """
    return AcquiredRun(run=run, payload=_read_payload(run, progress))


def takes_quantum_graph(configuration: Configuration) -> bool:
    """Return whether the payload is a quantum graph, made or given, as far as the configuration tells."""
    others = (_INLINE, "wfformat", _FILE, _SOURCE)
    return not any(configuration.search(key) for key in others) and bool(
        configuration.search(_GRAPH) or configuration.search("createQuantumGraph")
    )


def _read_payload(run: ResolvedRun, progress: Progress) -> AcquiredPayload:
    configuration = run.configuration
    named = sorted(
        (key for key in PAYLOAD_KEYS if configuration.search(key)), key=partial(_key_position, configuration)
    )
    if set(named) == {_GRAPH, _PIPELINE}:
        # A graph on the command line wins over the pipeline in the file, as in BPS.
        progress.note(f"'{_GRAPH}' is used as it is, and '{_PIPELINE}' not read")
        named = [_GRAPH]
    if (script := configuration.config.node_at("customJob")) is not None and script.value:
        progress.note(f"{script.origin}: no key of 'customJob' has an effect here: 'longshore submitcmd' runs it")
    if configuration.text(_SOURCE):
        if others := [key for key in named if key != _FILE]:
            raise _ambiguous_payload(configuration, others[0], _SOURCE)
        return _read_graph_source(run, progress)
    if not named and configuration.search("createQuantumGraph"):
        return _make_quantum_graph(run, progress)
    if not named and (tasks := configuration.config.node_at("tasks")) is not None:
        raise ConfigError(
            "no payload is named, and 'tasks' belongs under 'pipeline'",
            origin=tasks.origin,
            hint="Write 'pipeline:' above it, and indent 'tasks' and what belongs to it below that key.",
        )
    if not named:
        files, path = configuration.layers.files, configuration.path
        is_empty = not any(read.content.strip() for read in files if read.path == path)
        raise ConfigError(
            "no payload is named" + (": the file is empty" if is_empty else ""),
            origin=Origin(str(configuration.path)),
            hint=f"Name the payload with one of the keys {', '.join(PAYLOAD_KEYS)}, for example: pipelineYaml: FILE",
        )
    if named[1:]:
        raise _ambiguous_payload(configuration, *named[:2])
    if named == [_FILE]:
        return _read_graph_source(run, progress)
    return _READERS[_SOURCE_BY_KEY[named[0]]](run, named[0], progress)


def _ambiguous_payload(configuration: Configuration, first: str, second: str) -> ConfigError:
    return ConfigError(
        f"more than one payload is named: '{first}' and '{second}'",
        origin=configuration.origin(second),
        hint="A run has one payload; take the others out.",
    )


def _read_graph_source(run: ResolvedRun, progress: Progress) -> AcquiredPayload:
    """Read the payload of ``graphFile`` with the source that ``graphSource`` or the file name selects."""
    configuration = run.configuration
    name = configuration.text(_SOURCE).strip() or source_of_file_name(configuration.text(_FILE))
    if name in _READERS:
        if not configuration.text(_FILE):
            raise ConfigError(
                f"the source '{name}' reads a file, and none is named",
                origin=configuration.origin(_SOURCE),
                hint="Name it with 'graphFile'.",
            )
        return _READERS[name](run, _FILE, progress)
    if not name:
        raise ConfigError(
            f"the name '{configuration.text(_FILE)}' does not tell the format of the file",
            origin=configuration.origin(_FILE),
            hint=f"Name the format with 'graphSource': {', '.join(_READERS)}, or the source of a plug-in.",
        )
    source = find_function(configuration, _SOURCE, group=GRAPH_SOURCES, what="source", built_in_names=_READERS)
    if run.static is not None:
        raise LeftOutError(f"the tasks of the source '{name}', and their jobs")
    return _call_plugin(run, source)


def _call_plugin(run: ResolvedRun, source: Callable[..., object]) -> AcquiredPayload:
    """Read the payload with a source from another package."""
    configuration = run.configuration
    path = find_payload_file(configuration, _FILE) if configuration.text(_FILE) else None
    payload = Payload(
        name=configuration.text("payloadName"),
        path=path,
        directory=configuration.env["PWD"],
        values=configuration.config.plain_values(),
        origin=configuration.origin(_SOURCE),
    )
    with collection_paused():
        graph = call_function(configuration, _SOURCE, source, payload, returns=TaskGraph)
    for task in graph.dag.nodes:
        for name in (*task.inputs, *task.outputs):
            if name not in graph.files:
                raise GraphError(
                    f"the task '{task.name}' of the source '{configuration.text(_SOURCE)}' names the file '{name}', "
                    "which is not among the files of its graph",
                    origin=configuration.origin(_SOURCE),
                )
    return AcquiredPayload(graph=with_one_path(graph, run.file_identity()), files=(path,) if path else ())


def _key_position(configuration: Configuration, key: str) -> tuple[str, int, int]:
    """Sort key for configuration keys: their position in the files."""
    origin = configuration.origin(key)
    return (origin.file, origin.line, origin.column) if origin else ("", 0, 0)


def _read_pipeline(run: ResolvedRun, key: str, progress: Progress) -> AcquiredPayload:
    from longshore.plan.pipeline_files import read_inline_pipeline, read_pipeline_file

    configuration = run.configuration
    identity = run.file_identity(configuration.env["PWD"])
    if key == _INLINE:
        pipeline, files = read_inline_pipeline(configuration, identity, run.static)
    elif key == _PIPELINE and is_lsst_pipeline(configuration.text(key).partition("#")[0], configuration.path.parent):
        return _make_quantum_graph(run, progress)
    else:
        pipeline, files = read_pipeline_file(configuration, key, identity, run.static)
    return AcquiredPayload(graph=pipeline.graph, files=files, commands=pipeline.commands)


def _make_quantum_graph(run: ResolvedRun, progress: Progress) -> AcquiredPayload:
    # Only these payloads run programs.
    from longshore.plan.quantum_graph import make_graph

    return make_graph(run, progress)


def _copy_quantum_graph(run: ResolvedRun, key: str, progress: Progress) -> AcquiredPayload:
    from longshore.plan.quantum_graph import copy_graph

    return copy_graph(run, key, progress)


def _read_wfformat(run: ResolvedRun, key: str, _progress: Progress) -> AcquiredPayload:
    configuration = run.configuration
    path = find_payload_file(configuration, key)
    _leave_out_large(path, run.static)
    replay = configuration.search("replay")
    settings: dict[str, YamlValue] = {
        **(replay if isinstance(replay, dict) else {}),
        "python": sys.executable,
        # Replaced when a job starts, so that the run directory can be moved.
        "program": f"{RUN_FOLDER}/{REPLAY}",
    }
    text = read_named_file(path, configuration.origin(key))
    try:
        graph = read_wfformat(text, settings, Origin(str(path)))
    except ConfigError as error:
        error.origin = error.origin or configuration.origin("replay")
        raise
    programs = {**graph.programs, REPLAY: shipped_path("bin", "replay.py").read_text("utf-8")}
    graph = with_one_path(msgspec.structs.replace(graph, programs=programs), run.file_identity())
    return AcquiredPayload(graph=graph, files=(path,))


def _read_graph_file(run: ResolvedRun, key: str, _progress: Progress) -> AcquiredPayload:
    configuration = run.configuration
    path = find_payload_file(configuration, key)
    _leave_out_large(path, run.static)
    payload = read_tasks(path, configuration.text("payloadName"), configuration.origin(key))
    return msgspec.structs.replace(payload, graph=with_one_path(payload.graph, run.file_identity()))


def _leave_out_large(path: Path, static: StaticCheck | None) -> None:
    """Raise `LeftOutError` if a static check would take long to read a file."""
    if static is not None and path.stat().st_size > static.max_bytes:
        raise LeftOutError(f"the tasks in '{path}', which is large, and their jobs")


_READERS: Final[dict[str, Callable[[ResolvedRun, str, Progress], AcquiredPayload]]] = {
    "pipeline": _read_pipeline,
    "wfformat": _read_wfformat,
    "quantum_graph": _copy_quantum_graph,
    "graph_file": _read_graph_file,
}
"""Reader per source name; each receives the key that names the payload."""
_SOURCE_BY_KEY: Final = {
    _INLINE: "pipeline",
    _PIPELINE: "pipeline",
    "wfformat": "wfformat",
    _GRAPH: "quantum_graph",
}
"""Source per key that determines it."""
