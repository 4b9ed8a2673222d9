"""``longshore resume``: starts a new engine for a run whose engine died."""

from __future__ import annotations

import time

import click

from longshore.app.runs.open_run import open_run
from longshore.cli.options import (
    ACCEPT_LOSS,
    JSON,
    SHARE_OUTPUTS,
    OptionRecord,
    group_options,
    print_json,
    print_notes,
    run_option,
)
from longshore.control.resume import resume, resume_all


class ResumeOptions(OptionRecord, frozen=True, kw_only=True):
    """Options that override a refusal."""

    take_over: bool
    force: bool
    accept_loss: bool
    share_outputs: bool


@click.command(epilog="Example: longshore resume @last    or, after a reboot: longshore resume --all")
@run_option(required=False)
@click.option("--all", "everything", is_flag=True, help="All runs whose engines died.")
@click.option(
    "--take-over", is_flag=True, help="Replace an engine that seems alive; it or its host must be gone for good."
)
@click.option("--force", is_flag=True, help="Even if the last three engines died without progress.")
@ACCEPT_LOSS
@SHARE_OUTPUTS
@JSON
@click.pass_context
@group_options(options=ResumeOptions)
def resume_command(
    ctx: click.Context, /, *, run: str | None, everything: bool, options: ResumeOptions, as_json: bool
) -> None:
    """Start a new engine for a run whose engine died. Successful jobs do not run again; running jobs continue."""
    from longshore.reports.documents.run import resume_all_document, resume_document

    if bool(run) == everything:
        raise click.UsageError("Name the run, as in 'longshore resume @last', or use --all.")
    if everything and (options.take_over or options.force or options.accept_loss or options.share_outputs):
        raise click.UsageError(
            "--take-over, --force, --accept-loss and --share-outputs require one run, whose state you have checked."
        )
    if run:
        opened = open_run(run, acts=True)
        result = resume(
            opened,
            take_over=options.take_over,
            force=options.force,
            loss_accepted=options.accept_loss,
            shares_outputs=options.share_outputs,
        )
        outcomes = [(opened, result)]
    else:
        outcomes = resume_all(lambda line: print_notes([line]))
    documents = []
    for opened, outcome in outcomes:
        path = str(opened.run.root)
        documents.append(resume_document(opened, outcome.notes, as_of=time.time()))
        if not as_json:
            print_notes(outcome.notes)
            if outcome.has_started:
                click.echo(f"Submit dir: {path}\nRun Id: {opened.card.shown_id}\nRun Name: {opened.card.name}")
    if as_json:
        print_json(documents[0] if run else resume_all_document(documents, as_of=time.time()))
    elif not outcomes:
        click.echo("longshore: nothing to resume: no registered run has lost its engine", err=True)
    ctx.exit(6 if any(outcome.has_failed for _, outcome in outcomes) else 0)
