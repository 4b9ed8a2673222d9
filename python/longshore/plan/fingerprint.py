"""Fingerprint of a prepared run: records its inputs, and finds what changed before it is submitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
import yaml

from longshore import __version__
from longshore.config.interpolate import GENERATE_KEY
from longshore.config.layers import Overrides
from longshore.config.merge import PACKAGED_LAYERS, Node, written_value
from longshore.config.secrets import looks_secret
from longshore.config.yaml_text import parse_yaml
from longshore.contract.service import Problem, RunPaths
from longshore.errors import DECODE_ERRORS, ConfigError, LongshoreError, Origin
from longshore.graphs.payload_files import locate_file
from longshore.model.submission import FileFingerprint, Fingerprint, RunIdentity
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.plan.checks import existing_programs
from longshore.plan.configuration import Configuration, read_draft
from longshore.plan.resolved_run import at_default_site, template_files
from longshore.plan.run_plan import RunPlan
from longshore.rundir.run_directory import MADE_FROM_FORMAT
from longshore.rundir.submissions import find_changed_files, read_manifest
from longshore.system.reading import current_directory, describe_change, fingerprint_file, read_file

_MOST_PROGRAMS: Final = 1000
_RUN_SECTION: Final = "bps_defined"
"""Section whose values differ for each run and follow from the others."""
ConfigurationValues: TypeAlias = dict[str, tuple[YamlValue, Origin | None]]
"""Value and origin per dotted key."""


class ChangedValue(NamedTuple):
    """A key of the configuration whose value changed, with a message and the new value's origin."""

    key: str
    message: str
    origin: Origin | None = None


def take_fingerprint(plan: RunPlan) -> Fingerprint:
    """Return the record of a run's inputs."""
    run = plan.run
    configuration = run.configuration
    graph = locate_file(configuration.text("qgraphFile"), configuration.path.parent)  # of which the run has a copy
    files = [*plan.payload, *([graph] if graph else ()), *template_files(configuration.resolved_site).values()]
    return Fingerprint(
        v=MADE_FROM_FORMAT,
        root=str(run.paths.root),
        folder=str(current_directory()),
        file=str(configuration.path),
        options=dict(configuration.layers.overrides.options),
        sets=configuration.layers.overrides.sets,
        site=configuration.site,
        umask=configuration.resolved_site.umask,
        limits=_limits(configuration),
        payload=_existing(map(fingerprint_file, dict.fromkeys(files))),
        programs=_existing(map(fingerprint_file, existing_programs(plan.started)[:_MOST_PROGRAMS])),
    )


def find_changes(run: RunPaths, card: RunIdentity, fingerprint: Fingerprint) -> Iterator[Problem]:
    """Yield problems for inputs and files of a run that changed since it was prepared."""
    if card.longshore != __version__:
        yield _change(f"this is Longshore {__version__}, and {card.longshore} prepared it")
    for files, which in (
        (fingerprint.payload, "the payload's file"),
        (fingerprint.programs, "the program"),
        (fingerprint.own, "its file"),
    ):
        for file in files:
            if what := describe_change(file, run.root):
                yield _change(f"{which} '{file.path}' {what}")
    if (manifest := read_manifest(run)) is not None:
        for change in find_changed_files(run, manifest, with_inputs=True):
            yield _change(f"its file '{change.path}' {change.what}")
    yield from _configuration_changes(run, card, fingerprint)


def origins_of(node: Node, key: str = "") -> Iterator[tuple[str, Origin]]:
    """Yield each value below a node as key and origin."""
    if isinstance(node.value, dict) and node.value:
        for name, below in node.value.items():
            yield from origins_of(below, f"{key}.{name}")
    else:
        yield key.removeprefix("."), node.origin


def _configuration_changes(run: RunPaths, card: RunIdentity, fingerprint: Fingerprint) -> Iterator[Problem]:
    """Yield problems for changed configuration keys, read again as then, from the same folder."""
    path = run.merged_config(card.name)
    try:
        before = read_recorded_values(path, run.origins)
        with chdir(fingerprint.folder):
            configuration = _reread_configuration(fingerprint, card.created_at)
            limits = _limits(configuration)
    except LongshoreError as error:
        yield _change(f"the configuration can no longer be read: {error.message}", error.origin)
        return
    except (OSError, yaml.YAMLError, *DECODE_ERRORS) as error:
        what = f"'{error.filename}': {error.strerror}" if isinstance(error, OSError) else str(error)
        yield _change(f"the configuration of then and of now cannot be compared: {what}")
        return
    now = configuration_values(configuration)
    for change in find_changed_values(before, now, same_version=card.longshore == __version__):
        yield _change(change.message, change.origin)
    for name in sorted({*limits, *fingerprint.limits}):
        then, here = (quote_value(each[name]) if name in each else "not set" for each in (fingerprint.limits, limits))
        if then != here:
            yield _change(f"'limits.{name}' of the site '{fingerprint.site}' is {here} now, and was {then}")


def find_changed_values(
    before: ConfigurationValues, now: ConfigurationValues, *, same_version: bool
) -> Iterator[ChangedValue]:
    """Yield the keys whose values differ; those of another Longshore version's defaults, and generated ones, do not."""
    generated = any(_layer_of(origin).startswith(GENERATE_KEY) for _, origin in before.values())
    for key in dict.fromkeys([*now, *before]):
        value, origin = now.get(key, (None, None))
        was, old_origin = before.get(key, (None, None))
        if _texts(value) == _texts(was) and (key in now) == (key in before):
            continue
        if (value is None and was == {}) or (was is None and value == {}):
            # An empty section: once it has keys, these are compared.
            continue
        layers = {_layer_of(each) for each in (origin, old_origin)} - {""}
        if (not same_version and layers <= PACKAGED_LAYERS) or (generated and _is_generated(key, old_origin, layers)):
            continue
        if key not in now:
            yield ChangedValue(key, f"'{key}' is not set now, and was {_shown(key, was)}")
        elif key not in before:
            yield ChangedValue(key, f"'{key}' is {_shown(key, value)} now, and was not set", origin)
        else:
            yield ChangedValue(key, f"'{key}' is {_shown(key, value)} now, and was {_shown(key, was)}", origin)


def _texts(value: YamlValue) -> YamlValue:
    """The value with the texts of scalars: quotation marks around a number change nothing."""
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return value if value is None or isinstance(value, dict) else str(value)


def _shown(key: str, value: YamlValue) -> str:
    """Return a value for a message, masked if it looks like a secret."""
    if isinstance(value, str) and looks_secret(key.rpartition(".")[2], value):
        return "(hidden)"
    return quote_value(value)


def _is_generated(key: str, old_origin: Origin | None, layers: set[str]) -> bool:
    """Tell whether a function made or may have chosen a value: functions are not called again to compare."""
    by_function = key.endswith(GENERATE_KEY) or _layer_of(old_origin).startswith(GENERATE_KEY)
    return by_function or not layers & {"file", "command line"}


def read_recorded_values(path: Path, origins: Path) -> ConfigurationValues:
    """Return the values at preparation by key."""
    places = msgspec.json.decode(read_file(origins), type=dict[str, Origin])
    try:
        recorded = parse_yaml(path.read_text("utf-8"), str(path))
    except ConfigError as error:
        raise yaml.YAMLError(error.message) from error
    return {key: (value, places.get(key)) for key, value in _flatten(written_value(recorded))}


def _reread_configuration(fingerprint: Fingerprint, now: float) -> Configuration:
    """Read the configuration of the same command line again."""
    draft = read_draft(Path(fingerprint.file), Overrides(fingerprint.options, fingerprint.sets), now=now)
    return at_default_site(draft, draft.load_service())


def configuration_values(configuration: Configuration) -> ConfigurationValues:
    """Return the values of a configuration by key."""
    root = configuration.config.root
    places = dict(origins_of(root))
    return {key: (value, places.get(key)) for key, value in _flatten(written_value(root))}


def _limits(configuration: Configuration) -> dict[str, str]:
    return {name: str(limit.written) for name, limit in configuration.resolved_site.limits.items()}


def _flatten(value: YamlValue, key: str = "") -> Iterator[tuple[str, YamlValue]]:
    if isinstance(value, dict) and value:
        for name, below in value.items():
            yield from _flatten(below, f"{key}.{name}")
    elif not key.startswith(f".{_RUN_SECTION}"):
        yield key.removeprefix("."), value


def _existing(found: Iterable[FileFingerprint | None]) -> tuple[FileFingerprint, ...]:
    return tuple(each for each in found if each is not None)


def _layer_of(origin: Origin | None) -> str:
    return origin.layer if origin else ""


def _change(message: str, origin: Origin | None = None) -> Problem:
    return Problem(message=message, origin=origin, code="submission_refused")
