"""``longshore forget``: removes runs from the registry."""

from __future__ import annotations

import time

import click

from longshore.app import api
from longshore.cli.options import JSON, print_json


@click.command(epilog="Example: longshore forget k7f3aa")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Even if it still runs; it goes on.")
@JSON
def command(runs: tuple[str, ...], *, force: bool, as_json: bool) -> None:
    """Forget runs: they are no longer listed, nor named by their ids. Their directories stay as they are."""
    from longshore.cli.show.registry import forgotten_line

    forgotten = []
    for reference in runs:
        forgotten.append(api.forget(reference, force=force))
        if not as_json:
            click.echo(forgotten_line(forgotten[-1]))
    if as_json:
        from longshore.app.documents.registry import forget_document

        print_json(forget_document(forgotten, as_of=time.time()))
