"""Configurations: begins one (``init``), shows it, explains its values and lints it (``config``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from longshore.cli.options import CONFIG_FILE, IMPORT, JSON, OptionRecord, group_options, submission_options
from longshore.cli.terminal import print_json
from longshore.config.explain import InterpolationStep, KeyExplanation, StepKind
from longshore.config.merge import Node
from longshore.config.schema import Finding, Severity
from longshore.errors import Origin
from longshore.model.report import escape_controls

if TYPE_CHECKING:
    from longshore.config.layers import Overrides
    from longshore.plan.lint import LintResult

_NO_WRAP: Final = 10**9


def config_text(root: Node, *, origins: bool) -> str:
    """Format the whole configuration as YAML, with the origin of each value if `origins` is set."""
    return "\n".join(_yaml_lines(root, 0, origins=origins))


def _yaml_lines(node: Node, depth: int, *, origins: bool) -> Iterator[str]:
    for key, child in node.value.items() if isinstance(node.value, dict) else ():
        start = f"{'  ' * depth}{_yaml_value(key)}:"
        if isinstance(child.value, dict) and child.value:
            yield start
            yield from _yaml_lines(child, depth + 1, origins=origins)
        else:
            place = f"  # {_origin_text(child.origin)}" if origins else ""
            yield f"{start} {_node_text(child)}{place}"


def _node_text(node: Node) -> str:
    """A value in one line of YAML, with numbers and truth values as they were written."""
    if isinstance(node.value, str) and not node.written:
        return _yaml_value(node.value)
    from longshore.config.yaml_text import dump_tree

    text = dump_tree(node, default_flow_style=True, width=_NO_WRAP, allow_unicode=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _yaml_value(value: Any) -> str:
    """A value in one line of YAML."""
    if isinstance(value, str) and any(ord(character) < 32 or ord(character) > 126 for character in value):
        # YAML would fold it over several lines; a JSON string is a double-quoted YAML string on one line.
        return json.dumps(value)
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=True, width=_NO_WRAP, allow_unicode=False)
    return text.removesuffix("\n").removesuffix("\n...")


def explain_text(values: Mapping[str, KeyExplanation]) -> str:
    """Format explained values, each with its history below it."""
    return "\n".join("\n".join(_explained_lines(key, explained)) for key, explained in values.items())


def _explained_lines(key: str, explained: KeyExplanation) -> Iterator[str]:
    if not explained.is_found and explained.error is None:
        default = f"; by default {_value_text(explained.default)}" if explained.default is not None else ""
        yield f"{escape_controls(key)}: not set{default}"
        return
    if explained.error:
        place = f"{explained.error.origin}: " if explained.error.origin else ""
        yield f"{escape_controls(key)}: {'cannot be worked out' if explained.is_found else 'not found'}"
        yield escape_controls(f"  error: {place}{explained.error.message}")
        if explained.error.hint:
            yield escape_controls(f"    {explained.error.hint}")
        if not explained.is_found:
            return
    else:
        yield f"{escape_controls(key)}: {_value_text(explained.value)}"
    yield f"  from {_origin_text(explained.origin)}"
    yield from _step_lines(explained.steps)
    for overridden in explained.overridden_values:
        yield f"  overrode {_value_text(overridden.value)} from {_origin_text(overridden.origin)}"
    for overridden in explained.hidden_values:
        section = escape_controls(str(overridden.section))
        yield f"  hides {_value_text(overridden.value)} in {section}, from {_origin_text(overridden.origin)}"


def _step_lines(steps: Sequence[InterpolationStep]) -> Iterator[str]:
    if len(steps) < 2 or (len(steps) == 2 and steps[0].text == steps[-1].text):
        return
    for step in steps:
        indent = "  " * (step.depth + 1)
        text = _value_text(step.text)
        match step.kind:
            case StepKind.WRITTEN:
                yield f"{indent}written {text}"
            case StepKind.ENVIRONMENT:
                yield f"{indent}with the environment {text}"
            case StepKind.VARIABLE:
                yield f"{indent}{{{escape_controls(step.name)}}} is {text}, from {_origin_text(step.origin)}"
            case StepKind.UNDEFINED:
                yield f"{indent}{{{escape_controls(step.name)}}} is defined nowhere: {text}"
            case StepKind.VALUE:
                yield f"{indent}gives {text}"


def _value_text(value: Any) -> str:
    return (
        escape_controls(_yaml_value(value))
        if not isinstance(value, str)
        else escape_controls(json.dumps(value, ensure_ascii=False))
    )


def _origin_text(origin: Origin | None) -> str:
    if origin is None:
        return "a current value"
    layer = f" ({origin.layer})" if origin.layer else ""
    return escape_controls(f"{origin}{layer}")


_MAX_WIDTH: Final = 160
_GITHUB_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def lint_text(linted: LintResult, name: str) -> str:
    """Format each finding with its line and a caret, then the number of findings."""
    shown = [line for finding in linted.findings for line in _finding_lines(finding, linted.source(finding))]
    counts = [f"{linted.count(each)} {each.value}{'' if linted.count(each) == 1 else 's'}" for each in Severity]
    ending = [f"{escape_controls(name)}: {', '.join(counts)}"]
    if linted.left_out:
        ending.append(escape_controls(f"Not checked: {'; '.join(linted.left_out)}."))
    return "\n".join([*shown, *ending])


def _finding_lines(finding: Finding, line: str | None) -> Iterator[str]:
    yield escape_controls(f"{finding.origin}: {finding.severity.value}: {finding.message}")
    if line is not None:
        column = finding.origin.column - 1
        start = max(0, min(column - _MAX_WIDTH // 2, len(line) - _MAX_WIDTH)) if len(line) > _MAX_WIDTH else 0
        part = line[start : start + _MAX_WIDTH].replace("\t", " ")
        yield f"    {escape_controls(part)}"
        yield f"    {' ' * len(escape_controls(part[: column - start]))}^"
    if finding.hint:
        yield escape_controls(f"    {finding.hint}")


def lint_github(linted: LintResult) -> str:
    """Format the findings as GitHub workflow commands, which GitHub shows beside the lines."""
    return "\n".join(_annotation(finding) for finding in linted.findings)


def _annotation(finding: Finding) -> str:
    origin = finding.origin
    message = f"{finding.message}. {finding.hint}" if finding.hint else finding.message
    if not origin.line and origin.layer:
        # Findings about options or environment variables have no file that GitHub could show.
        return escape_controls(f"::{_GITHUB_COMMANDS[finding.severity]}::{_escape_data(f'{origin}: {message}')}")
    place = f"file={_escape_property(origin.file)}"
    if origin.line:
        place += f",line={origin.line},col={origin.column}"
    return escape_controls(f"::{_GITHUB_COMMANDS[finding.severity]} {place}::{_escape_data(message)}")


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


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
@click.option("--probe", "with_probe", is_flag=True, help="Ask the workload manager what it has, as submit does.")
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
    with_probe: bool,
) -> None:
    """Print errors and likely mistakes in a configuration; exit as a submission that is refused for the same."""
    from longshore.plan.lint_file import lint_file
    from longshore.reports.documents.configuration import lint_document

    linted = lint_file(config_file, overrides, imports_code=imports_code, with_probe=with_probe)
    if as_json or format_name == "json":
        print_json(lint_document(linted, ok=not linted.exit_status(strict=strict)))
    elif text := lint_github(linted) if format_name == "github" else lint_text(linted, str(config_file)):
        click.echo(text)
    ctx.exit(linted.exit_status(strict=strict))


@config_command.command(epilog="Example: longshore config schema > longshore.json")
def schema() -> None:
    """Print the JSON Schema of configurations, for editors and other programs."""
    from longshore.config.schemas import configuration_schema

    print_json(configuration_schema())


@click.command(epilog="Example: longshore init --kind script trial")
@click.option(
    "--kind",
    type=click.Choice(["pipeline", "script", "lsst", "site"]),
    default="pipeline",
    show_default=True,
    help="Kind of example: a pipeline of your own commands, one script, an LSST pipeline, a site profile.",
)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path())
def init_command(kind: str, folder: Path) -> None:
    """Write a commented example to start from into DIR (default: the current directory); never overwrites."""
    from longshore.config.plugins import write_starter_files

    if folder.suffix in {".yaml", ".yml"} and not folder.is_dir():
        raise click.UsageError(f"'{folder}' is the name of a file, and this command writes into a directory.")
    written, following = write_starter_files(kind, folder)
    for path in written:
        click.echo(escape_controls(f"Wrote {path}"))
    click.echo(escape_controls(f"Next: {following}"))
