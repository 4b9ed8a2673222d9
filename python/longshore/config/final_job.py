"""Reads the section ``finalJob``: when the final job runs, and its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from longshore.config.command_lines import interpolate_shell_line
from longshore.config.interpolate import Scope
from longshore.config.merge import Node, map_items
from longshore.config.search import Config
from longshore.config.templates import ATTEMPT_MARK, ATTEMPT_NAME, Field, Quotation, shell_contexts
from longshore.errors import ConfigError, PreparationError

_SINGLE: Final = (Quotation.SINGLE, Quotation.SINGLE_SCRIPT)
NUMBERED_COMMAND: Final = re.compile(r"command[0-9]+")


class WhenRun(StrEnum):
    """When a final job runs."""

    ALWAYS = "ALWAYS"
    """After all other jobs are over, whatever their outcome, and after a cancellation too."""
    SUCCESS = "SUCCESS"
    """After all other jobs have succeeded."""
    NEVER = "NEVER"


def read_when_run(config: Config) -> WhenRun:
    """When the final job runs: NEVER without the section, ALWAYS where the section has no ``whenRun``.

    Raises
    ------
    ConfigError
        The section is no map, or the value is unknown.
    """
    section = config.node_at("finalJob")
    if section is None or section.value is None:
        return WhenRun.NEVER
    if not isinstance(section.value, dict):
        raise ConfigError("'finalJob' must be a map", origin=section.origin)
    kind = section.value.get("implementation")
    if kind is not None and kind.value is not None and kind.text.upper() != "JOB":
        raise ConfigError(
            f"'finalJob.implementation' must be JOB, not '{kind.value}': the final job is one job, not a workflow",
            origin=kind.origin,
            hint="A script that it runs (command1, command2, ...) may do several things.",
        )
    node = section.value.get("whenRun")
    if node is None or node.value is None:
        return WhenRun.ALWAYS if any(NUMBERED_COMMAND.fullmatch(key) for key in section.value) else WhenRun.NEVER
    try:
        return WhenRun(node.text)
    except ValueError:
        raise ConfigError(
            f"'finalJob.whenRun' must be {', '.join(WhenRun)}, not '{node.value}'", origin=node.origin
        ) from None


def ignored_setup_notes(config: Config) -> Iterator[str]:
    """Note that the section sets ``whenSetup``: BPS has that key, and ignores it."""
    node = config.node_at("finalJob", "whenSetup")
    if node is not None and node.value is not None and node.text.upper() != "NEVER":
        yield f"{node.origin}: 'finalJob.whenSetup: {node.value}' has no effect: its script is made with the run"


def final_command_nodes(config: Config) -> list[Node]:
    """Commands as written: ``command1``, ``command2``, ... up to the first missing number."""
    items = map_items(config.node_at("finalJob"))
    nodes: list[Node] = []
    while (node := items.get(f"command{len(nodes) + 1}")) is not None:
        nodes.append(node)
    return nodes


def read_final_commands(config: Config, scope: Scope) -> list[str]:
    """Commands ``command1``, ``command2``, ... up to the first missing number; an empty one is skipped.

    Raises
    ------
    PreparationError
        All commands are empty or missing.
    UndefinedVariableError
        A command uses an undefined variable.
    """
    section = config.node_at("finalJob")
    items = map_items(section)
    nodes = final_command_nodes(config)
    numbered_key = next((key for key in items if NUMBERED_COMMAND.fullmatch(key) and not nodes), None)
    if numbered_key is not None:
        raise PreparationError(
            f"the final job has '{numbered_key}' and no 'command1': commands are numbered from 1 without a gap",
            origin=items[numbered_key].origin,
            hint='To skip one, leave it empty: command1: "".',
        )
    scope = replace(scope, searchobj=section)
    lines = [
        _from_argument(
            interpolate_shell_line(node.text if node.has_text else "", node.origin, config, scope).render({})
        )
        for node in nodes
    ]
    if not any(line.strip() for line in lines):
        raise PreparationError(
            "the final job has no command",
            origin=section.origin if section else None,
            hint="Give it 'finalJob.command1', or say 'finalJob.whenRun: NEVER'.",
        )
    return lines


def _from_argument(line: str) -> str:
    """Return a line that has the number of the attempt from the variable of its script: the script is one file."""
    texts = line.split(ATTEMPT_MARK)
    if len(texts) == 1:
        return line
    field = Field(ATTEMPT_NAME)
    contexts = shell_contexts((texts[0], *(part for text in texts[1:] for part in (field, text))))
    written = (f"'${{{ATTEMPT_NAME}}}'" if each.quotation in _SINGLE else f"${{{ATTEMPT_NAME}}}" for each in contexts)
    return texts[0] + "".join(number + text for number, text in zip(written, texts[1:], strict=True))
