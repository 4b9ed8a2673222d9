"""Checks that change nothing: a run's files (``verify``), workload managers (``ping``), all of it (``doctor``)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.error_text import error_text, indent_paragraph
from longshore.cli.logging_setup import LogProgress
from longshore.cli.options import JSON, SERVICE, SITE_PATH
from longshore.cli.terminal import print_json, print_notes
from longshore.errors import LongshoreError, RunUnreadableError, ServiceError
from longshore.model.report import INDENT, KIB, escape_controls, format_size
from longshore.model.wording import count_noun
from longshore.runstate.open_run import open_run

if TYPE_CHECKING:
    from longshore.contract.service import PingReport
    from longshore.control.doctor import Diagnosis
    from longshore.runstate.verify import VerifyResult

_HOW = {"sha256": "SHA-256 in its manifest", "checksum": "checksum", "form": "form only"}


def verify_text(result: VerifyResult, *, lists: bool) -> str:
    """Return the findings about a run; `lists` adds the checked and unchecked files."""
    return "\n".join(_lines(result, lists=lists))


def _lines(result: VerifyResult, *, lists: bool) -> Iterator[str]:
    if lists:
        for name, check in sorted(result.covered.items()):
            yield f"checked      {name}: {_HOW[check]}"
        for name, why in result.not_covered.items():
            yield f"not checked  {name}: {why}"
    closed = [damage for damage in result.damages if result.is_closed(damage)]
    for damage in result.damages:
        yield f"{'not readable' if damage in closed else 'damaged     '} {damage}"
    for note in result.notes:
        yield f"note         {note}"
    run = result.opened
    files = f"{count_noun(len(result.covered), 'file')} and {count_noun(sum(result.events.values()), 'event')}"
    if result.is_intact:
        yield f"intact       run '{run.card.id}': {files}"
        return
    number = len(result.damages) - len(closed)
    if closed:
        yield f"run '{run.card.id}': {len(closed)} of {count_noun(len(result.covered), 'file')} cannot be read by you"
        yield "Their owner can check them: longshore verify " + str(run.run.root)
    if number:
        yield f"run '{run.card.id}' has {number} damaged {'place' if number == 1 else 'places'}; {files} were checked"
        yield f"Bring the files back from a backup or a copy of the run '{run.run.root}'."


DAMAGED = RunUnreadableError.exit_status
"""Exit status when a run is damaged."""


@click.command(epilog="Example: longshore verify @last    or: longshore verify --list @last")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--list", "lists", is_flag=True, help="Also print each file that is checked, and what is not.")
@JSON
@click.pass_context
def verify_command(ctx: click.Context, /, *, runs: tuple[str, ...], lists: bool, as_json: bool) -> None:
    """Check every file that a resume, restart or report of RUN relies on; the exit status is 5 if any is damaged."""
    from longshore.runstate.verify import verify_run

    results, errors = [], []
    for reference in runs:
        try:
            results.append(verify_run(open_run(reference), LogProgress()))
        except LongshoreError as error:
            if len(runs) == 1:
                raise
            errors.append((reference, error))
            click.echo(error_text(error), err=True)
            continue
        if not as_json:
            click.echo(verify_text(results[-1], lists=lists))
    if as_json:
        from longshore.control.documents import verify_document

        print_json(verify_document(results, errors, as_of=time.time()))
    ctx.exit(0 if not errors and all(result.is_intact for result in results) else DAMAGED)


@click.command(epilog="Examples: longshore ping --wms-service-class local; longshore ping --compute-site NAME")
@SERVICE
@click.option(
    "--config", type=click.Path(path_type=Path, readable=False), help="Use the settings of the service in this file."
)
@click.option("--compute-site", metavar="NAME", default="", help="Use the settings of this site.")
@SITE_PATH
@click.option("--pass-thru", metavar="TEXT", help="As in BPS; without effect.")
@JSON
@click.pass_context
def ping_command(
    ctx: click.Context,
    /,
    *,
    wms_service_class: str | None,
    config: Path | None,
    compute_site: str,
    site_path: tuple[str, ...],
    pass_thru: str | None,
    as_json: bool,
) -> None:
    """Check whether a workload manager is available, and print its resources."""
    from longshore.plan.ping import ping
    from longshore.plan.problems import exit_status

    if pass_thru:
        print_notes(["'--pass-thru' has no effect: a ping asks each workload manager in the same way"])
    report = ping(wms_service_class, path=config, site=compute_site, site_path=site_path, now=time.time())
    if as_json:
        from longshore.reports.documents.site import PingDocument

        print_json(PingDocument.from_record(report, as_of=time.time()))
    else:
        click.echo(ping_text(report))
    ctx.exit(0 if report.ok else exit_status(report.problems) or ServiceError.exit_status)


def ping_text(report: PingReport) -> str:
    """Format a service's answer to a ping: whether it is available, then its details."""
    lines = [
        f"{escape_controls(report.service)}: {'ok' if report.ok else 'not usable'}: {indent_paragraph(report.message)}"
    ]
    lines += [f"{INDENT}note: {escape_controls(note)}" for note in report.notes]
    lines += [f"{INDENT}{escape_controls(name)}: {escape_controls(value)}" for name, value in report.details.items()]
    if report.capacity:
        amounts = (f"{escape_controls(name)} {_amount(name, amount)}" for name, amount in report.capacity.items())
        lines.append(f"{INDENT}largest job: {', '.join(amounts)}")
    return "\n".join(lines)


def _amount(name: str, amount: int) -> str:
    """Amount of a resource; memory and disk are in bytes, all others are counts."""
    return format_size(amount) if name in {"memory", "disk"} and amount >= KIB else str(amount)


_WIDTH = 23
"""Columns before the sentence."""

FOUND_ERROR = 1
"""Exit status if there is an error."""


@click.command(epilog="Example: longshore doctor    or: longshore doctor --json")
@click.option("--problems", is_flag=True, help="Leave out what is in order.")
@JSON
@click.pass_context
def doctor_command(ctx: click.Context, /, *, problems: bool, as_json: bool) -> None:
    """Look for what is wrong: installation, configuration, workload managers, runs, disks, clocks; nothing is changed.

    The exit status is 1 if there is an error. Notes and warnings do not count.
    """
    from longshore.control.doctor import diagnose

    found = []
    for diagnosis in diagnose():
        found.append(diagnosis)
        if not as_json and not (problems and diagnosis.state == "ok"):
            click.echo(_diagnosis_text(diagnosis))
    if as_json:
        from longshore.control.documents import doctor_document

        print_json(doctor_document(found, as_of=time.time()))
    else:
        click.echo(_summary_text(found))
    ctx.exit(FOUND_ERROR if any(diagnosis.state == "error" for diagnosis in found) else 0)


def _diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return the line of a diagnosis: state, area, sentence; a second one has the way out."""
    head = f"{diagnosis.state:<8} {diagnosis.area:<14}"
    lines = [f"{head}{escape_controls(diagnosis.message)}"]
    if diagnosis.hint:
        lines.append(" " * _WIDTH + escape_controls(diagnosis.hint))
    return "\n".join(lines)


def _summary_text(found: Sequence[Diagnosis]) -> str:
    """Return the last line: how many errors, warnings and notes there are."""
    counts = {state: sum(each.state == state for each in found) for state in ("error", "warning", "note")}
    if not any(counts.values()):
        return "everything is in order"
    return ", ".join(count_noun(count, state) for state, count in counts.items() if count)
