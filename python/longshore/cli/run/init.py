"""``longshore init``: writes a commented file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from longshore.config.plugins import write_starter_files


@click.command(epilog="Example: longshore init --kind script trial")
@click.option(
    "--kind",
    type=click.Choice(["pipeline", "script", "lsst", "site"]),
    default="pipeline",
    show_default=True,
    help="Kind of example: a pipeline of your own commands, one script, an LSST pipeline, a site profile.",
)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path())
def init_command(kind: str, folder: Path) -> None:
    """Write a commented example to start from into DIR (default: the current directory); never overwrites."""
    from longshore.cli.show.format import escape_controls

    if folder.suffix in {".yaml", ".yml"} and not folder.is_dir():
        raise click.UsageError(f"'{folder}' is the name of a file, and this command writes into a directory.")
    written, following = write_starter_files(kind, folder)
    for path in written:
        click.echo(escape_controls(f"Wrote {path}"))
    click.echo(escape_controls(f"Next: {following}"))
