"""Shell completion of keys of the configuration, and of values that a key takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.shell_completion import CompletionItem

from longshore.config.merge import map_items
from longshore.config.schema import find_choices, find_keys, takes_names
from longshore.config.search import PART_SECTIONS
from longshore.errors import LongshoreError

if TYPE_CHECKING:
    from longshore.config.merge import Node

Items = Iterator[CompletionItem[str]]


def complete_settings(incomplete: str, file: str | None, labels: Iterable[str] = ()) -> Items:
    """Complete ``KEY=VALUE``: keys section by section, and values that a key takes.

    Parameters
    ----------
    incomplete
        What is typed of it.
    file
        The configuration that the command line names, whose labels and own keys are completed as well.
    labels
        Labels of the run that the command line names.
    """
    from longshore.config.schemas import configuration_schema

    key, equals, _ = incomplete.partition("=")
    path = key.split(".")
    schema = configuration_schema()
    if equals:
        for value in dict.fromkeys(find_choices(schema, path)):
            yield CompletionItem(f"{key}={value}")
        return
    if len(path) > 1 and path[:-1] in ([name] for name in PART_SECTIONS):
        yield from (CompletionItem(f"{path[0]}.{label}.") for label in labels)
    yield from _complete_path(schema, path[:-1], file, prefix="", end="=")


def complete_keys(incomplete: str, file: str | None) -> Items:
    """Complete a key to search, or a path that begins with a full stop."""
    from longshore.config.schemas import configuration_schema

    schema = configuration_schema()
    if incomplete.startswith("."):
        yield from _complete_path(schema, incomplete.split(".")[1:-1], file, prefix=".", end="")
        return
    names = {key.name: key.description for key in find_keys(schema, ())}
    for name in (*names, *(name for name in _names_in_file(file, ()) if name not in names)):
        yield CompletionItem(name, help=names.get(name) or None)


def complete_changes() -> Items:
    """Complete ``KEY=VALUE`` of what can be changed for jobs of a run."""
    from longshore.config.schemas import configuration_schema
    from longshore.engine.policy.change_request import SETTABLE_KEYS

    known = {key.name: key.description for key in find_keys(configuration_schema(), ())}
    for key in SETTABLE_KEYS:
        name, dot, _ = key.partition(".")
        yield CompletionItem(f"{name}{dot or '='}", help=known.get(name))


def _complete_path(schema: Mapping[str, Any], path: list[str], file: str | None, *, prefix: str, end: str) -> Items:
    """Complete the last name of a path; a section ends with a full stop, and another key with `end`."""
    above = prefix + "".join(f"{name}." for name in path)
    seen = set()
    for key in find_keys(schema, path):
        seen.add(key.name)
        if key.is_value:
            yield CompletionItem(f"{above}{key.name}{end}", help=key.description or None)
        if key.is_section:
            yield CompletionItem(f"{above}{key.name}.", help=key.description or None)
    names = _names_in_file(file, path)
    if takes_names(schema, path):
        for name in dict.fromkeys((*names, *_known_names(path, file))):
            if name not in seen:
                yield CompletionItem(f"{above}{name}.")
    elif not path:
        for name, node in names.items():
            if name not in seen:
                yield CompletionItem(f"{name}{'.' if isinstance(node.value, dict) else end}", help="a key of the file")


def _known_names(path: list[str], file: str | None) -> Iterable[str]:
    """Return names for a section whose keys the user names: labels of the pipeline, and sites."""
    from longshore.sites.site import list_sites

    if path == ["site"]:
        return [site.name for site in list_sites()]
    return _names_in_file(file, ("pipeline", "tasks")) if path and path[0] in PART_SECTIONS and len(path) == 1 else ()


def _names_in_file(file: str | None, path: Iterable[str]) -> Mapping[str, Node]:
    """Return the keys of a section of the configuration as written; none where it cannot be read."""
    import time

    from longshore.config.layers import read_layers

    if file is None:
        return {}
    try:
        node: Node | None = read_layers(Path(file), now=time.time()).stack.root()
    except (LongshoreError, OSError):
        # The schema's keys are offered all the same.
        return {}
    for name in path:
        node = map_items(node).get(name)
    return map_items(node)
