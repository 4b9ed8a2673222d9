"""``longshore config``: shows a configuration, explains its values, lints it, and prints its schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.app import api
from longshore.cli.options import JSON, OptionRecord, group_options, print_json
from longshore.cli.submit_options import CONFIG_FILE, submission_options

if TYPE_CHECKING:
    from longshore.app.configure.layers import Overrides


class ScopeOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: the sections and variables a search uses first."""

    label: str | None
    cluster: str | None
    site: str | None
    cloud: str | None
    given: tuple[str, ...]

    @property
    def current(self) -> dict[str, str]:
        """BPS's current values of a search."""
        named = {
            "curr_pipetask": self.label,
            "curr_cluster": self.cluster,
            "curr_site": self.site,
            "curr_cloud": self.cloud,
        }
        return {name: value for name, value in named.items() if value}


@click.group(epilog="Example: longshore config explain run.yaml requestMemory --label isr")
def command() -> None:
    """Look at a configuration: what it is, where each value comes from, and what is wrong with it."""


@command.command(epilog="Example: longshore config show run.yaml --origins")
@CONFIG_FILE
@click.option("--origins", is_flag=True, help="Add file, line, column and layer of each value.")
@JSON
@submission_options
def show(*, config_file: Path, overrides: Overrides, origins: bool, as_json: bool) -> None:
    """Print the effective configuration: all layers merged, values as they were written."""
    from longshore.app.documents.configuration import config_show_document
    from longshore.cli.show.config import config_text

    root = api.configuration(config_file, overrides).config.root
    if as_json:
        print_json(config_show_document(root, origins=origins))
    else:
        click.echo(config_text(root, origins=origins))


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
@JSON
@submission_options
@group_options(scope=ScopeOptions)
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    *,
    config_file: Path,
    overrides: Overrides,
    keys: tuple[str, ...],
    scope: ScopeOptions,
    as_json: bool,
) -> None:
    """Print the value of each KEY, where it was written, how it came about, and what it overrode."""
    from longshore.app.documents.configuration import explain_document
    from longshore.cli.show.config import explain_text

    values = api.explain_values(
        api.configuration(config_file, overrides), keys, current=scope.current, given=scope.given
    )
    if as_json:
        print_json(explain_document(values))
    else:
        click.echo(explain_text(values))
    ctx.exit(next((value.error.exit_status for value in values.values() if value.error), 0))


@command.command(epilog="Example: longshore config lint run.yaml --strict")
@CONFIG_FILE
@click.option("--strict", is_flag=True, help="Let warnings count as errors.")
@click.option(
    "--format", "shape", type=click.Choice(["text", "json", "github"]), default="text", help="How to print (text)."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@submission_options
@click.pass_context
def lint(
    ctx: click.Context, /, *, config_file: Path, overrides: Overrides, strict: bool, shape: str, as_json: bool
) -> None:
    """Print everything that is wrong with a configuration, or likely to be; exit with 3 where there are errors."""
    from longshore.app.documents.configuration import lint_document
    from longshore.cli.show.lint import lint_github, lint_text
    from longshore.config.lint.schema_check import Severity
    from longshore.errors import ConfigError

    linted = api.lint(config_file, overrides)
    bad = linted.count(Severity.ERROR) + (linted.count(Severity.WARNING) if strict else 0)
    if as_json or shape == "json":
        print_json(lint_document(linted, ok=not bad))
    elif text := lint_github(linted) if shape == "github" else lint_text(linted, str(config_file)):
        click.echo(text)
    ctx.exit(ConfigError.exit_status if bad else 0)


@command.command(epilog="Example: longshore config schema > longshore.json")
def schema() -> None:
    """Print the JSON Schema of configurations, for editors and other programs."""
    print_json(api.configuration_schema())
