"""``longshore forget``: removes runs from the registry."""

from __future__ import annotations

import time

import click

from longshore.cli.options import JSON, print_json
from longshore.control.adopt import forget_missing_runs, forget_run


@click.command(epilog="Example: longshore forget k7f3aa    or: longshore forget --missing")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--missing", is_flag=True, help="All runs whose directories were removed or moved.")
@click.option("--force", is_flag=True, help="Even if the run is live; it continues.")
@JSON
def forget_command(runs: tuple[str, ...], *, missing: bool, force: bool, as_json: bool) -> None:
    """Remove runs from the registry: they are no longer listed or found by id. Their directories stay."""
    from longshore.cli.show.adopt_forget_text import forgotten_line

    if not runs and not missing:
        raise click.UsageError("Name the runs, as in 'longshore forget @last', or use --missing.")
    forgotten = forget_missing_runs() if missing else []
    if not as_json:
        for each in forgotten:
            click.echo(forgotten_line(each))
    for reference in runs:
        forgotten.append(forget_run(reference, force=force))
        if not as_json:
            click.echo(forgotten_line(forgotten[-1]))
    if as_json:
        from longshore.control.documents import forget_document

        print_json(forget_document(forgotten, as_of=time.time()))
