"""Submission options that ``submit`` and similar commands share, and how they announce and watch a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from longshore.cli.interrupts import INTERRUPTED
from longshore.cli.options import SERVICE, Command, print_json, print_notes
from longshore.cli.parameter_types import NonEmptyPath
from longshore.cli.terminal import can_redraw

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun
    from longshore.model.report import Failure, RunReport
    from longshore.plan.submit_once import SubmittedRun

_CONFIG_KEYS: Final = {
    "butler_config": "butlerConfig",
    "input": "inCollection",
    "output": "output",
    "output_run": "outputRun",
    "data_query": "dataQuery",
    "pipeline": "pipelineYaml",
    "qgraph": "qgraphFile",
    "extra_qgraph_options": "extraQgraphOptions",
    "extra_update_qgraph_options": "extraUpdateQgraphOptions",
    "extra_init_options": "extraInitOptions",
    "extra_run_quantum_options": "extraRunQuantumOptions",
    "wms_service_class": "wmsServiceClass",
    "compute_site": "computeSite",
    "site_path": "sitePath",
    "fallback": "fallback",
    "make_id_link": "makeIdLink",
    "id_link_path": "idLinkPath",
    "backend_options": "backendOptions",
}
"""Configuration key per option; the same as BPS's."""


FILE_TYPE: Final = NonEmptyPath(path_type=Path, readable=False)
CONFIG_FILE: Final = click.argument("config_file", metavar="FILE", type=FILE_TYPE)
PROBE: Final = click.option(
    "--probe/--no-probe",
    "with_probe",
    default=True,
    help="Whether to ask the workload manager first; a run that it does not take is refused.",
)

_PAYLOAD_OPTIONS: Final = (
    click.option("-b", "--butler-config", metavar="PATH", help="Butler repository of the payload."),
    click.option("-i", "--input", multiple=True, metavar="COLL,...", help="Input collections."),
    click.option("-o", "--output", metavar="COLL", help="Output collection."),
    click.option("--output-run", metavar="COLL", help="Output run collection."),
    click.option("-d", "--data-query", metavar="QUERY", help="Query that selects the data."),
    click.option("-p", "--pipeline", metavar="FILE", help="Pipeline file."),
    click.option("-g", "--qgraph", metavar="FILE", help="File with a quantum graph."),
    click.option(
        "--extra-qgraph-options", metavar="TEXT", help="Options added to the command that makes a quantum graph."
    ),
    click.option(
        "--extra-update-qgraph-options",
        metavar="TEXT",
        help="Options added to the command that updates a quantum graph.",
    ),
    click.option("--extra-init-options", metavar="TEXT", help="Options added to the init job's command."),
    click.option("--extra-run-quantum-options", metavar="TEXT", help="Options added to each job's command."),
)
_COMMON_OPTIONS: Final = (
    SERVICE,
    click.option("--compute-site", metavar="NAME", help="Site to run at."),
    click.option("--site-path", multiple=True, metavar="DIR", help="Search site profiles here first. Can be repeated."),
    click.option("--local", "fallback", is_flag=True, flag_value="always", help="Run on this machine in any case."),
    click.option(
        "--backend-options",
        metavar="TEXT",
        help="Options for the workload manager, as its own program takes them; -h lists them.",
    ),
    click.option("--make-id-link", is_flag=True, help="Make a link to the run directory, named by the run's id."),
    click.option("--id-link-path", metavar="PATH", help="Folder of these links (default ./bps_links)."),
    click.option(
        "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key; VALUE is YAML. Can be repeated."
    ),
)


def submission_options(command: Command) -> Command:
    """Add the options of a payload's submission, in BPS's order, as the parameter `overrides`."""
    return _add_overrides(command, (*_PAYLOAD_OPTIONS, *_COMMON_OPTIONS))


def script_options(command: Command) -> Command:
    """Add the submission options that do not concern a payload, as the parameter `overrides`."""
    return _add_overrides(command, _COMMON_OPTIONS)


def _add_overrides(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    @wraps(command)
    def with_overrides(*args: object, sets: tuple[str, ...], **values: Any) -> object:
        from longshore.config.layers import Overrides

        given = {key: values.pop(name, None) for name, key in _CONFIG_KEYS.items()}
        overrides = Overrides({key: _join_values(key, value) for key, value in given.items() if value}, sets)
        return command(*args, overrides=overrides, **values)

    decorated = cast("Command", with_overrides)
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _join_values(key: str, value: Any) -> Any:
    return (":" if key == "sitePath" else ",").join(value) if isinstance(value, tuple) else value


def report_submission(submitted: SubmittedRun, *, wait: bool, as_json: bool) -> int:
    """Print a submission and, with `wait`, follow the run to its end; return the exit status."""
    try:
        return _report_submission(submitted, wait=wait, as_json=as_json)
    except KeyboardInterrupt as interrupt:
        words = f"the run was submitted and goes on. To end it: longshore cancel {submitted.reference}"
        raise KeyboardInterrupt(str(interrupt) or words) from None


def _report_submission(submitted: SubmittedRun, *, wait: bool, as_json: bool) -> int:
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


def follow_to_end(root: Path, reference: str, *, as_json: bool) -> RunReport | None:
    """Follow the run to its end or to a pause, and print how it ended; ``None`` when the user interrupts."""
    try:
        # Inside `try`: a user who has seen the run's id may interrupt at any moment.
        from longshore.app.runs.open_run import open_run
        from longshore.cli.live_view import view_run
        from longshore.reports.status import wait_for_end

        opened = open_run(str(root))
        with view_run(opened) as view:
            report = wait_for_end(opened, view.show, summary=view.uses_summary, ends_at_pause=True)
        _print_outcome(opened, report, as_json=as_json)
        return report
    except KeyboardInterrupt:
        print_interrupted_wait(reference)
        return None


def print_interrupted_wait(reference: str) -> None:
    """Print that the command no longer waits, and how to look at the run."""
    click.echo(
        f"longshore: no longer watching; the run continues. To cancel it: longshore cancel {reference}\n"
        f"longshore: to look at it: longshore report {reference}",
        err=True,
    )


def _print_outcome(opened: OpenRun, report: RunReport, *, as_json: bool) -> None:
    """Print in a line how a run ended, and why: on a terminal, its last failures stand above."""
    from longshore.cli.show.run_summary_text import failure_lines
    from longshore.model.report import outcome_line
    from longshore.model.states import JobState

    if not as_json:
        click.echo(outcome_line(report))
    print_notes(report.notes)
    if not can_redraw(sys.stderr):
        for line in failure_lines(_failures(opened, report)):
            click.echo(line, err=True)
    if report.counts.get(JobState.FAILED):
        click.echo(f"longshore: failures and their logs: longshore report {opened.reference}", err=True)
    if report.state is JobState.HELD:
        click.echo(f"longshore: to let the held jobs run: longshore release {opened.reference}", err=True)
    print_ways_on(opened, report)


def _failures(opened: OpenRun, report: RunReport) -> Sequence[Failure]:
    """Return the groups of failures: of a paused run, whose jobs may be tried again, those of all attempts."""
    from longshore.reports.report import ReportBuilder

    if not report.paused:
        return report.summary.failures if report.summary else ()
    import time

    builder = ReportBuilder(opened)
    builder.build(time.time())
    return builder.failed_attempts()


def print_ways_on(opened: OpenRun, report: RunReport) -> None:
    """Print why the command no longer waits for a run that is not over, and what can be done; nothing if it is."""
    from longshore.model.states import PAUSED_EXIT_STATUS
    from longshore.reports.rerun_commands import pause_commands

    if report.wait_status != PAUSED_EXIT_STATUS:
        return
    words = f"longshore: the run is PAUSED, and this command no longer waits for it (exit status {PAUSED_EXIT_STATUS})"
    click.echo(words, err=True)
    for each in pause_commands(opened):
        click.echo(f"longshore:   {each.purpose}: {each.command}", err=True)


def print_submission(submitted: SubmittedRun, report: RunReport | None) -> None:
    """Print the JSON document of a submission."""
    import time

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
