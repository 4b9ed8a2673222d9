"""``longshore site``: lists sites, and shows the profile of one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from longshore.app import api
from longshore.cli.options import JSON, print_json

if TYPE_CHECKING:
    from longshore.app.configure.site_list import KnownSite, SiteDescription

SITE_PATH: Final = click.option(
    "--site-path", multiple=True, metavar="DIR", help="Look for profiles of sites here first. Can be repeated."
)


@click.group(epilog="Example: longshore site list")
def command() -> None:
    """Look at the sites that jobs can run at."""


@command.command("list", epilog="Example: longshore site list --json")
@SITE_PATH
@JSON
def list_command(*, site_path: tuple[str, ...], as_json: bool) -> None:
    """List all sites: profiles on the search path, and sections of the configuration of this machine and user."""
    found = api.sites(site_path)
    if as_json:
        from longshore.app.documents.site import sites_document

        print_json(sites_document(found, as_of=time.time()))
        return
    from longshore.cli.show.format import escape_controls

    widths = [max(len(text) for text in texts) for texts in zip(*(_cells(each)[:2] for each in found), strict=True)]
    for each in found:
        name, service, rest = _cells(each)
        click.echo(escape_controls(f"{name:{widths[0]}}  {service:{widths[1]}}  {rest}".rstrip()))


@command.command("show", epilog="Example: longshore site show local")
@click.argument("name")
@SITE_PATH
@JSON
def show_command(*, name: str, site_path: tuple[str, ...], as_json: bool) -> None:
    """Show what is said of a site, with all it inherits, and where each value was written."""
    shown = api.site(name, site_path)
    if as_json:
        from longshore.app.documents.site import site_profile_document

        print_json(site_profile_document(shown, as_of=time.time()))
        return
    from longshore.cli.show.format import escape_controls

    for line in _lines(shown):
        click.echo(escape_controls(line))


def _cells(site: KnownSite) -> tuple[str, str, str]:
    rest = f"cannot be used: {site.error}" if site.error else site.title
    return site.name, site.service or "-", f"{rest} ({site.origin})" if rest else f"({site.origin})"


def _lines(shown: SiteDescription) -> list[str]:
    """One line per value, in YAML where a line suffices, with its origin as a comment."""
    from longshore.app.documents.document import to_json

    listed = shown.entry
    lines = [f"# {listed.name}: {listed.title or 'a site'}, {listed.place}"]
    if shown.chain[1:]:
        lines.append(f"# from {', then '.join(shown.chain)}")
    for steps, (value, origin) in shown.origins.items():
        said = value if isinstance(value, str) and value.isprintable() else to_json(value)
        lines.append(f"{'.'.join(steps)}: {said}  # {origin}")
    return lines
