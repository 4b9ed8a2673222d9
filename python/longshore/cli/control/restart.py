"""``longshore restart``: submits again the jobs of a run that did not succeed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from longshore.app import api
from longshore.cli.options import (
    ACCEPT_LOSS,
    JSON,
    SERVICE,
    OptionRecord,
    group_options,
    print_json,
    print_notes,
    run_option,
)

if TYPE_CHECKING:
    from longshore.app.control.restart import RestartPlan


class ChangeOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: changes of a restart."""

    from_labels: tuple[str, ...]
    pairs: tuple[str, ...]
    labels: tuple[str, ...]
    jobs: tuple[str, ...]
    accept_loss: bool


@click.command(
    epilog="Example: longshore restart --id @last --dry-run    or: longshore restart @last --set requestMemory=8G "
    "--label coadd    or: longshore restart @last --from coadd"
)
@run_option()
@SERVICE
@click.option(
    "--rerun-failed",
    is_flag=True,
    expose_value=False,
    help="As in BPS: submit failed, cancelled and pruned jobs again; always done.",
)
@click.option(
    "--from",
    "from_labels",
    multiple=True,
    metavar="LABEL",
    help="Also jobs of that label and their descendants, even those that succeeded. Can be repeated.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change the requests of these jobs: requestMemory, requestCpus, requestDisk, requestWalltime, "
    "requestResources.NAME or numberOfRetries. Can be repeated.",
)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Change only requests of jobs of that label.")
@click.option("--job", "jobs", multiple=True, metavar="NAME", help="Change only the request of that job.")
@click.option("--dry-run", is_flag=True, help="Only print which jobs would run again, and why.")
@ACCEPT_LOSS
@JSON
@group_options(options=ChangeOptions)
def command(*, run: str, wms_service_class: str | None, options: ChangeOptions, dry_run: bool, as_json: bool) -> None:
    """Submit the jobs that did not succeed again, in the same run directory; with --from also others."""
    from longshore.app.documents.restart import restart_document
    from longshore.contract.intervention import JobSelection, RestartChanges

    changes = RestartChanges(
        selection=JobSelection(jobs=options.jobs, labels=options.labels),
        set=api.parse_changes(options.pairs),
        from_labels=tuple(dict.fromkeys(options.from_labels)),
    )
    if not changes.selection.everything and not options.pairs:
        raise click.UsageError(
            "--label and --job limit --set: add --set KEY=VALUE, as in --set requestMemory=8G. "
            "To run a label again, use --from LABEL."
        )
    opened = api.open_run(run, service=wms_service_class)
    if options.accept_loss and not dry_run:
        print_notes(f"lost, as accepted: {each}" for each in api.accept_loss(opened))
    plan = api.plan_restart(opened, changes)
    notes: list[str] = []
    submitted = bool(plan.total or plan.unfinished) and not dry_run
    if not as_json:
        _print_plan(plan, opened.card.id)
    if submitted:
        opened_card, notes = api.restart(opened, plan)
    if as_json:
        print_json(restart_document(opened, plan, submitted=submitted, notes=notes, as_of=time.time()))
    elif submitted:
        print_notes(notes)
        click.echo(f"Submit dir: {opened.run.root}")
        click.echo(f"Run Id: {opened_card.submissions[-1].id}")
        click.echo(f"Run Name: {opened_card.name}")


def _print_plan(plan: RestartPlan, run: str) -> None:
    """Print the jobs that run again with reasons, a line per label, and the settings changed."""
    if not plan.total and not plan.unfinished:
        click.echo(
            f"longshore: nothing to run again: every job of '{run}' succeeded; --from LABEL runs that label again",
            err=True,
        )
        return
    texts = _reason_texts(plan)
    click.echo(f"longshore: {plan.total} jobs of '{run}' run again", err=True)
    for label, counts in plan.reasons.items():
        reasons = ", ".join(f"{count} {texts[why]}" for why, count in counts.items())
        click.echo(f"longshore:   {label}: {reasons}", err=True)
    if plan.unfinished:
        click.echo(f"longshore: {plan.unfinished} jobs that were not over continue", err=True)
    if plan.changes.set:
        values = ", ".join(f"{key}={value}" for key, value in plan.changes.set.items())
        click.echo(f"longshore: {values} is set for {plan.changed} of them", err=True)


def _reason_texts(plan: RestartPlan) -> Mapping[str, str]:
    """Text per restart reason."""
    named = " or ".join(f"'{label}'" for label in plan.changes.from_labels)
    return {
        "failed": "failed",
        "cancelled": "cancelled",
        "pruned": "waited for one that failed or was cancelled",
        "named": "succeeded, named by --from",
        "descends": f"succeeded, descends from {named}",
        "final": "final job",
    }
