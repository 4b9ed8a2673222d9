"""``longshore submit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from longshore.cli.options import JSON, SERVICE, Progress

if TYPE_CHECKING:
    from longshore.app.submit import Submitted
    from longshore.model.report import RunReport

_KEYS: Final = {
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
    "make_id_link": "makeIdLink",
    "id_link_path": "idLinkPath",
}
"""Configuration key per option; the same as BPS's."""


@click.command(
    epilog="Example: longshore submit montage.yaml --set requestMemory=4096 --wait",
)
@click.argument("config_file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("-b", "--butler-config", metavar="PATH", help="Butler repository of the payload.")
@click.option("-i", "--input", multiple=True, metavar="COLL,...", help="Input collections.")
@click.option("-o", "--output", metavar="COLL", help="Output collection.")
@click.option("--output-run", metavar="COLL", help="Output run collection.")
@click.option("-d", "--data-query", metavar="QUERY", help="Which data to process.")
@click.option("-p", "--pipeline", metavar="FILE", help="Pipeline file.")
@click.option("-g", "--qgraph", metavar="FILE", help="File with a quantum graph.")
@click.option("--extra-qgraph-options", metavar="TEXT", help="Appended when a quantum graph is made.")
@click.option("--extra-update-qgraph-options", metavar="TEXT", help="Appended when a quantum graph is updated.")
@click.option("--extra-init-options", metavar="TEXT", help="Appended to the init job's command.")
@click.option("--extra-run-quantum-options", metavar="TEXT", help="Appended to each job's command.")
@SERVICE
@click.option("--compute-site", metavar="NAME", help="The site to run at.")
@click.option("--make-id-link", is_flag=True, help="Make a link named by the run's id to its directory.")
@click.option("--id-link-path", metavar="PATH", help="Where such links are made (default ./bps_links).")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key; VALUE is YAML. Can be repeated.")
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does.")
@JSON
@click.pass_context
def command(ctx: click.Context, /, config_file: Path, **options: Any) -> None:
    """Prepare the run that FILE describes and hand it to a workload manager."""
    from longshore.app.submit import submit
    from longshore.cli.logs import Teller

    named = {key: _joined(options[name]) for name, key in _KEYS.items() if options[name]}
    submitted = submit(config_file, options=named, sets=options["sets"], tell=Teller())
    if not options["as_json"]:
        _announce(submitted)
    if not options["wait"]:
        if options["as_json"]:
            _print_json(submitted, None)
        return
    report = _watch(submitted)
    if options["as_json"]:
        _print_json(submitted, report)
    ctx.exit(_show_outcome(report, quiet=options["as_json"]))


def _joined(value: Any) -> Any:
    return ",".join(value) if isinstance(value, tuple) else value


def _announce(submitted: Submitted) -> None:
    """BPS's three lines, which other programs read."""
    for note in submitted.notes:
        click.echo(f"longshore: {note}", err=True)
    click.echo(f"Submit dir: {submitted.run.root}")
    click.echo(f"Run Id: {submitted.card.id}")
    click.echo(f"Run Name: {submitted.card.name}")


def _watch(submitted: Submitted) -> RunReport:
    from longshore.app.runs import open_run
    from longshore.app.wait import wait_for

    progress = Progress()
    try:
        return wait_for(open_run(str(submitted.run.root)), progress.show)
    except KeyboardInterrupt:
        progress.close()
        click.echo(
            f"longshore: no longer watching; the run goes on. To end it: longshore cancel {submitted.card.id}", err=True
        )
        raise
    finally:
        progress.close()


def _show_outcome(report: RunReport, *, quiet: bool) -> int:
    from longshore.cli.show_text import outcome_line
    from longshore.model.state import EXIT_STATUS

    if not quiet:
        click.echo(outcome_line(report))
        for note in report.notes:
            click.echo(f"longshore: {note}", err=True)
    return EXIT_STATUS[report.state]


def _print_json(submitted: Submitted, report: RunReport | None) -> None:
    import time

    from longshore.cli.show_json import dumps, submit_document

    document = submit_document(
        submitted.card.id,
        submitted.card.name,
        str(submitted.run.root),
        service=submitted.card.service,
        site=submitted.site,
        jobs=submitted.card.expected,
        notes=submitted.notes,
        state=report.state if report else None,
        as_of=time.time(),
    )
    click.echo(dumps(document))
