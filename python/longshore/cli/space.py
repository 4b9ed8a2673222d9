"""Disk space of runs that are over: ``archive`` packs one into a file, ``clean`` removes what can go."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

import click

from longshore.cli.logging_setup import LogProgress
from longshore.cli.options import JSON, NonEmptyPath
from longshore.cli.terminal import print_json
from longshore.control.clean import (
    CleanPlan,
    CleanRequest,
    CleanResult,
    RemovableFile,
    RemovableKind,
    clean,
    plan_clean,
)
from longshore.model.report import escape_controls, format_size
from longshore.model.wording import count_noun
from longshore.runstate.open_run import open_run

_MAX_DAMAGES: Final = 3


@click.command(epilog="Example: longshore archive @last    then: longshore report --id FILE.tar.xz")
@click.argument("run")
@click.option(
    "--output",
    type=NonEmptyPath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The archive: FILE.tar.xz, FILE.tar.gz or FILE.tar.bz2 (default: beside the run directory).",
)
@click.option("--remove", is_flag=True, help="Remove the run directory once the archive was read back and compared.")
@JSON
def archive_command(*, run: str, output: Path | None, remove: bool, as_json: bool) -> None:
    """Write a run that is over into one file, which report, status, logs, explain, stats and events read.

    With --remove, the id of the run leads to the archive from then on.
    """
    from longshore.control.archive import archive_run

    result = archive_run(open_run(run, acts=True), output, remove=remove, progress=LogProgress())
    if as_json:
        from longshore.control.documents import archive_document

        print_json(archive_document(result, as_of=time.time()))
        return

    files = f"{count_noun(result.files, 'file')} of {format_size(result.content_b)}"
    click.echo(
        escape_controls(f"archived run '{result.run}' in '{result.path}': {files}, {format_size(result.size_b)}")
    )
    for name in result.left_out:
        click.echo(escape_controls(f"longshore: not in the archive: '{name}' is a link, pipe or socket"), err=True)
    for damage in result.damages[:_MAX_DAMAGES]:
        click.echo(
            escape_controls(f"longshore: warning: the run is damaged, and so is its archive: {damage}"), err=True
        )
    if more := result.damages[_MAX_DAMAGES:]:
        words = f"longshore: warning: {len(more)} more damages; to see them: longshore verify {quote(run)}"
        click.echo(escape_controls(words), err=True)
    if result.removed:
        click.echo("removed the run directory")


NOT_REMOVED: Final = 1
"""Exit status if a file could not be removed, or a folder not be looked into."""
KINDS: Final = ("caches", "logs", "temporary")
_UNITS: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def _parse_age(_: click.Context, __: click.Parameter, value: str | None) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([mhdw])", value or "0d")
    if match is None:
        raise click.BadParameter(f"'{value}' is no age; write a number and m, h, d or w, such as 30d")
    return float(match[1]) * _UNITS[match[2]]


def _parse_kinds(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(kind.strip() for kind in value.split(","))) if value is not None else KINDS
    for kind in kinds:
        if kind not in KINDS:
            raise click.BadParameter(f"'{kind}' is none of {', '.join(KINDS)}")
    return kinds


@click.command(epilog="Example: longshore clean --older-than 30d    then the same with: --yes")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--older-than", metavar="AGE", callback=_parse_age, help="Only runs that ended that long ago: 30d, 12h.")
@click.option(
    "--what", metavar="KINDS", callback=_parse_kinds, help="Some of caches,logs,temporary, by commas (default: all)."
)
@click.option("--yes", is_flag=True, help="Remove the files; without it they are only shown.")
@click.option("--list", "lists", is_flag=True, help="Print the path of each file.")
@JSON
@click.pass_context
def clean_command(
    ctx: click.Context,
    /,
    *,
    runs: tuple[str, ...],
    older_than: float,
    what: tuple[str, ...],
    yes: bool,
    lists: bool,
    as_json: bool,
) -> None:
    """Show what can go from runs that are over, and remove it with --yes.

    Caches can be made again. Logs are those of the attempts with which jobs succeeded; those of failed attempts stay.
    Temporary files are what killed commands left. Without RUN, all runs of yours are cleaned, and your own caches.
    """
    now = time.time()
    plan = plan_clean(
        CleanRequest(references=runs, kinds=tuple(map(RemovableKind, what)), older_than_s=older_than), now=now
    )
    result = clean(plan, now=now) if yes else None
    if as_json:
        from longshore.control.documents import clean_document

        print_json(clean_document(plan, result, as_of=now))
    else:
        _print_plan(plan, lists=lists)
        _print_result(plan, result)
    ctx.exit(NOT_REMOVED if result and (result.failed or plan.unread) else 0)


def _print_plan(plan: CleanPlan, *, lists: bool) -> None:
    for group in plan.groups:
        card = group.opened.card if group.opened else None
        owner = f"run '{card.id}' ({card.name})" if card else "your caches and what killed commands left"
        parts = [
            f"{kind} {describe_amount(files)}"
            for kind in KINDS
            if (files := [file for file in group.files if file.kind == kind])
        ]
        click.echo(escape_controls(f"{owner}: {', '.join(parts)}"))
        for file in group.files if lists else ():
            slash = "/" if file.is_folder else ""
            click.echo(escape_controls(f"  {file.kind:<9} {format_size(file.size_b):>9} {file.path}{slash}"))
    for run, reason in plan.skipped:
        click.echo(escape_controls(f"run '{run}' stays as it is: {reason}"))
    for folder, reason in plan.unread.items():
        words = f"longshore: '{folder}' was not looked into, so its content stays: {reason}"
        click.echo(escape_controls(words), err=True)


def _print_result(plan: CleanPlan, result: CleanResult | None) -> None:
    if result is None:
        hint = "; add --yes to remove it" if plan.files else ""
        click.echo(f"can be removed: {describe_amount(plan.files)}{hint}")
        return
    for files, why in _group_failed(plan, result):
        more = f" and {count_noun(len(files) - 1, 'more file')} below '{_common_folder(files)}'" if files[1:] else ""
        verb = "are" if more else "is"
        click.echo(escape_controls(f"longshore: '{files[0].path}'{more} {verb} not removed: {why}"), err=True)
    click.echo(f"removed: {describe_amount(result.removed)}")


def _group_failed(plan: CleanPlan, result: CleanResult) -> list[tuple[list[RemovableFile], str]]:
    """Return the files that were not removed, those of one run with one reason together."""
    group_of = {id(file): number for number, group in enumerate(plan.groups) for file in group.files}
    found: dict[tuple[int, str], list[RemovableFile]] = {}
    for file, why in result.failed:
        found.setdefault((group_of[id(file)], why), []).append(file)
    return [(files, why) for (_, why), files in found.items()]


def _common_folder(removable: Sequence[RemovableFile]) -> str:
    """Return the folder that all of these files are below."""
    return os.path.commonpath([file.path.parent for file in removable])


def describe_amount(removable: Collection[RemovableFile]) -> str:
    """Return the number of files and folders, and their size."""
    sizes = [file.size_b for file in removable if not file.is_folder]
    folder_sizes = [file.size_b for file in removable if file.is_folder]
    parts = [count_noun(len(sizes), "file")] if sizes or not folder_sizes else []
    parts += [count_noun(len(folder_sizes), "folder")] if folder_sizes else []
    return f"{' and '.join(parts)} of {format_size(sum(sizes) + sum(folder_sizes))}"
