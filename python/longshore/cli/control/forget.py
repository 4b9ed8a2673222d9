"""``longshore forget``: removes runs from the registry."""

from __future__ import annotations

import time

import click

from longshore.app import api
from longshore.cli.options import JSON, print_json


@click.command(epilog="Example: longshore forget k7f3aa")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Even if the run is live; it continues.")
@JSON
def command(runs: tuple[str, ...], *, force: bool, as_json: bool) -> None:
    """Remove runs from the registry: they are no longer listed or found by id. Their directories stay."""
    from longshore.cli.show.adopt_forget_text import forgotten_line

    forgotten = []
    for reference in runs:
        forgotten.append(api.forget(reference, force=force))
        if not as_json:
            click.echo(forgotten_line(forgotten[-1]))
    if as_json:
        from longshore.app.documents.adopt_forget import forget_document

        print_json(forget_document(forgotten, as_of=time.time()))
