"""``longshore site``: lists sites, and shows, checks or writes the profile of one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, SERVICE, SITE_PATH, print_json
from longshore.cli.setup.site_choice import match_command, set_state_command
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longshore.plan.site_check import SiteCheck
    from longshore.sites.site import KnownSite, SiteDescription


@click.group(epilog="Example: longshore site list")
def site_command() -> None:
    """List sites; show, check or write the profile of one; choose one for a run."""


site_command.add_command(match_command)
site_command.add_command(set_state_command)


@site_command.command("list", epilog="Example: longshore site list --json")
@SITE_PATH
@JSON
def list_command(*, site_path: tuple[str, ...], as_json: bool) -> None:
    """List all sites: profiles on the search path, and sections of the machine's and user's configuration."""
    from longshore.sites.site import list_sites

    listed_sites = list_sites(site_path)
    if as_json:
        from longshore.reports.documents.site import sites_document

        print_json(sites_document(listed_sites, as_of=time.time()))
        return
    from longshore.cli.show.format import escape_controls

    widths = [
        max(len(text) for text in texts) for texts in zip(*(_cells(each)[:2] for each in listed_sites), strict=True)
    ]
    for each in listed_sites:
        name, service, note = _cells(each)
        click.echo(escape_controls(f"{name:{widths[0]}}  {service:{widths[1]}}  {note}".rstrip()))


@site_command.command("show", epilog="Example: longshore site show local")
@click.argument("name")
@SITE_PATH
@JSON
def show_command(*, name: str, site_path: tuple[str, ...], as_json: bool) -> None:
    """Show the profile of a site with inherited values, and the origin of each."""
    from longshore.sites.site import show_site

    shown = show_site(name, site_path)
    if as_json:
        from longshore.reports.documents.site import site_profile_document

        print_json(site_profile_document(shown, as_of=time.time()))
        return
    from longshore.cli.show.format import escape_controls

    for line in _profile_lines(shown):
        click.echo(escape_controls(line))


@site_command.command("check", epilog="Example: longshore site check cluster --site-path ./sites")
@click.argument("name")
@SITE_PATH
@JSON
@click.pass_context
def check_command(ctx: click.Context, /, *, name: str, site_path: tuple[str, ...], as_json: bool) -> None:
    """Check the profile of a site, and compare it with what its workload manager answers.

    The exit status is 0 if no error was found, 3 if the profile cannot be read or has a wrong value, else 4.
    """
    from longshore.plan.site_check import check_site

    check = check_site(name, site_path, now=time.time())
    if as_json:
        from longshore.reports.documents.site import site_check_document

        print_json(site_check_document(check, as_of=time.time()))
    else:
        from longshore.cli.show.format import escape_controls

        for line in _check_lines(check):
            click.echo(escape_controls(line))
    ctx.exit(check.exit_status)


@site_command.command("init", epilog="Example: longshore site init cluster --output ./sites")
@click.argument("new_name", metavar="NAME")
@SERVICE
@click.option(
    "--output",
    metavar="DIR",
    help="Directory of the profile, by default that of the user; - prints it instead.",
)
@JSON
def init_command(*, new_name: str, wms_service_class: str | None, output: str | None, as_json: bool) -> None:
    """Write a profile from what a workload manager answers: its partitions with their limits, and the account."""
    from longshore.sites.new_profile import write_profile

    is_written = output != "-"
    folder = Path(output) if output and is_written else None
    profile = write_profile(new_name, wms_service_class, folder=folder, is_written=is_written, now=time.time())
    if as_json:
        from longshore.reports.documents.site import new_profile_document

        print_json(new_profile_document(profile, as_of=time.time()))
    elif profile.path is None:
        click.echo(profile.text, nl=False)
    else:
        where = f" --site-path {output}" if output else ""
        click.echo(f"wrote '{profile.path}' for the service '{profile.service}'")
        click.echo(f"next: longshore site check {new_name}{where}")


def _check_lines(check: SiteCheck) -> Iterator[str]:
    """Describe each problem with its place and its mend, then the result in a line."""
    for each in check.problems:
        place = f"{each.origin}: " if each.origin else ""
        yield f"{place}{'error' if each.fatal else 'note'}: {each.message}"
        if each.hint:
            yield f"  {each.hint}"
    errors = sum(each.fatal for each in check.problems)
    if check.is_empty:
        yield f"{check.name}: nothing to check"
    elif check.report is None:
        yield f"{check.name}: {count_noun(errors, 'error')}; '{check.service}' was not asked"
    elif errors:
        yield f"{check.name}: {count_noun(errors, 'error')}"
    else:
        yield f"{check.name}: ok: {check.report.message}"


def _cells(site: KnownSite) -> tuple[str, str, str]:
    note = (
        f"cannot be used: {site.error}" if site.error else f"disabled: {site.disabled}" if site.disabled else site.title
    )
    return site.name, site.service or "-", f"{note} ({site.origin})" if note else f"({site.origin})"


def _profile_lines(shown: SiteDescription) -> list[str]:
    """One line per value, in YAML where a line suffices, with its origin as a comment."""
    from longshore.reports.documents.document import to_json

    listed = shown.entry
    lines = [f"# {listed.name}: {listed.title or 'a site'}, {listed.place}"]
    if shown.chain[1:]:
        lines.append(f"# from {', then '.join(shown.chain)}")
    for steps, (value, origin) in shown.origins.items():
        text = value if isinstance(value, str) and value.isprintable() else to_json(value)
        lines.append(f"{'.'.join(steps)}: {text}  # {origin}")
    return lines
