"""``longshore ping``: checks whether a workload manager is available."""

from __future__ import annotations

import time
from pathlib import Path

import click

from longshore.cli.options import JSON, SERVICE, SITE_PATH, print_json
from longshore.plan.ping import ping


@click.command(epilog="Examples: longshore ping --wms-service-class local; longshore ping --compute-site NAME")
@SERVICE
@click.option(
    "--config", type=click.Path(path_type=Path, readable=False), help="Use the settings of the service in this file."
)
@click.option("--compute-site", metavar="NAME", default="", help="Use the settings of this site.")
@SITE_PATH
@click.option("--pass-thru", metavar="TEXT", expose_value=False, help="As in BPS; without effect.")
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
    as_json: bool,
) -> None:
    """Check whether a workload manager is available, and print its resources."""
    report = ping(wms_service_class, path=config, site=compute_site, site_path=site_path, now=time.time())
    if as_json:
        from longshore.reports.documents.site import PingDocument

        print_json(PingDocument.from_record(report, as_of=time.time()))
    else:
        from longshore.cli.show.report_text import ping_text

        click.echo(ping_text(report))
    ctx.exit(0 if report.ok else 4)
