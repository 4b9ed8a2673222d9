"""Checks for user-written sections without effect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from longshore.config.lint.schema_check import Finding, Severity, key_name, variable_names
from longshore.config.lint.section_checks import clusters_by_section
from longshore.config.values.merge import PACKAGED_LAYERS, RUN_LAYERS, Node, map_items
from longshore.config.values.search import INIT_LABEL
from longshore.origin import Origin

_NUMBERED_COMMAND: Final = re.compile(r"command[0-9]+")
_SMALL_NUMBER: Final = re.compile(r"command[1-9][0-9]{0,5}")
_CLUSTER_RULES: Final = frozenset(
    {
        "pipetasks",
        "dimensions",
        "equalDimensions",
        "partitionDimensions",
        "partitionMaxClusters",
        "partitionMaxSize",
        "clusterTemplate",
        "findDependencyMethod",
    }
)
"""Keys of a section of ``cluster`` that only clustering by these sections reads."""
_PLAIN_PAYLOADS: Final = ("pipeline", "wfformat")
"""Keys of payloads that have no init job unless ``runInit`` asks for one."""
_GRAPH_KEYS: Final = ("graphFile", "graphSource")


def find_ineffective_sections(root: Node, *, payload_read: bool) -> Iterator[Finding]:
    """Warn of each section without effect, and of a final job with its command given twice.

    `payload_read` says that the kind of the payload is known: a quantum graph adds defaults to some sections.
    """
    top = map_items(root)
    payload = _payload_keys(top)
    yield from _find_double_command(map_items(top.get("finalJob")), root)
    yield from _find_command_after_gap(map_items(top.get("finalJob")))
    if payload_read or not payload.isdisjoint(_PLAIN_PAYLOADS):
        yield from _check_final_job(top.get("finalJob"))
    yield from _check_clusters(top)
    yield from _find_exits_without_retries(root)
    replay = top.get("replay")
    is_replay = not payload or not payload.isdisjoint({"wfformat", *_GRAPH_KEYS})
    if replay is not None and _is_user_written(replay) and map_items(replay) and not is_replay:
        yield _no_effect(("replay",), replay.origin, "the payload is not a 'wfformat' file", "Leave it out.")
    init = map_items(top.get("pipetask")).get(INIT_LABEL)
    if init is not None and _is_user_written(init) and not payload.isdisjoint(_PLAIN_PAYLOADS) and not _runs_init(top):
        path = ("pipetask", INIT_LABEL)
        yield _no_effect(path, init.origin, "the run has no init job", "Set 'runInit: true' under 'payload' for one.")


def _find_double_command(items: Mapping[str, Node], root: Node) -> Iterator[Finding]:
    command, first = items.get("command"), items.get("command1")
    if command is None or first is None or not _are_rivals(command, first) or "command" in variable_names(root):
        return
    yield Finding(
        message="the final job has 'command' and 'command1', which mean the same",
        origin=max(command.origin, first.origin, key=lambda origin: (origin.line, origin.column)),
        hint="Keep one of them; 'command2' is the second command.",
        path=("finalJob", "command"),
    )


def _find_command_after_gap(items: Mapping[str, Node]) -> Iterator[Finding]:
    """Warn of a command of the final job that never runs, because the number before it is missing."""
    numbers = {int(key.removeprefix("command")): item for key, item in items.items() if _SMALL_NUMBER.fullmatch(key)}
    if "command1" not in items and "command" not in items:
        return
    last = 1
    while last + 1 in numbers:
        last += 1
    for number in sorted(each for each in numbers if each > last and _is_user_written(numbers[each])):
        yield Finding(
            message=f"'finalJob.command{number}' has no effect: there is no 'command{last + 1}'",
            origin=numbers[number].origin,
            hint=f'Commands are numbered without a gap; to skip one, leave it empty: command{last + 1}: "".',
            severity=Severity.WARNING,
            path=("finalJob", f"command{number}"),
            at_key=True,
        )


def _check_final_job(section: Node | None) -> Iterator[Finding]:
    items = map_items(section)
    written = [item for item in items.values() if _is_user_written(item)]
    # Defaults of a service may have keys for a final job that there is not.
    if section is None or not written or not _is_unset(items.get("whenRun")):
        return
    if not any(_NUMBERED_COMMAND.fullmatch(key) for key in items):
        other = items.get("runQuantumCommand")
        hint = "Give it a 'command'." if other is None else "Write 'command' instead of 'runQuantumCommand'."
        origin = section.origin if _is_user_written(section) else written[0].origin
        yield _no_effect(("finalJob",), origin, "it has no command", hint)


def _are_rivals(command: Node, first: Node) -> bool:
    """Whether one file gives both; across files the stronger one wins."""
    return command.origin != first.origin and command.origin.file == first.origin.file


def _check_clusters(top: Mapping[str, Node]) -> Iterator[Finding]:
    if clusters_by_section(top):
        return
    for label, node in map_items(top.get("cluster")).items():
        keys = map_items(node).keys()
        # A section with 'pipetasks' has a warning of its own.
        if keys and _is_user_written(node) and keys <= _CLUSTER_RULES - {"pipetasks"}:
            yield _no_effect(
                ("cluster", label),
                node.origin,
                "'clusterAlgorithm' does not go by it",
                "Say 'clusterAlgorithm: dimension_clustering' to cluster by it.",
            )


def _find_exits_without_retries(root: Node) -> Iterator[Finding]:
    """Tell of exit codes that are not retried in parts of a configuration in which no exit code is."""
    parts = list(_parts_with_exits(root, ()))
    has_retries = any(map(_may_be_positive, _values_of("numberOfRetries", root))) if parts else False
    for path, items in parts:
        own = items.get("numberOfRetries")
        if has_retries if own is None else _may_be_positive(own):
            continue
        yield Finding(
            message=f"'{key_name((*path, 'retryUnlessExit'))}' has no effect: no exit code is retried",
            origin=items["retryUnlessExit"].origin,
            hint="'numberOfRetries' is 0; give it the number of retries after other exit codes.",
            severity=Severity.NOTE,
            path=(*path, "retryUnlessExit"),
            at_key=True,
        )


def _parts_with_exits(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Node]]]:
    items = map_items(node)
    exits = items.get("retryUnlessExit")
    if exits is not None and exits.value not in (None, []) and exits.origin.layer in RUN_LAYERS:
        yield path, items
    for key, item in items.items():
        yield from _parts_with_exits(item, (*path, key))


def _values_of(key: str, node: Node) -> Iterator[Node]:
    for name, item in map_items(node).items():
        if name == key:
            yield item
        yield from _values_of(key, item)


def _may_be_positive(number: Node) -> bool:
    """Whether a number is above 0, or a text that may become one."""
    return number.value is not None and str(number.value).strip() not in {"", "0"}


def _payload_keys(top: Mapping[str, Node]) -> frozenset[str]:
    """Keys of the configuration that name a payload."""
    known = ("pipelineYaml", "qgraphFile", *_PLAIN_PAYLOADS, *_GRAPH_KEYS)
    sections = (top, map_items(top.get("payload")), map_items(top.get("bps_cmdline")))
    return frozenset(key for key in known for section in sections if not _is_unset(section.get(key)))


def _runs_init(top: Mapping[str, Node]) -> bool:
    sections = (map_items(top.get("bps_cmdline")), map_items(top.get("payload")), top)
    return any(not _is_unset(section.get("runInit")) for section in sections)


def _is_unset(node: Node | None) -> bool:
    return node is None or node.value is None or node.value == ""


def _is_user_written(node: Node) -> bool:
    return node.origin.layer not in PACKAGED_LAYERS


def _no_effect(path: tuple[str, ...], origin: Origin, reason: str, hint: str) -> Finding:
    return Finding(
        message=f"no key of '{key_name(path)}' has an effect: {reason}",
        origin=origin,
        hint=hint,
        severity=Severity.WARNING,
        path=path,
        at_key=True,
    )
