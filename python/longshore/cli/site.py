"""``longshore site``: lists, shows, checks, writes and chooses sites, and sets their state."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import CONFIG_FILE, JSON, SERVICE, SITE_PATH, WholeNumber, submission_options
from longshore.cli.terminal import print_json
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.config.layers import Overrides
    from longshore.model.sites import CandidateRecord, SiteDecision, SiteValue
    from longshore.plan.site_check import SiteCheck
    from longshore.sites.site import KnownSite, SiteDescription

NONE_PASSES = 6
"""Exit status if no site passes, as of a submission that is refused."""


@click.command("match", epilog="Example: longshore site match mosaic.yaml --explain")
@CONFIG_FILE
@submission_options
@click.option("--explain", is_flag=True, help="Print of each candidate what it lacks, and each step of the selection.")
@click.option("--seed", type=WholeNumber(min=0), help="Seed of chance, instead of siteSelection.select.seed.")
@click.option(
    "--probe/--no-probe",
    "with_probe",
    default=True,
    help="Whether to ask the workload manager of the site, and pass over one that cannot be used now.",
)
@JSON
@click.pass_context
def match_command(
    ctx: click.Context,
    /,
    *,
    config_file: Path,
    overrides: Overrides,
    explain: bool,
    seed: int | None,
    with_probe: bool,
    as_json: bool,
) -> None:
    """Print the site that FILE would be submitted to. Nothing is submitted.

    Candidates are those of 'computeSite'. For a FILE without 'computeSite', they are all described sites; 'submit'
    chooses among these only with 'computeSite: auto'.
    """
    from longshore.plan.site_choice import match_sites

    decision = match_sites(config_file, overrides, seed=seed, with_probe=with_probe)
    if as_json:
        from longshore.reports.documents.site import site_match_document

        print_json(site_match_document(decision))
    else:
        _print_decision(decision, explain=explain)
    if not decision.site:
        ctx.exit(NONE_PASSES)


@click.command("set-state", epilog="Example: longshore site set-state campus nodes_free=12 cost_per_node_hour=0.8")
@click.argument("name")
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@SITE_PATH
@JSON
def set_state_command(*, name: str, values: tuple[str, ...], site_path: tuple[str, ...], as_json: bool) -> None:
    """Set values of a site that the choice of a site may use, and print all. NAME= removes a value; others stay."""
    from longshore.plan.site_choice import change_site_state

    state = change_site_state(name, values, site_path)
    now = time.time()
    if as_json:
        from longshore.reports.documents.site import site_state_document

        print_json(site_state_document(name, state, as_of=now))
        return
    from longshore.model.report import escape_controls

    for line in _value_lines(state.counted_values(now), now):
        click.echo(escape_controls(line))


def _print_decision(decision: SiteDecision, *, explain: bool) -> None:
    from longshore.model.report import escape_controls

    for warning in () if explain else decision.warnings:
        click.echo(escape_controls(f"longshore: warning: {warning}"), err=True)
    for line in _decision_lines(decision, explain=explain):
        click.echo(escape_controls(line))


def _decision_lines(decision: SiteDecision, *, explain: bool) -> Iterator[str]:
    """Yield the chosen site, and with `explain` why."""
    if not explain:
        yield decision.site or "no site passes; --explain shows why"
        return
    if decision.fallback:
        yield decision.summary()
        return
    for candidate in decision.candidates:
        yield from _candidate_lines(candidate, decision.at)
    yield f"selection by '{decision.algorithm}'"
    yield from (f"  {step}" for step in decision.steps)
    yield from (f"warning: {warning}" for warning in decision.warnings)
    yield f"site: {decision.site}" if decision.site else "no site passes"


def _candidate_lines(candidate: CandidateRecord, at: float) -> Iterator[str]:
    if candidate.left_out:
        yield f"{candidate.name}: left out: {candidate.left_out}"
        return
    yield f"{candidate.name}: {'matches' if candidate.matches else 'does not match'}"
    for each in candidate.unmet:
        yield f"  {each.what}: asked {each.asked}, nearest {each.nearest}"
    yield from (f"  {line}" for line in _value_lines(candidate.state, at))


def _value_lines(values: Mapping[str, SiteValue], at: float) -> Iterator[str]:
    """Yield values with their ages."""
    for name, each in values.items():
        value = each.value if isinstance(each.value, str) else f"{each.value:.10g}"
        age = f"{max(0.0, at - each.at):.0f} s ago, by {each.by}" if each.at is not None else "from the profile"
        yield f"{name}: {value} ({age})"


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
    from longshore.model.report import escape_controls

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
    from longshore.model.report import escape_controls

    for line in _profile_lines(shown):
        click.echo(escape_controls(line))


@site_command.command("check", epilog="Example: longshore site check cluster --site-path ./sites")
@click.argument("name")
@SITE_PATH
@JSON
@click.pass_context
def check_command(ctx: click.Context, /, *, name: str, site_path: tuple[str, ...], as_json: bool) -> None:
    """Check the profile of a site, and compare it with what its workload manager answers.

    The exit status is 0 if no error was found, else as of a submission: 3 for a wrong value, 4 if the workload manager
    cannot be used, 7 if it does not have what the profile names.
    """
    from longshore.plan.site_check import check_site

    check = check_site(name, site_path, now=time.time())
    if as_json:
        from longshore.reports.documents.site import site_check_document

        print_json(site_check_document(check, as_of=time.time()))
    else:
        from longshore.model.report import escape_controls

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
