"""Options and arguments that several commands share, the types of their values, and the records that commands get."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
import msgspec


class NonEmptyPath(click.Path):
    """Path type that refuses an empty text, which would be the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty path."""
        if not value:
            self.fail("the name of the file is empty", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """Number in a range; refuses ``nan``."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse ``nan``, which every comparison lets pass."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return number


class WholeNumber(click.IntRange):
    """Whole number in a range."""

    name = "whole number"


OUTPUT_FILE: Final = NonEmptyPath(path_type=Path)
"""A file to write; ``-`` is the standard output."""
STDOUT: Final = Path("-")


Command = TypeVar("Command", bound=Callable[..., object])

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
IMPORT = click.option(
    "--import", "imports_code", is_flag=True, help="Import and call code that only FILE names, as submit does."
)
ACCEPT_LOSS = click.option(
    "--accept-loss", is_flag=True, help="Continue from what is intact of a damaged journal; jobs may run again."
)
SHARE_OUTPUTS = click.option(
    "--share-outputs", is_flag=True, help="Even if another live run of yours writes the same files."
)
PASS_THRU = click.option(
    "--pass-thru", metavar="TEXT", default="", help="Options for the workload manager, as its own program takes them."
)
GLOBAL = click.option(
    "--global/--no-global", "is_global", default=False, help="Search all queues of the workload manager."
)
SERVICE = click.option("--wms-service-class", metavar="NAME", help="Service of the workload manager.")
SITE_PATH = click.option(
    "--site-path", multiple=True, metavar="DIR", help="Search site profiles here first. Can be repeated."
)
_RUN_ID = click.option(
    "--id", "reference", metavar="RUN", help="The run: its id, the beginning of its id, its directory, or @last."
)
_RUN = click.argument("run", required=False)


class OptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Values of some options of a command; each field has the name of an option."""


class SearchOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: where to search for unknown runs, and how far back."""

    wms_service_class: str | None
    is_global: bool
    hist: float | None


def group_options(**records: type[OptionRecord]) -> Callable[[Command], Command]:
    """Pass options to a command as records, one parameter per record."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_records(*args: object, **values: Any) -> object:
            made = {
                name: record(**{field: values.pop(field) for field in record.__struct_fields__})
                for name, record in records.items()
            }
            return command(*args, **made, **values)

        return cast("Command", with_records)

    return decorate


def run_option(*, required: bool = True) -> Callable[[Command], Command]:
    """Add the parameter `run`: the run of ``--id``, as in BPS, or an argument."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_run(*args: object, reference: str | None, run: str | None, **values: object) -> object:
            named = _named_run(reference, run)
            if required and named is None:
                raise click.UsageError(f"Name the run: longshore {click.get_current_context().info_name} RUN.")
            return command(*args, run=named, **values)

        return cast("Command", _RUN_ID(_RUN(with_run)))

    return decorate


def _named_run(reference: str | None, argument: str | None) -> str | None:
    if reference and argument and reference != argument:
        raise click.UsageError(f"Two runs are named: '{argument}' and --id '{reference}'.")
    named = argument if reference is None else reference
    if named == "":
        # An empty variable of a shell script must not mean "all runs".
        raise click.UsageError("The name of the run is empty.")
    return named


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
