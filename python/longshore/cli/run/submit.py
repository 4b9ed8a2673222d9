"""``longshore submit``: prepares a run and submits it, or submits a prepared run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.near_names import DRY_RUN_ADVICE
from longshore.cli.options import JSON, SHARE_OUTPUTS, OptionRecord, group_options, print_json
from longshore.cli.submit_options import FILE_TYPE, PROBE, report_submission, submission_options
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.cli.logging_setup import LogProgress
    from longshore.config.layers import Overrides
    from longshore.plan.reuse import ReusePlan
    from longshore.plan.stages import SubmissionChecks


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
        from longshore.plan.stages import SubmissionChecks

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
            raise click.UsageError(f"--dry-run is for --reuse RUN here. Without it: {DRY_RUN_ADVICE}")
        raise click.UsageError("--by-content is for --reuse RUN: name the run whose results are kept.")
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
