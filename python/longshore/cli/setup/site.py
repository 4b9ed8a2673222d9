"""``longshore site``: lists sites, and shows the profile of one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from longshore.app import api
from longshore.cli.options import JSON, SITE_PATH, print_json
from longshore.cli.setup.site_choice import match_command, set_state_command

if TYPE_CHECKING:
    from longshore.app.configure.site_list import KnownSite, SiteDescription


@click.group(epilog="Example: longshore site list")
def command() -> None:
    """List sites, or show the profile of one."""


command.add_command(match_command)
command.add_command(set_state_command)


@command.command("list", epilog="Example: longshore site list --json")
@SITE_PATH
@JSON
def list_command(*, site_path: tuple[str, ...], as_json: bool) -> None:
    """List all sites: profiles on the search path, and sections of the machine's and user's configuration."""
    listed_sites = api.sites(site_path)
    if as_json:
        from longshore.app.documents.site import sites_document

        print_json(sites_document(listed_sites, as_of=time.time()))
        return
    from longshore.cli.show.format import escape_controls

    widths = [
        max(len(text) for text in texts) for texts in zip(*(_cells(each)[:2] for each in listed_sites), strict=True)
    ]
    for each in listed_sites:
        name, service, note = _cells(each)
        click.echo(escape_controls(f"{name:{widths[0]}}  {service:{widths[1]}}  {note}".rstrip()))


@command.command("show", epilog="Example: longshore site show local")
@click.argument("name")
@SITE_PATH
@JSON
def show_command(*, name: str, site_path: tuple[str, ...], as_json: bool) -> None:
    """Show the profile of a site with inherited values, and the origin of each."""
    shown = api.site(name, site_path)
    if as_json:
        from longshore.app.documents.site import site_profile_document

        print_json(site_profile_document(shown, as_of=time.time()))
        return
    from longshore.cli.show.format import escape_controls

    for line in _profile_lines(shown):
        click.echo(escape_controls(line))


def _cells(site: KnownSite) -> tuple[str, str, str]:
    note = (
        f"cannot be used: {site.error}" if site.error else f"disabled: {site.disabled}" if site.disabled else site.title
    )
    return site.name, site.service or "-", f"{note} ({site.origin})" if note else f"({site.origin})"


def _profile_lines(shown: SiteDescription) -> list[str]:
    """One line per value, in YAML where a line suffices, with its origin as a comment."""
    from longshore.app.documents.document import to_json

    listed = shown.entry
    lines = [f"# {listed.name}: {listed.title or 'a site'}, {listed.place}"]
    if shown.chain[1:]:
        lines.append(f"# from {', then '.join(shown.chain)}")
    for steps, (value, origin) in shown.origins.items():
        text = value if isinstance(value, str) and value.isprintable() else to_json(value)
        lines.append(f"{'.'.join(steps)}: {text}  # {origin}")
    return lines
