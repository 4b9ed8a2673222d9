"""Quantum graphs of LSST: runs the configured commands that make or update one, and reads the result."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

import msgspec

from longshore.config.command_lines import read_command_words
from longshore.config.interpolate import Scope
from longshore.config.merge import PACKAGED_LAYERS, map_items
from longshore.config.secret_values import find_secret_values
from longshore.errors import ConfigError, FilesError, GraphCommandError, Origin, PreparationError
from longshore.graphs.graph_file import AcquiredPayload, note_kept_graph
from longshore.graphs.quantum_graph import LSST_EXTRA, QUANTUM_GRAPH_SUFFIXES, RUN_GRAPH, read_quantum_graph, task_graph
from longshore.model.tasks import File
from longshore.plan.configuration import Configuration, find_file, find_payload_file
from longshore.plan.lint import LeftOutError
from longshore.plan.resolved_run import ResolvedRun
from longshore.progress import Progress
from longshore.rundir.run_directory import create_run_folder
from longshore.system.atomic import copy_file, write_atomically
from longshore.system.programs import run_to_file
from longshore.system.reading import can_see_file, read_tail
from longshore.system.room import apply_umask

_JOB_GRAPH_KEY: Final = "whenSaveJobQgraph"
_TAIL_LINES: Final = 12
"""Lines of a failed command's output in the error."""
_UPDATED_GRAPH_KEY: Final = "outputQgraphFile"
"""Former BPS name of the updated graph; `qgraphFile` named the input of the update."""


class _GraphCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Command that makes a graph.

    `key` is its configuration key, `output` the file in the run directory with its output, `activity` a phrase for
    progress messages.
    """

    key: str
    output: str
    activity: str


_CREATE: Final = _GraphCommand(
    key="createQuantumGraph", output="quantumGraphGeneration.out", activity="making the quantum graph"
)
_UPDATE: Final = _GraphCommand(
    key="updateQuantumGraph", output="quantumGraphUpdate.out", activity="updating the quantum graph"
)


def make_graph(run: ResolvedRun, progress: Progress) -> AcquiredPayload:
    """Make a quantum graph of a pipeline with ``createQuantumGraph``.

    Raises `GraphCommandError` if the command fails (its output stays in the run directory), `ConfigError` if the
    command is missing or a value is wrong, `FilesError` or `GraphError` if the pipeline or the graph cannot be read.
    """
    configuration = run.configuration
    _refuse_graphs_of_jobs(configuration)
    pipeline = _pipeline(configuration)
    name = _graph_name(configuration, "qgraphFileTemplate", configuration.text("qgraphFileTemplate"))
    graph = run.paths.root / name
    words = read_command_words(configuration.config, _CREATE.key, configuration.scope(qgraphFile=str(graph)))
    if not words:
        raise ConfigError(
            "'createQuantumGraph' is empty, and nothing else makes a quantum graph",
            origin=configuration.origin("createQuantumGraph"),
            hint="It has a default: leave it out; or name a graph with 'qgraphFile'.",
        )
    _leave_out(run)
    _check_program(run, _CREATE, words)
    with apply_umask(configuration.resolved_site.umask):
        create_run_folder(run.paths.root)
        _run_command(run, _CREATE, words, graph, progress)
    files = () if pipeline is None else (pipeline,)
    try:
        return _read_graph(run, name, files, (name, _CREATE.output), progress)
    except PreparationError as error:
        if error.code == PreparationError.code:
            # The graph may be valid; only the software that reads it is missing.
            note_kept_graph(graph, progress)
        raise


def copy_graph(run: ResolvedRun, key: str, progress: Progress) -> AcquiredPayload:
    """Copy the existing quantum graph that a key names; ``updateQuantumGraph`` adapts the copy to this run.

    Raises `GraphCommandError` if the command fails (its output stays in the run directory), `ConfigError` if a value
    is wrong, `FilesError` or `GraphError` if the graph cannot be read.
    """
    configuration = run.configuration
    _refuse_graphs_of_jobs(configuration)
    given = find_payload_file(configuration, key)
    name = _graph_name(configuration, key, given.name)
    copy = run.paths.root / name
    original = copy.with_name(f"{copy.stem}_orig{copy.suffix}")
    command = configuration.config.lookup(_UPDATE.key, Scope(env=configuration.env))
    is_renamed = command is not None and _UPDATED_GRAPH_KEY in str(command.value)
    named = {"inputQgraphFile": original, "qgraphFile": original if is_renamed else copy, _UPDATED_GRAPH_KEY: copy}
    scope = configuration.scope(**{key: str(path) for key, path in named.items()})
    words = read_command_words(configuration.config, _UPDATE.key, scope)
    _leave_out(run)
    if words:
        _check_program(run, _UPDATE, words)
    with apply_umask(configuration.resolved_site.umask):
        create_run_folder(run.paths.root)
        target = original if words else copy
        try:
            copy_file(given, target, below=run.paths.root)
        except OSError as error:
            raise FilesError(
                f"'{given}' cannot be copied to '{target}': {error.strerror}", origin=configuration.origin(key)
            ) from error
        if words:
            _run_command(run, _UPDATE, words, copy, progress)
    return _read_graph(run, name, (), (name, *((original.name, _UPDATE.output) if words else ())), progress)


def _leave_out(run: ResolvedRun) -> None:
    """Raise `LeftOutError` in a static check: programs of LSST make and read a quantum graph."""
    if run.static is not None:
        raise LeftOutError("the tasks of the quantum graph, and their jobs")


def read_kept_graph(run: ResolvedRun, name: str, progress: Progress) -> AcquiredPayload:
    """Read the quantum graph that is in the run directory under a name; nothing is made.

    Raises `ConfigError` if a value is wrong, `FilesError` or `GraphError` if pipeline or graph cannot be read.
    """
    pipeline = _pipeline(run.configuration)
    return _read_graph(run, name, () if pipeline is None else (pipeline,), (), progress)


def has_other_command(run: ResolvedRun, graph: Path, *, made_in: Path) -> bool:
    """Return whether ``createQuantumGraph`` has other words now than when it made a graph; false if it made none.

    `made_in` is the run directory of then, if the run has moved since.
    """
    root = run.paths.root
    try:
        with (graph.parent / _CREATE.output).open(encoding="utf-8", errors="replace") as output:
            before = output.readline().rstrip("\n")
        scope = run.configuration.scope(qgraphFile=str(graph))
        words = read_command_words(run.configuration.config, _CREATE.key, scope)
    except OSError:
        return False
    except ConfigError:
        return True
    return before != shlex.join(words).replace(str(root), str(made_in))


def _read_graph(
    run: ResolvedRun, name: str, files: tuple[Path, ...], kept_files: tuple[str, ...], progress: Progress
) -> AcquiredPayload:
    path = run.paths.root / name
    record = read_quantum_graph(path)
    # BPS's name: without a shared file system the workload manager transfers this file to the jobs.
    shared = run.configuration.flag("bpsUseShared")
    if not (shared or run.service.traits.transfers_files):
        progress.note(
            f"'bpsUseShared: false' has no effect: the service '{run.service.name}' carries no files to its jobs, "
            "which read the quantum graph in the run directory"
        )
    file = File(name=RUN_GRAPH, path=name, shared=shared, transfer=not shared)
    graph = task_graph(record, name=run.configuration.text("payloadName"), file=file, origin=Origin(str(path)))
    named = f"<FILE:{RUN_GRAPH}>"
    values = {"qgraphFile": named, RUN_GRAPH: named, "qgraphId": record.graph_id}
    return AcquiredPayload(graph=graph, files=files, kept_files=kept_files, values=values)


def _pipeline(configuration: Configuration) -> Path | None:
    """Return the user's pipeline file; its imports are resolved by LSST's packages."""
    name = configuration.text("pipelineYaml").partition("#")[0]
    if not name or "://" in name:
        return None
    return find_file(configuration, name, "'pipelineYaml'", configuration.origin("pipelineYaml"))


def _graph_name(configuration: Configuration, key: str, name: str) -> str:
    if "/" in name or Path(name).suffix not in QUANTUM_GRAPH_SUFFIXES or not Path(name).stem:
        raise ConfigError(
            f"'{key}' must name a file that ends in {' or '.join(QUANTUM_GRAPH_SUFFIXES)}, not '{name}'",
            origin=configuration.origin(key),
        )
    return name


def _check_program(run: ResolvedRun, command: _GraphCommand, words: tuple[str, ...]) -> None:
    """Refuse a command whose program does not exist, before the run directory is made."""
    program = words[0]
    if "/" in program:
        if not can_see_file(Path(program)):
            raise _unstartable(run, command, f"'{program}', which cannot be started: {os.strerror(errno.ENOENT)}")
    elif shutil.which(program, path=run.configuration.env.get("PATH")) is None:
        raise _unstartable(run, command, f"'{program}', which is not on the PATH")


def _unstartable(run: ResolvedRun, command: _GraphCommand, reason: str) -> FilesError:
    return FilesError(
        f"'{command.key}' runs {reason}",
        origin=_command_origin(run, command),
        hint=f"Set up a release of LSST's, or install its packages: pip install '{LSST_EXTRA}'.",
    )


def _command_origin(run: ResolvedRun, command: _GraphCommand) -> Origin | None:
    """Return where the user wrote a command; `None` for a default, which no file of the user corrects."""
    origin = run.configuration.origin(command.key)
    return None if origin is not None and origin.layer in PACKAGED_LAYERS else origin


def _run_command(
    run: ResolvedRun, command: _GraphCommand, words: tuple[str, ...], graph: Path, progress: Progress
) -> None:
    """Run a command and require that it writes a graph."""
    output = run.paths.root / command.output
    progress.stage(f"{command.activity} (output in '{output}')")
    try:
        text = f"{shlex.join(words)}\n\n"
        mode = 0o600 if find_secret_values(run.configuration.all_layers, run.configuration.env) else 0o666
        write_atomically(output, text, below=run.paths.root, mode=mode)
        status = run_to_file(words, output, env=run.configuration.env)
    except OSError as error:
        if error.filename != words[0]:
            raise FilesError(f"'{output}' cannot be written: {error.strerror}") from error
        raise _unstartable(run, command, f"'{words[0]}', which cannot be started: {error.strerror}") from error
    if not status and graph.is_file():
        return
    lines = "".join(f"\n  {line}" for line in read_tail(output, _TAIL_LINES) or ())
    raise GraphCommandError(
        f"{command.activity} failed: '{command.key}' "
        + (f"ended with status {status}" if status else f"ended well and left no '{graph.name}'")
        + (f"; its last lines were:{lines}" if lines else ""),
        exit_status=status or PreparationError.exit_status,
        origin=_command_origin(run, command),
        hint=f"The whole output is in '{output}'.",
    )


def _refuse_graphs_of_jobs(configuration: Configuration) -> None:
    """Refuse the option that writes a quantum graph per job."""
    config = configuration.config
    parts = [map_items(part) for _, part in config.labeled_parts()]
    found = [items[_JOB_GRAPH_KEY] for items in parts if _JOB_GRAPH_KEY in items]
    hit = config.lookup(_JOB_GRAPH_KEY, configuration.scope())
    if hit is not None and hit.node is not None:
        found.insert(0, hit.node)
    for node in found:
        if str(node.value) not in {"NEVER", "None", ""}:
            raise ConfigError(
                f"'{_JOB_GRAPH_KEY}: {node.value}' asks for a quantum graph per job, which LSST's packages cannot cut "
                "out of one in today's format",
                origin=node.origin,
                hint="Leave it out: all jobs read the one graph, and of that only the quanta they run.",
            )
