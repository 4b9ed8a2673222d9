"""Shell completion of values: runs, jobs, labels, sites, services and keys of the configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import click
from click.shell_completion import CompletionItem, split_arg_string

from longshore.errors import LongshoreError

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun

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
    from longshore.cli.control.clean import KINDS

    return map(CompletionItem, KINDS)


def _complete_jobs(ctx: click.Context, incomplete: str) -> Iterator[CompletionItem[str]]:
    from longshore.engine.rundir.job_table import job_names

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
    from longshore.app.runs.open_run import open_run

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
    from longshore.cli.complete_keys import complete_settings

    return complete_settings(incomplete, next(_typed_arguments(ctx), None))


def _complete_keys(ctx: click.Context, incomplete: str) -> Items:
    from longshore.cli.complete_keys import complete_keys

    return complete_keys(incomplete, next(_typed_arguments(ctx), None))


def _complete_pairs(ctx: click.Context, incomplete: str) -> Items:
    """Complete what `set` changes for jobs, and what `restart` changes beside, with the labels of the run."""
    from longshore.cli.complete_keys import complete_changes, complete_settings

    if ctx.info_name == "set":
        return complete_changes()
    run = None
    with suppress(LongshoreError):
        run = _named_run(ctx)
    return complete_settings(incomplete, None, run.card.labels if run else ())


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
