"""Lint of a configuration before it is used: its keys, variables and labels, and what a static check leaves out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.config.explain import KeyExplanation
from longshore.config.includes import SourceFile, read_yaml
from longshore.config.interpolate import Scope
from longshore.config.layers import OPTIONS
from longshore.config.lint import (
    BPS,
    BpsDefaultService,
    RunService,
    find_choices,
    find_keys_of_other_services,
    find_keys_without_effect,
    hide_secret_lines,
    keys_of_foreign_sites,
    label_hint,
    lint,
    lint_unused_keys,
)
from longshore.config.lint_variables import LintContext, key_names
from longshore.config.merge import RUN_LAYERS, Node, map_items, plain_map
from longshore.config.plugins import (
    CLUSTERING,
    SERVICES,
    SHIPPED_PROGRAMS,
    built_in_plugins,
    shipped_path,
    template_texts,
)
from longshore.config.schema import Finding, Severity, key_name, takes_number, variable_names
from longshore.config.schemas import configuration_schema, key_table, service_plugins, unusable_tables
from longshore.config.search import INIT_LABEL
from longshore.config.service_lookup import find_service_plugin, short_name
from longshore.config.yaml_text import LINE_END, key_places, note_values_of_bps
from longshore.contract.service import Problem
from longshore.errors import (
    DECODE_ERRORS,
    CodeRefusedError,
    ConfigError,
    LongshoreError,
    Origin,
    UnknownServiceError,
    UsageError,
    error_type,
)
from longshore.graphs.declarations import PER_JOB, PipelineKind, pipeline_kind
from longshore.graphs.payload_files import locate_file, pipeline_node
from longshore.model.report import FINAL_LABEL
from longshore.model.wording import did_you_mean, list_words, name_all
from longshore.plan.configuration import CONVERT_FROM, Configuration, explain_keys
from longshore.sites.profile import site_description
from longshore.sites.site import is_described, raise_first_error, unknown_site

# Limits of a static check of a run (lint), and what depends on files or the machine (decision 0087).


class LeftOutError(LongshoreError):
    """The rest of a payload cannot be checked statically."""


class StaticCheck(msgspec.Struct, kw_only=True):
    """A check of a run that asks only this machine, calls no function of a user, and takes bounded time.

    `with_probe` says that the workload manager may be asked all the same, `is_service_known` that the service can be
    used, without which its own checks are left out; `was_asked` says that the manager answered. `max_tasks` and
    `max_bytes` bound what is read of a large payload. `is_site_valid` is false when the description of the site has
    errors. `left_out` collects phrases for what was not checked. `seen` collects the problems of jobs' files and
    programs on this machine, which are fatal where a submission refuses them, `notes` what is legal but may be a
    mistake. `findings` are those of lint that need the payload.
    """

    with_probe: bool = False
    is_service_known: bool = True
    was_asked: bool = False
    max_tasks: int = 10_000
    max_bytes: int = 16 * 1024 * 1024
    is_site_valid: bool = True
    left_out: list[str] = msgspec.field(default_factory=list)
    seen: list[Problem] = msgspec.field(default_factory=list)
    notes: list[Problem] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)


# Labels and variables of a payload, found cheaply before the payload is read, for lint and explanations of keys.


_MAX_FILE_BYTES: Final = 8 * 1024 * 1024
_NO_NAMES: Final[frozenset[str]] = frozenset()
_LABELS_WITHOUT_TASKS: Final = frozenset({FINAL_LABEL, INIT_LABEL, "customJob"})


class PayloadNames(msgspec.Struct, frozen=True, kw_only=True):
    """Labels, defined names and used names of an unread payload; ``None`` means unknown."""

    labels: frozenset[str] | None = None
    names: frozenset[str] | None = None
    uses: frozenset[str] | None = None


class _WfTask(msgspec.Struct):
    name: str = ""


class _Specification(msgspec.Struct):
    tasks: list[_WfTask] = []


class _Workflow(msgspec.Struct):
    specification: _Specification


class _WfFormat(msgspec.Struct):
    workflow: _Workflow


def find_payload_names(configuration: Configuration, *, files: bool) -> PayloadNames:
    """Find labels and variables of the payload; `files` allows reading the payload's own file."""
    config = configuration.config
    inline = config.node_at("pipeline")
    if inline is not None:
        return _names_in_pipeline(inline)
    if "graphFile" in config or "graphSource" in config:
        return PayloadNames()
    if "pipelineYaml" in config:
        return _names_in_pipeline_file(configuration) if files else PayloadNames()
    if "wfformat" in config:
        return PayloadNames(labels=_wfformat_labels(configuration) if files else None, uses=_NO_NAMES)
    return PayloadNames(uses=_NO_NAMES)


def explain_values(
    configuration: Configuration,
    keys: Iterable[str],
    *,
    current: Mapping[str, str] | None = None,
    given: Iterable[str] = (),
) -> dict[str, KeyExplanation]:
    """Explain where the values of keys come from, as `explain_keys` does, for a label that the payload has.

    Raises `UsageError` if no task has the label, with the nearest one.
    """
    _refuse_unknown_label(configuration, (current or {}).get("curr_pipetask", ""))
    return explain_keys(configuration, keys, current=current or {}, given=given)


def _refuse_unknown_label(configuration: Configuration, label: str) -> None:
    """Refuse a label that neither a task nor a section has; nothing is refused where the labels are not known."""
    labels = find_payload_names(configuration, files=True).labels if label else None
    if labels is None or label in _LABELS_WITHOUT_TASKS:
        return
    if label not in labels.union(each for each, _ in configuration.config.labeled_parts()):
        raise UsageError(f"no task has the label '{label}'", hint=label_hint(label, labels))


def _names_in_pipeline(node: Node) -> PayloadNames:
    top = map_items(node)
    labels = frozenset(map_items(top.get("tasks")))
    uses = frozenset(variable_names(node))
    if "imports" in top or "instrument" in top:
        # LSST pipelines: imports add further tasks.
        return PayloadNames(labels=None if "imports" in top else labels, uses=uses)
    return PayloadNames(labels=labels, names=frozenset({*key_names(node), *PER_JOB}), uses=uses)


def _names_in_pipeline_file(configuration: Configuration) -> PayloadNames:
    path = _find_file(configuration, "pipelineYaml")
    try:
        node = read_yaml(path) if path else None
    except LongshoreError:
        # Errors are reported when the payload is read.
        node = None
    return _names_in_pipeline(pipeline_node(node)) if node and isinstance(node.value, dict) else PayloadNames()


def _wfformat_labels(configuration: Configuration) -> frozenset[str] | None:
    path = _find_file(configuration, "wfformat")
    try:
        if path is None or path.stat().st_size > _MAX_FILE_BYTES:
            return None
        document = msgspec.json.decode(path.read_bytes(), type=_WfFormat)
    except (OSError, *DECODE_ERRORS):
        return None
    return frozenset(task.name for task in document.workflow.specification.tasks)


def _find_file(configuration: Configuration, key: str) -> Path | None:
    """Return the file that a key names, or `None` if it is missing."""
    try:
        return locate_file(configuration.text(key).partition("#")[0], configuration.path.parent)
    except (LongshoreError, OSError, ValueError):
        return None


# Lint of a configuration at its site, with what only the payload and other services tell.


_TEMPLATES: Final = "templates"
_PLAIN_PAYLOADS: Final = ("pipeline", "pipelineYaml", "wfformat", "graphFile")
"""Keys that name a payload, which may be another one than a quantum graph."""
_QUERIED_PAYLOADS: Final = ("pipeline", "pipelineYaml")
"""Those whose data ``dataQuery`` selects."""
_GRAPH_KEYS: Final = frozenset(
    [
        "butlerConfig",
        "inCollection",
        "qgraphFileTemplate",
        "createQuantumGraph",
        "updateQuantumGraph",
        "defaultPreCmdOpts",
        "qgraphPreCmdOpts",
        "updateQgraphPreCmdOpts",
        "initPreCmdOpts",
        "runPreCmdOpts",
        "extraQgraphOptions",
        "extraUpdateQgraphOptions",
        "extraInitOptions",
        "extraRunQuantumOptions",
        "extraAggregateOptions",
        "pipetaskOutput",
        "pipetaskInput",
        "pipetaskDataQuery",
        "fileDistributionEndPoint",
    ]
)
"""Keys that only quantum graphs use, by the commands in their defaults."""
_OPTION_NAMES: Final = {"inCollection": "input"}
"""Options with another name than their key."""
_CONVERTED_KEYS: Final = frozenset({"queue", "directives", "partitions", "backendOptions"})
"""Keys of other services of which a converted run tells itself."""
_CLASS_KEYS = ("class", "wmsServiceClass", "service")
"""Keys of a site that name code: the first is that of Parsl's plug-in of BPS."""


def check_configuration(configuration: Configuration) -> list[Finding]:
    """Lint a configuration before use and return the warnings, and the notes that a submission tells.

    Raises `ConfigError` with the first error and the number of others.
    """
    findings = lint_configuration(configuration)
    raise_first_error(findings, command=f"longshore config lint {shlex.quote(str(configuration.path))}")
    warnings = [finding for finding in findings if finding.severity is Severity.WARNING or finding.told]
    return list(dict.fromkeys([*configuration.layers.warnings, *warnings]))


class LintResult(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Findings in a file and its includes, in the order of the files, with the text of each file.

    `left_out` has phrases for what was not checked because it depends on files or the machine.
    """

    findings: tuple[Finding, ...]
    sources: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    @cached_property
    def _lines(self) -> Mapping[str, list[str]]:
        return {file: LINE_END.split(text) for file, text in self.sources.items()}

    def source(self, finding: Finding) -> str | None:
        """Return the source line of a finding if it exists and is not secret."""
        place = finding.origin
        lines = self._lines.get(place.file, ())
        return lines[place.line - 1] if not finding.hidden and 0 < place.line <= len(lines) else None

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def exit_status(self, *, strict: bool = False) -> int:
        """Return the exit status of the command: that of a submission with these errors; `strict` counts warnings."""
        codes = [finding.code for finding in self.findings if finding.severity is Severity.ERROR]
        if codes:
            return error_type(codes).exit_status
        return ConfigError.exit_status if strict and self.count(Severity.WARNING) else 0


def lint_configuration(configuration: Configuration, *, thorough: bool = False) -> list[Finding]:
    """Return all findings about a configuration, in the order of its files.

    `thorough` also checks payload files and commands, which otherwise happens when jobs are made.
    """
    payload = find_payload_names(configuration, files=thorough)
    surroundings = _lint_context(configuration, payload, thorough=thorough)
    findings = [note for read in configuration.layers.files for note in read.notes]
    # With Longshore as its plug-in, BPS would not use its default.
    bps = None if configuration.layers.names_bridge else _find_bps_default()
    findings += lint(configuration.config, configuration_schema(), surroundings, bps=bps, labels=payload.labels)
    findings += _keys_of_other_services(configuration)
    findings += _values_of_bps(configuration)
    findings += _keys_of_other_payloads(configuration)
    findings += _unused_link_folder(configuration)
    findings += _undescribed_site(configuration)
    findings += (
        Finding(
            message=f"{text}. Its keys are not checked",
            origin=Origin(""),
            severity=Severity.WARNING,
            hint="Mend the package, or uninstall it.",
        )
        for text in unusable_tables()
    )
    if thorough:
        findings += _undefined_sites(configuration, payload.labels)
    return sort_findings(findings, configuration)


def _values_of_bps(configuration: Configuration) -> Iterator[Finding]:
    """Yield a warning for each word of a run of BPS whose text is not the value that the run has for it."""
    if not configuration.is_of_bps:
        return
    schema = configuration_schema()

    def takes_value(path: tuple[str, ...]) -> bool:
        return takes_number([step for step in path if step != "bps_cmdline"], schema)

    for layer in configuration.all_layers:
        yield from note_values_of_bps(layer.root, takes_value)
    path = _find_file(configuration, "pipelineYaml")
    with suppress(LongshoreError):
        node = pipeline_node(read_yaml(path)) if path else None
        if node is not None and pipeline_kind(node) is PipelineKind.COMMANDS:
            yield from note_values_of_bps(node, lambda _: False)


def find_keys_unused_by_payload(configuration: Configuration) -> list[Finding]:
    """Find unused keys if the payload's own file was needed to know its variables."""
    if find_payload_names(configuration, files=False).uses is not None:
        return []
    context = _lint_context(configuration, find_payload_names(configuration, files=True), thorough=False)
    return lint_unused_keys(configuration.config.root, configuration_schema(), context)


def _lint_context(configuration: Configuration, payload: PayloadNames, *, thorough: bool) -> LintContext:
    return LintContext(
        env=configuration.env,
        known=_quantum_graph_keys(),
        payload_names=payload.names,
        payload_uses=payload.uses,
        commands=thorough,
        plugins_read=_plugins_read(configuration),
        site=configuration.site,
        foreign_sites=_foreign_sites(configuration),
    )


def find_unjudged_keys(configuration: Configuration) -> Iterator[str]:
    """Yield a phrase for each site with keys that are not checked, since only code that it names knows them."""
    sites = _foreign_sites(configuration)
    paths = keys_of_foreign_sites(configuration.config.root, configuration_schema(), sites)
    for site in dict.fromkeys(path[1] for path in sorted(paths)):
        yield f"keys of 'site.{site}' that only code of '{sites[site]}' knows"


def _foreign_sites(configuration: Configuration) -> dict[str, str]:
    """Return the sites that name a class that no package registers, and the run's own if the run does."""
    sections = {name: map_items(site) for name, site in map_items(configuration.config.node_at("site")).items()}
    named = {
        name: next((str(items[key].value) for key in _CLASS_KEYS if key in items), "")
        for name, items in sections.items()
    }
    if not named.get(configuration.site):
        named[configuration.site] = configuration.service
    plugins = {name: find_service_plugin(path) for name, path in named.items() if path}
    return {name: named[name] for name, plugin in plugins.items() if plugin is not None and not plugin.is_registered}


def _plugins_read(configuration: Configuration) -> bool:
    """Tell whether a plug-in is chosen: it receives the whole configuration, and may read sections of its own."""
    plugin = find_service_plugin(configuration.service)
    if plugin is None or not plugin.is_built_in or "graphSource" in configuration.config:
        return True
    try:
        algorithm = configuration.search("clusterAlgorithm")
    except ConfigError:
        return True  # its own check reports the error
    name = str(algorithm or "").strip().rpartition(".")[2]
    return bool(name) and name not in built_in_plugins(CLUSTERING)


def sort_findings(findings: Iterable[Finding], configuration: Configuration) -> list[Finding]:
    """Remove duplicate findings and sort them in the order of the configuration's files."""
    return sort_by_position(findings, file_texts(configuration.layers.files))


def _keys_of_other_services(configuration: Configuration) -> Iterator[Finding]:
    """Yield an error for each key that is wrong on the run's service, and a note for each that has no effect there."""
    service = service_of_keys(configuration)
    if service is None:
        return  # its own check reports the unknown service
    root, site = configuration.config.root, configuration.site
    converted = configuration.config.lookup(CONVERT_FROM, configuration.scope())
    is_converted = bool(converted and converted.value)
    refused = {
        key: plugin.name
        for plugin in service_plugins()
        for key in (row.name for row in key_table(plugin).rows if row.exclusive)
        if key in service.others
    }
    if not is_converted:
        yield from find_keys_of_other_services(root, site, refused, service.name)
    # BPS writes all its defaults to the merged configuration of a run.
    if configuration.config.node_at("bps_defined", "submitPath") is not None:
        return
    found = find_keys_without_effect(root, configuration_schema(), service, site=site)
    if is_converted:
        yield from _dropped_keys(found, service)
    else:
        unknown = list(unknown_templates(configuration, RUN_LAYERS))
        # A map of templates with one that has an effect is told by the names of the others.
        dropped = {*refused, *([_TEMPLATES] if _has_program(configuration) else ())}
        yield from (finding for finding in found if finding.path[-1] not in dropped)
        yield from unknown


def _has_program(configuration: Configuration) -> bool:
    """Whether the site replaces a program of jobs, which each service has."""
    described = site_description(configuration.config, configuration.site, [_TEMPLATES])
    return not map_items(map_items(described).get(_TEMPLATES)).keys().isdisjoint(SHIPPED_PROGRAMS)


def _dropped_keys(found: Sequence[Finding], service: RunService) -> Iterator[Finding]:
    """Yield one note on the keys of a converted run that mean nothing on this machine; requests are converted."""
    dropped = [each for each in found if each.path[-1] not in {*service.others, *_CONVERTED_KEYS}]
    if dropped:
        names = [f"'{name}'" for name in dict.fromkeys(key_name(each.path) for each in dropped)]
        has = "have" if names[1:] else "has"
        message = f"{list_words(names)} {has} no effect on this machine, in place of the workload manager"
        yield replace(dropped[0], message=message, hint="")


def unknown_templates(configuration: Configuration, layers: Collection[str]) -> Iterator[Finding]:
    """Yield a note for each template, written in one of some layers, of a name that the service does not have."""
    described = site_description(configuration.config, configuration.site, [_TEMPLATES])
    items = map_items(map_items(described).get(_TEMPLATES)).items()
    written = {name: node for name, node in items if node.origin.layer in layers}
    try:
        service = configuration.load_service() if written else None
    except (CodeRefusedError, UnknownServiceError):
        return
    own = template_texts(type(service))
    known = {*own, *SHIPPED_PROGRAMS}
    for name, node in written.items():
        # Of a service without templates, the whole map has no effect, unless it has a program of jobs.
        if (own or known & written.keys()) and name not in known:
            whose = short_name(configuration.service)
            yield Finding(
                message=f"'{_TEMPLATES}.{name}' has no effect: the service '{whose}' has no such template",
                origin=node.origin,
                hint=did_you_mean(name, known) or name_all(sorted(known)),
                severity=Severity.NOTE,
                path=("site", configuration.site, _TEMPLATES, name),
                at_key=True,
                told=True,
            )


def service_of_keys(configuration: Configuration) -> RunService | None:
    """Return the service of a run as a user of keys; ``None`` if it is unknown.

    Of a service that only a file names, and that is not imported therefore, only keys of others are judged.
    """
    own = find_service_plugin(configuration.service)
    if own is None:
        return None
    others = {
        key: plugin.name
        for plugin in service_plugins()
        if plugin.import_path != own.import_path
        for key in key_table(plugin).keys
    }
    name = short_name(configuration.service)
    try:
        service = configuration.load_service()
    except (CodeRefusedError, UnknownServiceError):
        return RunService(name=name, users=frozenset({name}), others=others, is_known=False)
    known = frozenset(built_in_plugins(SERVICES)) | {BPS}
    users = (
        frozenset({str(vars(each).get("name")) for each in type(service).__mro__} | {service.traits.key_user}) & known
    )
    return RunService(
        name=name,
        users=users or frozenset({name}),
        has_pilots=service.traits.has_pilots,
        reasons=service.traits.unused_keys,
        others=others,
        is_known=bool(users),
    )


def _keys_of_other_payloads(configuration: Configuration) -> Iterator[Finding]:
    """Yield a note for each key of quantum graphs in a run of another payload that does not use it as a variable."""
    config = configuration.config
    if not any(key in config for key in _PLAIN_PAYLOADS) or any(
        each.name == "lsst" for each in configuration.all_layers
    ):
        return
    keys = _GRAPH_KEYS if any(key in config for key in _QUERIED_PAYLOADS) else _GRAPH_KEYS | {"dataQuery"}
    written = [(path, node) for path, node in _written_keys(config.root) if path[-1] in keys]
    if not written or _plugins_read(configuration):
        return
    uses = find_payload_names(configuration, files=True).uses
    used = {*variable_names(config.root), *(uses or ())}
    for path, node in written:
        if uses is not None and path[-1] not in used:
            yield Finding(
                message=f"'{_given_name(path, node)}' has no effect: the payload is no quantum graph, and nothing uses "
                f"'{{{path[-1]}}}'",
                origin=node.origin,
                hint="Leave it out.",
                severity=Severity.NOTE,
                path=path,
                at_key=True,
                told=True,
            )


def _written_keys(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield the keys at the places of a payload that were written for this run, and say something."""
    top = map_items(root)
    for section, items in (("", top), *((name, map_items(top.get(name))) for name in ("payload", "bps_cmdline"))):
        for key, node in items.items():
            if node.origin.layer in RUN_LAYERS and node.value not in (None, ""):
                yield (section, key) if section else (key,), node


def _given_name(path: Sequence[str], node: Node) -> str:
    """Return the name of a key as it was given: as an option, or in a file."""
    if node.origin.file != OPTIONS:
        return key_name(path)
    return "--" + _OPTION_NAMES.get(path[-1], re.sub("([A-Z])", lambda found: f"-{found[1].lower()}", path[-1]))


def _unused_link_folder(configuration: Configuration) -> Iterator[Finding]:
    """Yield a note where a folder of links is named, and no link is made."""
    key = "idLinkPath"
    for path, node in _written_keys(configuration.config.root):
        if path[-1] == key and key not in variable_names(configuration.config.root):
            with suppress(ConfigError):
                if not configuration.flag("makeIdLink"):
                    yield Finding(
                        message=f"'{_given_name(path, node)}' has no effect: no link is made",
                        origin=node.origin,
                        hint="Say 'makeIdLink: true', or --make-id-link.",
                        severity=Severity.NOTE,
                        path=path,
                        at_key=True,
                        told=True,
                    )


def _undefined_sites(configuration: Configuration, labels: frozenset[str] | None) -> Iterator[Finding]:
    """Yield a finding for each undefined site of a task, a cluster or a special job."""
    config, sites = configuration.config, configuration.sites
    parts = [config.node_at(name) for name in ("finalJob", "customJob")]
    # A cluster without tasks makes no jobs, unless it has the name of a label.
    parts += [part for label, part in config.labeled_parts() if labels is None or label in labels or _has_tasks(part)]
    for part in parts:
        own = map_items(part).get("computeSite")
        if own is not None and isinstance(own.value, list):
            yield Finding(
                message="a part of a run names one site: only the run itself has a list of candidates",
                origin=own.origin,
                hint="Write the name of one site, or move the list to the root.",
            )
            continue
        for name, origin in find_choices(part, "computeSite") if part is not None else ():
            if not any(mark in name for mark in "{$<") and not is_described(name, config, sites):
                yield _undefined_site(configuration, name, origin)


def _has_tasks(cluster: Node) -> bool:
    return "pipetasks" in map_items(cluster)


def _undescribed_site(configuration: Configuration) -> Iterator[Finding]:
    """Yield a warning if nothing describes the site of a run that was written for BPS."""
    name = configuration.site
    try:
        origin = configuration.origin("computeSite")
        written = configuration.base.search("computeSite", Scope(env=configuration.env))
    except ConfigError:
        return  # reported where the site is chosen
    if isinstance(written.value, dict) and written.origin is not None:
        yield Finding(
            message="'computeSite' is a map, which names no site",
            origin=written.origin,
            severity=Severity.WARNING if configuration.is_bps_file() else Severity.ERROR,
            hint="Write the name of one site.",
        )
    elif name and origin is not None and not is_described(name, configuration.config, configuration.sites):
        yield _undefined_site(configuration, name, origin)


def _undefined_site(configuration: Configuration, name: str, origin: Origin) -> Finding:
    """Return an error, or a warning where BPS would use the site as it is, without settings."""
    error = unknown_site(name, configuration.config, configuration.sites, origin)
    if not configuration.is_bps_file(name):
        return Finding(message=error.message, origin=origin, hint=error.hint)
    return Finding(
        message=f"nothing describes the site '{name}', and jobs run there without settings of a site",
        origin=origin,
        severity=Severity.WARNING,
        hint=error.hint,
    )


def sort_by_position(findings: Iterable[Finding], texts: Mapping[str, str]) -> list[Finding]:
    """Remove duplicates and sort findings by file and line, each at its key or value."""
    numbers = {file: number for number, file in enumerate(texts)}
    places = cache(lambda file: key_places(texts[file]))

    def located(finding: Finding) -> Finding:
        origin = finding.origin
        if not finding.at_key or not finding.path or origin.file not in texts:
            return finding
        place = places(origin.file).get((origin.line, origin.column, finding.path[-1]))
        if place is None:
            return finding
        return replace(finding, origin=Origin(origin.file, *place, origin.layer), at_key=False)

    def position(finding: Finding) -> tuple[int, str, int, int]:
        origin = finding.origin
        return numbers.get(origin.file, len(numbers)), origin.file, origin.line, origin.column

    once = {(finding.message, finding.origin): finding for finding in hide_secret_lines([*map(located, findings)])}
    return sorted(once.values(), key=position)


def file_texts(files: Iterable[SourceFile]) -> dict[str, str]:
    """Return the text of each file by its name."""
    return {str(read.path): read.content.decode("utf-8-sig", "replace") for read in files}


def _find_bps_default() -> BpsDefaultService | None:
    """Return the registered service whose table of keys says that BPS uses it by default; ``None`` without one."""
    for plugin in service_plugins():
        table = key_table(plugin)
        if table.bps_default:
            return BpsDefaultService(service=plugin.name, title=table.title, keys=table.added_keys)
    return None


def _quantum_graph_keys() -> frozenset[str]:
    """Return the keys that the defaults for quantum graphs define."""
    names = plain_map(read_yaml(shipped_path("etc", "lsst.yaml")))
    sections = (names.get(section) for section in ("payload", "finalJob"))
    return frozenset(names).union(*(section for section in sections if isinstance(section, dict)))
