"""Which values shells are offered: runs, jobs, labels, sites, services, and keys of the configuration with values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem, split_arg_string

from longshore.errors import LongshoreError

if TYPE_CHECKING:
    from longshore.config.merge import Node
    from longshore.runstate.open_run import OpenRun


def offer_settings(incomplete: str, file: str | None, labels: Iterable[str] = ()) -> Iterator[CompletionItem[str]]:
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
    from longshore.config.schema import find_choices
    from longshore.config.schemas import configuration_schema
    from longshore.config.search import PART_SECTIONS

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


def offer_keys(incomplete: str, file: str | None) -> Iterator[CompletionItem[str]]:
    """Complete a key to search, or a path that begins with a full stop."""
    from longshore.config.schema import find_keys
    from longshore.config.schemas import configuration_schema

    schema = configuration_schema()
    if incomplete.startswith("."):
        yield from _complete_path(schema, incomplete.split(".")[1:-1], file, prefix=".", end="")
        return
    names = {key.name: key.description for key in find_keys(schema, ())}
    for name in (*names, *(name for name in _names_in_file(file, ()) if name not in names)):
        yield CompletionItem(name, help=names.get(name) or None)


def offer_changes() -> Iterator[CompletionItem[str]]:
    """Complete ``KEY=VALUE`` of what can be changed for jobs of a run."""
    from longshore.config.schema import find_keys
    from longshore.config.schemas import configuration_schema
    from longshore.runstate.change_request import SETTABLE_KEYS

    known = {key.name: key.description for key in find_keys(configuration_schema(), ())}
    for key in SETTABLE_KEYS:
        name, dot, _ = key.partition(".")
        yield CompletionItem(f"{name}{dot or '='}", help=known.get(name))


def _complete_path(
    schema: Mapping[str, Any], path: list[str], file: str | None, *, prefix: str, end: str
) -> Iterator[CompletionItem[str]]:
    """Complete the last name of a path; a section ends with a full stop, and another key with `end`."""
    from longshore.config.schema import find_keys, takes_names

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
    from longshore.config.search import PART_SECTIONS
    from longshore.sites.site import list_sites

    if path == ["site"]:
        return [site.name for site in list_sites()]
    return _names_in_file(file, ("pipeline", "tasks")) if path and path[0] in PART_SECTIONS and len(path) == 1 else ()


def _names_in_file(file: str | None, path: Iterable[str]) -> Mapping[str, Node]:
    """Return the keys of a section of the configuration as written; none where it cannot be read."""
    import time

    from longshore.config.layers import read_layers
    from longshore.config.merge import map_items

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


Items: TypeAlias = "Iterable[CompletionItem[str]]"
Completer: TypeAlias = Callable[[click.Context, str], Items]

_MAX_COMPLETIONS: Final = 200
"""Maximum number of completions for a shell."""


def complete_values(command: click.Command) -> None:
    """Add shell completion to the parameters of a command and of its subcommands.

    Completion goes by the parameter's name, so that no command can lack it.
    """
    for parameter in command.params:
        completer = _COMPLETERS.get(parameter.name or "")
        if completer and isinstance(parameter.type, click.types.StringParamType):
            parameter.shell_complete = _ignore_errors(completer)  # type: ignore[method-assign, assignment]
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            complete_values(subcommand)


def _ignore_errors(completer: Completer) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        try:
            return list(
                islice(
                    (item for item in completer(ctx, incomplete) if _is_candidate(item, incomplete)), _MAX_COMPLETIONS
                )
            )
        except (LongshoreError, OSError):
            # A user who is still typing has no use for an error.
            return []

    return complete


def _is_candidate(item: CompletionItem[str], incomplete: str) -> bool:
    # A line feed or comma inside would be read as the end of the value.
    is_safe = item.value.isprintable() and "," not in item.value
    return item.type != "plain" or (item.value.startswith(incomplete) and is_safe)


def _complete_runs(ctx: click.Context, incomplete: str) -> Iterator[CompletionItem[str]]:
    from longshore.rundir.find_run import is_last_meant, newest_runs
    from longshore.rundir.registry import read_entries

    if "/" in incomplete or incomplete.startswith((".", "~")):
        # An archive of a run is a file.
        yield CompletionItem(incomplete, type="file" if ctx.info_name in _ARCHIVE_READERS else "dir")
        return
    if ctx.info_name in _ARCHIVE_READERS:
        yield from _complete_archives(incomplete)
    runs = newest_runs(read_entries())
    if runs and (ctx.info_name in _LOOKS or is_last_meant()):
        yield CompletionItem("@last", help=f"newest: {runs[0].name}")
    for entry in runs:
        yield CompletionItem(entry.id, help=entry.name)


def _complete_archives(incomplete: str) -> Iterator[CompletionItem[str]]:
    """Complete archives in the working directory."""
    from longshore.rundir.archive_names import archive_suffix

    with os.scandir() as entries:
        names = sorted(entry.name for entry in entries if archive_suffix(entry.name) and entry.is_file())
    for name in names if incomplete else ():
        yield CompletionItem(name, help="archive of a run")


def _complete_kinds(_: click.Context, __: str) -> Items:
    """Complete a kind of files; behind a comma, shells read the next word."""
    from longshore.cli.space import KINDS

    return map(CompletionItem, KINDS)


def _complete_jobs(ctx: click.Context, incomplete: str) -> Iterator[CompletionItem[str]]:
    from longshore.rundir.job_table import job_names

    run = _named_run(ctx)
    if run is None:
        return
    for name, label in job_names(run.run):
        if name.startswith(incomplete):
            yield CompletionItem(name, help=label)


def _complete_labels(ctx: click.Context, _: str) -> Iterator[CompletionItem[str]]:
    run = _named_run(ctx)
    if run is not None:
        for label, count in run.card.labels.items():
            yield CompletionItem(label, help=f"{count} job" + ("" if count == 1 else "s"))


def _complete_references(ctx: click.Context, incomplete: str) -> Iterator[CompletionItem[str]]:
    """Complete runs, and behind a run its labels too."""
    if next(_typed_arguments(ctx), None):
        # The first word may be the one that is typed, and no run yet.
        with suppress(LongshoreError):
            yield from list(_complete_labels(ctx, incomplete))
    yield from _complete_runs(ctx, incomplete)


def _named_run(ctx: click.Context) -> OpenRun | None:
    """The run that the words before name."""
    from longshore.runstate.open_run import open_run

    reference = next((ctx.params[name] for name in _RUN_PARAMETERS if isinstance(ctx.params.get(name), str)), None)
    # Where the value of an option is being typed, click has no arguments yet.
    reference = reference or next(_typed_arguments(ctx), None)
    return open_run(reference) if reference else None


def _typed_arguments(ctx: click.Context) -> Iterator[str]:
    """Arguments on the command line so far, without options and their values."""
    words = split_arg_string(os.environ.get("COMP_LINE") or os.environ.get("COMP_WORDS", ""))
    if ctx.info_name not in words:
        return
    with_value = {
        name
        for parameter in ctx.command.params
        if isinstance(parameter, click.Option) and not parameter.is_flag
        for name in parameter.opts
    }
    previous = ""
    for word in words[words.index(ctx.info_name) + 1 :]:
        if not word.startswith("-") and previous not in with_value:
            yield word
        previous = word


def _complete_sites(_: click.Context, __: str) -> Iterator[CompletionItem[str]]:
    from longshore.sites.site import list_sites

    for site in list_sites():
        yield CompletionItem(site.name, help=site.title or site.service or None)


def _complete_site_names(ctx: click.Context, incomplete: str) -> Items:
    return _complete_sites(ctx, incomplete) if ctx.info_name in {"show", "check", "set-state"} else ()


def _complete_services(_: click.Context, __: str) -> Iterator[CompletionItem[str]]:
    from longshore.config.service_lookup import service_names

    return map(CompletionItem, service_names())


def _complete_settings(ctx: click.Context, incomplete: str) -> Items:

    return offer_settings(incomplete, next(_typed_arguments(ctx), None))


def _complete_keys(ctx: click.Context, incomplete: str) -> Items:

    return offer_keys(incomplete, next(_typed_arguments(ctx), None))


def _complete_pairs(ctx: click.Context, incomplete: str) -> Items:
    """Complete what `set` changes for jobs, and what `restart` changes beside, with the labels of the run."""
    if ctx.info_name == "set":
        return offer_changes()
    run = None
    with suppress(LongshoreError):
        run = _named_run(ctx)
    return offer_settings(incomplete, None, run.card.labels if run else ())


_ARCHIVE_READERS: Final = frozenset(
    {
        "report",
        "status",
        "logs",
        "explain",
        "show-job",
        "draw",
        "events",
        "export",
        "stats",
        "suggest-resources",
        "forget",
    }
)
"""Commands that take an archive of a run as well."""
_LOOKS: Final = (_ARCHIVE_READERS - {"forget"}) | {"verify"}
"""Commands that change no run; the others take only an ``@last`` that was submitted from here."""
_RUN_PARAMETERS: Final = ("run", "reference")
_COMPLETERS: Final[Mapping[str, Completer]] = {
    **dict.fromkeys([*_RUN_PARAMETERS, "runs"], _complete_runs),
    "references": _complete_references,
    "job": _complete_jobs,
    "jobs": _complete_jobs,
    "label": _complete_labels,
    "labels": _complete_labels,
    "sets": _complete_settings,
    "pairs": _complete_pairs,
    "keys": _complete_keys,
    "from_labels": _complete_labels,
    "compute_site": _complete_sites,
    "site": _complete_sites,
    "name": _complete_site_names,
    "wms_service_class": _complete_services,
    "what": _complete_kinds,
}
"""Completion function per parameter name."""
