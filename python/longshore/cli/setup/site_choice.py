"""``longshore site match`` and ``site set-state``: the site that a run would get, and the state of a site."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, SITE_PATH, print_json
from longshore.cli.parameter_types import WholeNumber
from longshore.cli.submit_options import CONFIG_FILE, submission_options

if TYPE_CHECKING:
    from longshore.config.layers import Overrides
    from longshore.model.sites import CandidateRecord, SiteDecision, SiteValue

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
    from longshore.cli.show.format import escape_controls

    for line in _value_lines(state.counted_values(now), now):
        click.echo(escape_controls(line))


def _print_decision(decision: SiteDecision, *, explain: bool) -> None:
    from longshore.cli.show.format import escape_controls

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
