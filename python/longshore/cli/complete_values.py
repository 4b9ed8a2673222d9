"""Shell completion of values: runs, jobs, labels, sites and services."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import click
from click.shell_completion import CompletionItem, split_arg_string

from longshore.app import api
from longshore.errors import LongshoreError

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun

Items: TypeAlias = "Iterable[CompletionItem[str]]"
Completer: TypeAlias = Callable[[click.Context, str], Items]

_MOST: Final = 200
"""Maximum number of completions for a shell."""


def complete_values(command: click.Command) -> None:
    """Add shell completion to the parameters of a command and of its subcommands.

    Completion goes by the parameter's name, so that no command can lack it.
    """
    for parameter in command.params:
        completer = _BY_NAME.get(parameter.name or "")
        if completer and isinstance(parameter.type, click.types.StringParamType):
            parameter.shell_complete = _safely(completer)  # type: ignore[method-assign, assignment]
    if isinstance(command, click.Group):
        for below in command.commands.values():
            complete_values(below)


def _safely(completer: Completer) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        try:
            return list(islice((item for item in completer(ctx, incomplete) if _fits(item, incomplete)), _MOST))
        except (LongshoreError, OSError):
            # A user who is still typing has no use for an error.
            return []

    return complete


def _fits(item: CompletionItem[str], incomplete: str) -> bool:
    # A line feed or comma inside would be read as the end of the value.
    plain = item.value.isprintable() and "," not in item.value
    return item.type != "plain" or (item.value.startswith(incomplete) and plain)


def _runs(_: click.Context, incomplete: str) -> Iterator[CompletionItem[str]]:
    if "/" in incomplete or incomplete.startswith((".", "~")):
        yield CompletionItem(incomplete, type="dir")
        return
    known = api.known_runs()
    if known:
        yield CompletionItem("@last", help=f"the newest: {known[0][1]}")
    for name, title in known:
        yield CompletionItem(name, help=title)


def _jobs(ctx: click.Context, incomplete: str) -> Iterator[CompletionItem[str]]:
    opened = _chosen(ctx)
    if opened is None:
        return
    for name, label in api.job_names(opened):
        if name.startswith(incomplete):
            yield CompletionItem(name, help=label)


def _labels(ctx: click.Context, _: str) -> Iterator[CompletionItem[str]]:
    opened = _chosen(ctx)
    if opened is not None:
        for label, count in opened.card.labels.items():
            yield CompletionItem(label, help=f"{count} job" + ("" if count == 1 else "s"))


def _chosen(ctx: click.Context) -> OpenRun | None:
    """The run that the words before name."""
    reference = next((ctx.params[name] for name in _NAMES_OF_RUNS if isinstance(ctx.params.get(name), str)), None)
    # Where the value of an option is being typed, click has no arguments yet.
    reference = reference or next(_arguments(ctx), None)
    return api.open_run(reference) if reference else None


def _arguments(ctx: click.Context) -> Iterator[str]:
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
    before = ""
    for word in words[words.index(ctx.info_name) + 1 :]:
        if not word.startswith("-") and before not in with_value:
            yield word
        before = word


def _sites(_: click.Context, __: str) -> Iterator[CompletionItem[str]]:
    for site in api.sites():
        yield CompletionItem(site.name, help=site.title or site.service or None)


def _of_site_show(ctx: click.Context, incomplete: str) -> Items:
    return _sites(ctx, incomplete) if ctx.info_name == "show" else ()


def _services(_: click.Context, __: str) -> Iterator[CompletionItem[str]]:
    return map(CompletionItem, api.services())


_NAMES_OF_RUNS: Final = ("run", "reference")
_BY_NAME: Final[Mapping[str, Completer]] = {
    **dict.fromkeys([*_NAMES_OF_RUNS, "runs"], _runs),
    "job": _jobs,
    "jobs": _jobs,
    "label": _labels,
    "labels": _labels,
    "from_labels": _labels,
    "compute_site": _sites,
    "site": _sites,
    "name": _of_site_show,
    "wms_service_class": _services,
}
"""Completion function per parameter name."""
