"""Options that several commands share, and records of options for commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar, cast

import click
import msgspec

Command = TypeVar("Command", bound=Callable[..., object])

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
IMPORT = click.option(
    "--import", "imports_code", is_flag=True, help="Import and call code that only FILE names, as submit does."
)
ACCEPT_LOSS = click.option(
    "--accept-loss", is_flag=True, help="Continue from what is intact of a damaged journal; jobs may run again."
)
SHARE_OUTPUTS = click.option(
    "--share-outputs", is_flag=True, help="Even if another live run of yours writes the same files."
)
PASS_THRU = click.option(
    "--pass-thru", metavar="TEXT", default="", help="Options for the workload manager, as its own program takes them."
)
GLOBAL = click.option(
    "--global/--no-global", "is_global", default=False, help="Search all queues of the workload manager."
)
SERVICE = click.option("--wms-service-class", metavar="NAME", help="Service of the workload manager.")
SITE_PATH = click.option(
    "--site-path", multiple=True, metavar="DIR", help="Search site profiles here first. Can be repeated."
)
_RUN_ID = click.option(
    "--id", "reference", metavar="RUN", help="The run: its id, the beginning of its id, its directory, or @last."
)
_RUN = click.argument("run", required=False)


class OptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Values of some options of a command; each field has the name of an option."""


class SearchOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: where to search for unknown runs, and how far back."""

    wms_service_class: str | None
    is_global: bool
    hist: float | None


def group_options(**records: type[OptionRecord]) -> Callable[[Command], Command]:
    """Pass options to a command as records, one parameter per record."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_records(*args: object, **values: Any) -> object:
            made = {
                name: record(**{field: values.pop(field) for field in record.__struct_fields__})
                for name, record in records.items()
            }
            return command(*args, **made, **values)

        return cast("Command", with_records)

    return decorate


def run_option(*, required: bool = True) -> Callable[[Command], Command]:
    """Add the parameter `run`: the run of ``--id``, as in BPS, or an argument."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_run(*args: object, reference: str | None, run: str | None, **values: object) -> object:
            named = _named_run(reference, run)
            if required and named is None:
                raise click.UsageError(f"Name the run: longshore {click.get_current_context().info_name} RUN.")
            return command(*args, run=named, **values)

        return cast("Command", _RUN_ID(_RUN(with_run)))

    return decorate


def _named_run(reference: str | None, argument: str | None) -> str | None:
    if reference and argument and reference != argument:
        raise click.UsageError(f"Two runs are named: '{argument}' and --id '{reference}'.")
    named = argument if reference is None else reference
    if named == "":
        # An empty variable of a shell script must not mean "all runs".
        raise click.UsageError("The name of the run is empty.")
    return named


def print_json(document: object) -> None:
    """Print a JSON document."""
    from longshore.reports.documents.document import to_json

    click.echo(to_json(document))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes for the user to standard error."""
    for note in notes:
        click.echo(f"longshore: {note}", err=True)
