"""Stages as commands: ``longshore acquire``, ``cluster``, ``transform`` and ``prepare`` stop after that stage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, print_json
from longshore.cli.submit_options import CONFIG_FILE, submission_options

if TYPE_CHECKING:
    from longshore.config.layers import Overrides


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
    from longshore.cli.show.format import escape_controls
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
