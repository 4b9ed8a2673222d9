"""``longshore config``: shows a configuration, explains its values, and says what is wrong with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from longshore.cli.options import JSON
from longshore.cli.submission import CONFIG_FILE

_SETS = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key; VALUE is YAML. Can be repeated."
)


@click.group(epilog="Example: longshore config explain run.yaml requestMemory --label isr")
def command() -> None:
    """Look at a configuration: what it is, where each value comes from, and what is wrong with it."""


@command.command(epilog="Example: longshore config show run.yaml --origins")
@CONFIG_FILE
@_SETS
@click.option("--origins", is_flag=True, help="Add file, line, column and layer of each value.")
@JSON
def show(config_file: Path, sets: tuple[str, ...], *, origins: bool, as_json: bool) -> None:
    """Print the effective configuration: all layers merged, values as they were written."""
    from longshore.app.configuration import read_configuration
    from longshore.cli.show_config import config_document, config_text
    from longshore.cli.show_json import dumps

    root = read_configuration(config_file, options={}, sets=sets, now=time.time())[0].config.root
    click.echo(dumps(config_document(root, origins=origins)) if as_json else config_text(root, origins=origins))


@command.command(epilog="Example: longshore config explain run.yaml requestMemory --label isr --site campus")
@CONFIG_FILE
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--label", metavar="LABEL", help="Search as for the tasks of this label (BPS: curr_pipetask).")
@click.option("--cluster", metavar="LABEL", help="Search as for the jobs of this cluster (BPS: curr_cluster).")
@click.option("--site", metavar="NAME", help="Search as at this site (BPS: curr_site).")
@click.option("--cloud", metavar="NAME", help="Search as in this cloud (BPS: curr_cloud).")
@click.option(
    "--var", "given", multiple=True, metavar="NAME=VALUE", help="A value that wins over all. Can be repeated."
)
@_SETS
@JSON
def explain(
    config_file: Path, keys: tuple[str, ...], *, given: tuple[str, ...], sets: tuple[str, ...], as_json: bool, **at: Any
) -> None:
    """Print the value of each KEY, where it was written, how it came about, and what it overrode."""
    from longshore.app.configuration import read_configuration
    from longshore.app.explain import explain as explain_keys
    from longshore.cli.show_config import explain_document, explain_text
    from longshore.cli.show_json import dumps

    configuration, _ = read_configuration(config_file, options={}, sets=sets, now=time.time())
    names = {"label": "curr_pipetask", "cluster": "curr_cluster", "site": "curr_site", "cloud": "curr_cloud"}
    current = {names[option]: value for option, value in at.items() if value}
    values = explain_keys(configuration, keys, current=current, given=given)
    click.echo(dumps(explain_document(values)) if as_json else explain_text(values))


@command.command(epilog="Example: longshore config lint run.yaml --strict")
@CONFIG_FILE
@_SETS
@click.option("--strict", is_flag=True, help="Let warnings count as errors.")
@click.option(
    "--format", "shape", type=click.Choice(["text", "json", "github"]), default="text", help="How to print (text)."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.pass_context
def lint(
    ctx: click.Context, config_file: Path, sets: tuple[str, ...], *, strict: bool, shape: str, as_json: bool
) -> None:
    """Print everything that is wrong with a configuration, or likely to be; exit with 3 where there are errors."""
    from longshore.app.lint import lint_file
    from longshore.cli.show_json import dumps
    from longshore.cli.show_lint import lint_document, lint_github, lint_text
    from longshore.config.check import Severity
    from longshore.errors import ConfigError

    linted = lint_file(config_file, options={}, sets=sets, now=time.time())
    bad = linted.count(Severity.ERROR) + (linted.count(Severity.WARNING) if strict else 0)
    if as_json or shape == "json":
        click.echo(dumps(lint_document(linted, ok=not bad)))
    elif text := lint_github(linted) if shape == "github" else lint_text(linted, str(config_file)):
        click.echo(text)
    ctx.exit(ConfigError.exit_status if bad else 0)


@command.command(epilog="Example: longshore config schema > longshore.json")
def schema() -> None:
    """Print the JSON Schema of configurations, for editors and other programs."""
    from longshore.world.etc import shipped

    click.echo(shipped("etc", "schema", "config.json").read_text("utf-8"), nl=False)
