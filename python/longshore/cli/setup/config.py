"""``longshore config``: shows a configuration, explains its values, lints it, and prints its schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import IMPORT, JSON, OptionRecord, group_options, print_json
from longshore.cli.submit_options import CONFIG_FILE, submission_options

if TYPE_CHECKING:
    from longshore.config.layers import Overrides


class ScopeOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: the sections and variables a search uses first."""

    label: str | None
    cluster: str | None
    site: str | None
    cloud: str | None
    given: tuple[str, ...]

    @property
    def current_values(self) -> dict[str, str]:
        """BPS's current values of a search."""
        named = {
            "curr_pipetask": self.label,
            "curr_cluster": self.cluster,
            "curr_site": self.site,
            "curr_cloud": self.cloud,
        }
        return {name: value for name, value in named.items() if value}


@click.group(epilog="Example: longshore config explain run.yaml requestMemory --label isr")
def config_command() -> None:
    """Show, explain or lint a configuration, or print its schema."""


@config_command.command(epilog="Example: longshore config show run.yaml --origins")
@CONFIG_FILE
@click.option("--origins", is_flag=True, help="Add file, line, column and layer of each value.")
@JSON
@submission_options
def show(*, config_file: Path, overrides: Overrides, origins: bool, as_json: bool) -> None:
    """Print the effective configuration: all layers merged, values as written."""
    from longshore.cli.show.config import config_text
    from longshore.plan.configuration import read_draft_without_code
    from longshore.reports.documents.configuration import config_show_document

    root = read_draft_without_code(config_file, overrides).config.root
    if as_json:
        print_json(config_show_document(root, origins=origins))
    else:
        click.echo(config_text(root, origins=origins))


@config_command.command(epilog="Example: longshore config explain run.yaml requestMemory --label isr --site campus")
@CONFIG_FILE
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--label", metavar="LABEL", help="Search as for the tasks of this label (BPS: curr_pipetask).")
@click.option("--cluster", metavar="LABEL", help="Search as for the jobs of this cluster (BPS: curr_cluster).")
@click.option("--site", metavar="NAME", help="Search as at this site (BPS: curr_site).")
@click.option("--cloud", metavar="NAME", help="Search as in this cloud (BPS: curr_cloud).")
@click.option(
    "--var", "given", multiple=True, metavar="NAME=VALUE", help="Variable that overrides all others. Can be repeated."
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
    """Print the value of each KEY, its origin, the steps of its evaluation, and the values it overrode."""
    from longshore.cli.show.config import explain_text
    from longshore.plan.configuration import read_draft_without_code
    from longshore.plan.lint import explain_values
    from longshore.reports.documents.configuration import explain_document

    values = explain_values(
        read_draft_without_code(config_file, overrides), keys, current=scope.current_values, given=scope.given
    )
    if as_json:
        print_json(explain_document(values))
    else:
        click.echo(explain_text(values))
    ctx.exit(next((value.error.exit_status for value in values.values() if value.error), 0))


@config_command.command(epilog="Example: longshore config lint run.yaml --strict")
@CONFIG_FILE
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    help="Output format (default text).",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@IMPORT
@submission_options
@click.pass_context
def lint(
    ctx: click.Context,
    /,
    *,
    config_file: Path,
    overrides: Overrides,
    strict: bool,
    format_name: str,
    as_json: bool,
    imports_code: bool,
) -> None:
    """Print errors and likely mistakes in a configuration; exit with 3 if there are errors."""
    from longshore.cli.show.lint import lint_github, lint_text
    from longshore.config.schema import Severity
    from longshore.errors import ConfigError
    from longshore.plan.lint_file import lint_file
    from longshore.reports.documents.configuration import lint_document

    linted = lint_file(config_file, overrides, imports_code=imports_code)
    error_count = linted.count(Severity.ERROR) + (linted.count(Severity.WARNING) if strict else 0)
    if as_json or format_name == "json":
        print_json(lint_document(linted, ok=not error_count))
    elif text := lint_github(linted) if format_name == "github" else lint_text(linted, str(config_file)):
        click.echo(text)
    ctx.exit(ConfigError.exit_status if error_count else 0)


@config_command.command(epilog="Example: longshore config schema > longshore.json")
def schema() -> None:
    """Print the JSON Schema of configurations, for editors and other programs."""
    from longshore.config.schemas import configuration_schema

    print_json(configuration_schema())
