"""Commands that make runs: ``submit`` and ``submitcmd``, and the stages before, each of which can be the last.

All announce a run by the same lines, which other programs read.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.interrupts import INTERRUPTED
from longshore.cli.options import (
    CONFIG_FILE,
    FILE_TYPE,
    JSON,
    PROBE,
    SHARE_OUTPUTS,
    OptionRecord,
    group_options,
    script_options,
    submission_options,
)
from longshore.cli.terminal import print_json
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.cli.logging_setup import LogProgress
    from longshore.config.layers import Overrides
    from longshore.model.report import RunReport
    from longshore.model.submission import SubmissionChecks
    from longshore.plan.reuse import ReusePlan
    from longshore.plan.submit_once import SubmittedRun


def report_submission(submitted: SubmittedRun, *, wait: bool, as_json: bool) -> int:
    """Print a submission and, with `wait`, follow the run to its end; return the exit status."""
    try:
        return _report_submission(submitted, wait=wait, as_json=as_json)
    except KeyboardInterrupt as interrupt:
        words = f"the run was submitted and goes on. To end it: longshore cancel {submitted.reference}"
        raise KeyboardInterrupt(str(interrupt) or words) from None


def _report_submission(submitted: SubmittedRun, *, wait: bool, as_json: bool) -> int:
    if wait:
        # Before the user has seen the run's id, behind which an interruption ends only the wait.
        from longshore.cli.watch import follow_to_end
    if not as_json:
        print_submission_lines(submitted)
    report = follow_to_end(submitted.run.root, submitted.reference, as_json=as_json) if wait else None
    if as_json:
        print_submission(submitted, report)
    if report:
        return report.wait_status
    return INTERRUPTED if wait else 0


def print_submission_lines(submitted: SubmittedRun) -> None:
    """Print BPS's three lines, which other programs read."""
    click.echo(f"Submit dir: {submitted.run.root}")
    click.echo(f"Run Id: {submitted.card.shown_id}")
    click.echo(f"Run Name: {submitted.card.name}")


def print_submission(submitted: SubmittedRun, report: RunReport | None) -> None:
    """Print the JSON document of a submission."""
    from longshore.reports.documents.run import submit_document

    document = submit_document(
        submitted.run,
        submitted.card,
        site=submitted.site,
        notes=submitted.notes,
        end=report,
        as_of=time.time(),
    )
    print_json(document)


@click.command(epilog="Example: longshore acquire mosaic.yaml")
@CONFIG_FILE
@submission_options
@click.option(
    "--save-graph",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the tasks to a file (.jsonl or .jsonl.gz).",
)
@JSON
def acquire_command(*, config_file: Path, overrides: Overrides, save_graph: Path | None, as_json: bool) -> None:
    """Make the graph of tasks, print its content, and stop. Writes only a new quantum graph, and --save-graph."""
    _run_stages("acquire", config_file, overrides, save_graph=save_graph, as_json=as_json)


@click.command(epilog="Example: longshore cluster mosaic.yaml")
@CONFIG_FILE
@submission_options
@JSON
def cluster_command(*, config_file: Path, overrides: Overrides, as_json: bool) -> None:
    """Pack the tasks of the graph into clusters, print their number, and stop. Writes only a new quantum graph."""
    _run_stages("cluster", config_file, overrides, as_json=as_json)


@click.command(epilog="Example: longshore transform mosaic.yaml --json")
@CONFIG_FILE
@submission_options
@JSON
def transform_command(*, config_file: Path, overrides: Overrides, as_json: bool) -> None:
    """Make the jobs, check them against the limits of the service, and stop. Writes only a new quantum graph."""
    _run_stages("transform", config_file, overrides, as_json=as_json)


@click.command(epilog="Example: longshore prepare mosaic.yaml")
@CONFIG_FILE
@submission_options
@JSON
def prepare_command(*, config_file: Path, overrides: Overrides, as_json: bool) -> None:
    """Write the run directory, for inspection, and stop. No job runs until 'submit RUN_DIR'."""
    _run_stages("prepare", config_file, overrides, as_json=as_json)


def _run_stages(
    last_stage: str, config_file: Path, overrides: Overrides, *, save_graph: Path | None = None, as_json: bool
) -> None:
    from longshore.cli.logging_setup import LogProgress
    from longshore.model.report import escape_controls
    from longshore.plan.stages import Stage, run_stages
    from longshore.reports.documents.run import stages_document

    with LogProgress() as progress:
        stages, submit_dir = run_stages(
            config_file, Stage(last_stage), overrides, save_graph=save_graph, progress=progress
        )
    if as_json:
        print_json(stages_document(stages, submit_dir, as_of=time.time()))
        return
    for result in stages:
        click.echo(escape_controls(result.describe()))
    for name, count in stages[-1].labels.items():
        click.echo(escape_controls(f"  {name}: {count}"))
    if submit_dir:
        click.echo(f"Submit dir: {submit_dir}")


@click.command(epilog="Example: longshore submitcmd script.yaml --wait")
@CONFIG_FILE
@script_options
@click.option("--dry-run", is_flag=True, help="Write the run directory, then stop.")
@PROBE
@SHARE_OUTPUTS
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does, or 21 at a pause.")
@JSON
@click.pass_context
def submitcmd_command(
    ctx: click.Context,
    /,
    *,
    config_file: Path,
    overrides: Overrides,
    dry_run: bool,
    with_probe: bool,
    share_outputs: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Submit one script as a job: the section customJob of FILE, without a graph."""
    from longshore.cli.logging_setup import LogProgress
    from longshore.plan.script_run import prepare_script, submit_script

    if dry_run and (wait or share_outputs):
        raise click.UsageError(f"--dry-run submits nothing: leave out {'--wait' if wait else '--share-outputs'}.")
    if not dry_run:
        with LogProgress() as progress:
            submitted = submit_script(
                config_file, overrides, with_probe=with_probe, shares_outputs=share_outputs, progress=progress
            )
        ctx.exit(report_submission(submitted, wait=wait, as_json=as_json))
    with LogProgress() as progress:
        prepared = prepare_script(config_file, overrides, with_probe=with_probe, progress=progress)
    if as_json:
        from longshore.reports.documents.run import submit_document

        document = submit_document(
            prepared.run,
            prepared.card,
            site=prepared.site,
            notes=("dry run: nothing was submitted",),
            as_of=time.time(),
        )
        print_json(document)
    else:
        click.echo(f"Submit dir: {prepared.run.root}")


class SubmitOptions(OptionRecord, frozen=True, kw_only=True):
    """Options of `submit`: refusals, and the run to reuse."""

    force: bool
    strict: bool
    with_probe: bool
    share_outputs: bool
    reuse: str | None
    by_content: bool
    dry_run: bool

    def checks(self) -> SubmissionChecks:
        """Return the checks that these options choose."""
        from longshore.model.submission import SubmissionChecks

        return SubmissionChecks(strict=self.strict, with_probe=self.with_probe, shares_outputs=self.share_outputs)


@click.command(
    epilog="Examples: longshore submit montage.yaml --set requestMemory=4096 --wait; "
    "longshore submit montage.yaml --strict; longshore submit submit/u/me/montage/20260102T030405Z; "
    "longshore submit montage.yaml --reuse @last --dry-run",
)
@click.argument("config_file", metavar="FILE|RUN_DIR", type=FILE_TYPE)
@submission_options
@click.option("--force", is_flag=True, help="Submit RUN_DIR even if its input files have changed.")
@click.option("--strict", is_flag=True, help="Refuse a run with any warning, and list all warnings.")
@PROBE
@SHARE_OUTPUTS
@click.option(
    "--reuse",
    metavar="RUN",
    help="Keep results of that earlier run (id, directory or @last) that the same commands would make again.",
)
@click.option("--by-content", is_flag=True, help="With --reuse: compare input files by content, not by size and time.")
@click.option("--dry-run", is_flag=True, help="With --reuse: only print of each job why it runs or is kept.")
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does, or 21 at a pause.")
@JSON
@click.pass_context
@group_options(submit_options=SubmitOptions)
def submit_command(
    ctx: click.Context,
    /,
    *,
    config_file: Path,
    overrides: Overrides,
    submit_options: SubmitOptions,
    wait: bool,
    as_json: bool,
) -> None:
    """Prepare the run that FILE describes and submit it to a workload manager.

    RUN_DIR, written by 'prepare', is submitted as it is, unless its input files have changed.
    """
    try:
        # Imports take most of the time until a run has its id.
        from longshore.cli.logging_setup import LogProgress
        from longshore.plan.submission import submit
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was submitted") from None
    options = submit_options
    if options.reuse is None and (options.by_content or options.dry_run):
        if options.dry_run:
            from longshore.cli.error_text import DRY_RUN_ADVICE

            raise click.UsageError(f"--dry-run is for --reuse RUN here. Without it: {DRY_RUN_ADVICE}")
        raise click.UsageError("--by-content is for --reuse RUN: name the run whose results are kept.")
    if options.dry_run and wait:
        raise click.UsageError("--dry-run submits nothing: leave out --wait.")
    with LogProgress() as progress:
        if options.reuse is None:
            submitted = submit(
                config_file,
                overrides,
                force=options.force,
                checks=options.checks(),
                progress=progress,
            )
        else:
            plan = _submit_reusing(config_file, overrides, options, progress)
            if plan.submitted is None:
                _print_verdicts(plan, as_json=as_json)
                return
            submitted = plan.submitted
    ctx.exit(report_submission(submitted, wait=wait, as_json=as_json))


def _submit_reusing(
    config_file: Path, overrides: Overrides, options: SubmitOptions, progress: LogProgress
) -> ReusePlan:
    from longshore.plan.reuse import submit_reusing

    assert options.reuse is not None
    if options.force:
        raise click.UsageError("--force is for a directory that was prepared: leave it out with --reuse.")
    if config_file.is_dir():
        raise click.UsageError("--reuse is for a configuration: a directory that was prepared is submitted as it is.")
    plan = submit_reusing(
        config_file,
        overrides,
        options.reuse,
        by_content=options.by_content,
        dry_run=options.dry_run,
        checks=options.checks(),
        progress=progress,
    )
    kept = len(plan.match.kept)
    progress.note(f"{kept} of {count_noun(len(plan.names), 'job')} keep their results of run '{plan.earlier.card.id}'")
    if plan.gone:
        progress.note(f"gone since that run: {count_noun(len(plan.gone), 'job')}, such as '{plan.gone[0]}'")
    return plan


def _print_verdicts(plan: ReusePlan, *, as_json: bool) -> None:
    """Print of each job why it runs or is kept."""
    from longshore.control.documents import reuse_document
    from longshore.plan.changes import verdict_lines

    if as_json:
        print_json(reuse_document(plan, as_of=time.time()))
        return
    for line in verdict_lines(plan.names, plan.match, plan.gone):
        click.echo(line)
