"""How a run goes on: ``resume`` with a new engine, ``restart`` with a new submission of what did not succeed."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

import click

from longshore.cli.interrupts import INTERRUPTED
from longshore.cli.options import ACCEPT_LOSS, JSON, SERVICE, SHARE_OUTPUTS, OptionRecord, group_options, run_option
from longshore.cli.terminal import print_json, print_notes
from longshore.control.resume import accept_loss, resume, resume_all
from longshore.errors import SubmissionRefusedError
from longshore.model.report import FINAL_LABEL
from longshore.model.wording import count_noun
from longshore.runstate.open_run import OpenRun, open_run

if TYPE_CHECKING:
    from longshore.control.restart import RestartPlan
    from longshore.plan.changes import RunComparison


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


_ANSWERS: Final = ("with-changes", "as-it-was", "abort")
"""Answers to the question what a restart runs; the first is the default."""


class ChangeOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: changes of a restart."""

    from_labels: tuple[str, ...]
    pairs: tuple[str, ...]
    labels: tuple[str, ...]
    jobs: tuple[str, ...]
    accept_loss: bool
    with_changes: bool
    as_it_was: bool
    new_graph: bool

    @property
    def choice(self) -> str | None:
        """What the user chose."""
        return "with" if self.with_changes else "as-it-was" if self.as_it_was else None


class RunOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: the service, and what the command prints or does."""

    wms_service_class: str | None
    share_outputs: bool
    dry_run: bool
    wait: bool
    as_json: bool


@click.command(
    epilog="Example: longshore restart --id @last --dry-run    or: longshore restart @last --set requestMemory=8G "
    "--label coadd    or: longshore restart @last --from coadd    or: longshore restart @last --with-changes "
    "--set pipetask.coadd.runQuantumCommand='coadd {tract}'"
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
    "requestResources.NAME or numberOfRetries. Another key of the configuration changes the run, as --with-changes "
    "does. Can be repeated.",
)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Change only requests of jobs of that label.")
@click.option("--job", "jobs", multiple=True, metavar="NAME", help="Change only the request of that job.")
@click.option(
    "--with-changes",
    is_flag=True,
    help="Take what changed since the run was made: its configuration, pipeline and inputs are read anew.",
)
@click.option("--as-it-was", is_flag=True, help="Ignore what changed since the run was made.")
@click.option("--new-graph", is_flag=True, help="With --with-changes: make the quantum graph again.")
@click.option("--dry-run", is_flag=True, help="Only print which jobs would run again or are kept, and why.")
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does, or 21 at a pause.")
@ACCEPT_LOSS
@SHARE_OUTPUTS
@JSON
@group_options(options=ChangeOptions, run_options=RunOptions)
@click.pass_context
def restart_command(ctx: click.Context, /, *, run: str, options: ChangeOptions, run_options: RunOptions) -> None:
    """Submit the jobs that did not succeed again, in the same run directory; with --from also others.

    If what the run was made from has changed since, so that jobs would change, the command asks at a terminal whether
    to take the changes, and elsewhere refuses without --with-changes or --as-it-was. With changes, what succeeded and
    is made by the same command from the same inputs is kept; changed jobs and their descendants run again.
    """
    from longshore.contract.service import JobSelection, RestartChanges
    from longshore.control.interventions import parse_changes, split_sets
    from longshore.control.restart import compare_sources, plan_restart
    from longshore.plan.changes import recorded_keys
    from longshore.rundir.run_directory import Access, require_access

    opened = open_run(run, service=run_options.wms_service_class, acts=True)
    requests, sets = split_sets(options.pairs, recorded_keys(opened) if options.pairs else ())
    changes = RestartChanges(
        selection=JobSelection(jobs=options.jobs, labels=options.labels),
        set=parse_changes(requests),
        from_labels=tuple(dict.fromkeys(options.from_labels)),
    )
    if not changes.selection.everything and not requests:
        raise click.UsageError(
            "--label and --job limit --set: add --set KEY=VALUE, as in --set requestMemory=8G. "
            "To run a label again, use --from LABEL."
        )
    _refuse_contradictions(options, sets, run_options)
    if not run_options.dry_run:
        require_access(opened.run, Access.ACT)
    if options.accept_loss and not run_options.dry_run:
        print_notes(f"lost, as accepted: {each}" for each in accept_loss(opened))
    comparison = None
    if options.choice != "as-it-was":
        comparison = compare_sources(opened, sets, new_graph=options.new_graph)
    takes_changes = comparison is not None and _decide(opened, comparison, options, run_options)
    ignores_lost = options.choice == "as-it-was"
    plan = plan_restart(opened, changes, comparison if takes_changes else None, ignores_lost=ignores_lost)
    ctx.exit(_restart(opened, plan, comparison, run_options))


def _refuse_contradictions(options: ChangeOptions, sets: tuple[str, ...], run_options: RunOptions) -> None:
    """Refuse options that contradict each other."""
    dry_run = run_options.dry_run
    if options.with_changes and options.as_it_was:
        raise click.UsageError("--with-changes and --as-it-was contradict each other: leave one of them out.")
    if options.choice == "as-it-was" and (sets or options.new_graph):
        what = f"--set {sets[0]}" if sets else "--new-graph"
        raise click.UsageError(f"'{what}' changes the run, and --as-it-was ignores changes: leave one of them out.")
    if dry_run and (run_options.wait or run_options.share_outputs):
        what = "--wait" if run_options.wait else "--share-outputs"
        raise click.UsageError(f"--dry-run runs nothing: leave out {what}.")
    if options.new_graph and (options.choice != "with" or dry_run):
        raise click.UsageError(
            "--new-graph makes the quantum graph again: use it with --with-changes, without --dry-run."
        )


def _decide(opened: OpenRun, comparison: RunComparison, options: ChangeOptions, run_options: RunOptions) -> bool:
    """Decide whether the restart takes the changes; ask at a terminal, and refuse elsewhere."""
    from longshore.plan.changes import change_lines, takes_changes

    if takes_changes(opened, comparison, is_wanted=options.choice == "with"):
        return True
    if not comparison.differs:
        if options.choice == "with" and not run_options.as_json:
            print_notes(["nothing changed that changes a job: the run goes on as it was"])
        return False
    if run_options.dry_run:
        if comparison.error is not None:
            raise comparison.error
        return True
    lines = list(change_lines(comparison))
    if run_options.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()) or comparison.error is not None:
        others = "".join(f"\n  {line}" for line in lines)
        raise SubmissionRefusedError(
            f"what run '{opened.card.id}' was made from has changed:{others}",
            hint=f"To run with the changes: longshore restart {opened.reference} --with-changes\n"
            f"To run as it was: longshore restart {opened.reference} --as-it-was\n"
            "Add --dry-run to see what becomes of each job.",
        )
    click.echo(f"longshore: what run '{opened.card.id}' was made from has changed:", err=True)
    for line in lines:
        click.echo(f"longshore:   {line}", err=True)
    answer = click.prompt(
        f"Run it with the changes, or as it was ({', '.join(_ANSWERS)})?",
        default=_ANSWERS[0],
        value_proc=read_answer,
        err=True,
    )
    if answer == "abort":
        raise click.Abort
    return bool(answer == _ANSWERS[0])


def read_answer(text: str) -> str:
    """Return the answer that a text begins, or that it means in other words; raises `click.UsageError` for others."""
    word = text.strip().lower()
    word = {"y": _ANSWERS[0], "yes": _ANSWERS[0], **dict.fromkeys(("n", "no", "q", "quit"), "abort")}.get(word, word)
    found = [answer for answer in _ANSWERS if word and answer.startswith(word)]
    if len(found) != 1:
        choices = " or ".join(f"'{answer}'" for answer in found or _ANSWERS)
        raise click.UsageError(f"'{text}' is {'not enough' if found else 'no answer'}: {choices}?")
    return found[0]


def _restart(opened: OpenRun, plan: RestartPlan, comparison: RunComparison | None, options: RunOptions) -> int:
    """Carry out a restart, unless it is only to be shown, and print it; return the exit status."""
    from longshore.cli.watch import follow_to_end
    from longshore.control.documents import add_end, restart_document
    from longshore.control.restart import restart
    from longshore.plan.changes import change_lines, unchanged_notes, verdict_lines

    shown = comparison if comparison is not None and comparison.differs else plan.comparison
    notes = [] if plan.comparison is not None or comparison is None else list(unchanged_notes(comparison))
    submitted = bool(plan.total or plan.unfinished) and not options.dry_run
    if not options.as_json:
        print_notes(notes)
        has_verdicts = plan.comparison is not None and plan.comparison.match is not None and options.dry_run
        if plan.comparison is not None:
            print_notes(change_lines(plan.comparison, has_verdicts=has_verdicts))
        if plan.comparison is not None and plan.comparison.match is not None and has_verdicts:
            for line in verdict_lines(plan.comparison.names, plan.comparison.match, plan.comparison.gone):
                click.echo(line)
        _print_plan(plan, opened.card.id, opened.card.labels)
    report = None
    if submitted:
        card, later_notes = restart(opened, plan.changes, plan.comparison, shares_outputs=options.share_outputs)
        notes += later_notes
        if not options.as_json:
            print_notes(later_notes)
            click.echo(f"Submit dir: {opened.directory}")
            click.echo(f"Run Id: {card.submissions[-1].id}")
            click.echo(f"Run Name: {card.name}")
        report = follow_to_end(opened.run.root, opened.reference, as_json=options.as_json) if options.wait else None
    if options.as_json:
        document = restart_document(
            opened,
            plan,
            submitted=submitted,
            comparison=shown,
            change_lines=list(change_lines(shown)) if shown else [],
            notes=notes,
            as_of=time.time(),
        )
        print_json(add_end(document, report) if report else document)
    if report is not None:
        return report.wait_status
    return INTERRUPTED if submitted and options.wait else 0


def _print_plan(plan: RestartPlan, run: str, labels: Collection[str]) -> None:
    """Print the jobs that run again with reasons, a line per label, and the settings changed."""
    if not plan.total and not plan.unfinished:
        hint = "--from LABEL runs that label again"
        hint += f", and --from {FINAL_LABEL} the final job" if FINAL_LABEL in labels else ""
        click.echo(f"longshore: nothing to run again: every job of '{run}' succeeded; {hint}", err=True)
        return
    texts = _reason_texts(plan)
    click.echo(
        f"longshore: {count_noun(plan.total, 'job')} of '{run}' {'runs' if plan.total == 1 else 'run'} again", err=True
    )
    for label, counts in plan.reasons.items():
        reasons = ", ".join(f"{count} {texts[why]}" for why, count in counts.items())
        click.echo(f"longshore:   {label}: {reasons}", err=True)
    if plan.unfinished:
        click.echo(f"longshore: not over, and continued: {count_noun(plan.unfinished, 'job')}", err=True)
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
        "changed": "changed, or waits for one that changed or is new",
        "new": "new",
    }
