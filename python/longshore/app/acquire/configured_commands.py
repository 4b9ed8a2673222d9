"""Finds the commands that a configuration has beside its pipeline: of tasks, of the init job and of the final job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from longshore.app.configure.configuration import Configuration
from longshore.config.final_job import WhenRun, final_command_nodes, read_when_run
from longshore.config.merge import Node, map_items
from longshore.config.search import INIT_LABEL
from longshore.errors import ConfigError
from longshore.graphs.placeholders import CommandContext, ConfiguredCommand
from longshore.model.report import FINAL_LABEL


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
                whole = Node("\n".join(str(line.value) for line in lines), lines[0].origin)
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
