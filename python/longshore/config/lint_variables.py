"""Checks variables and function calls in a configuration: undefined variables, reference cycles, unused keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from longshore.config.interpolate import (
    BPS_EVAL,
    GENERATE_HINT,
    GENERATE_KEY,
    Interpolator,
    Scope,
    impure_calls,
    parse_call,
)
from longshore.config.merge import PACKAGED_LAYERS, Node, map_items
from longshore.config.schema import Finding, Severity, find_unknown_keys, key_name, keys_of_schema, variable_names
from longshore.config.search import Config
from longshore.config.staging import TRANSFER_COMMAND
from longshore.config.templates import WMS_HINT, angled_names, is_wms_name
from longshore.errors import ConfigError, Origin, ReferenceCycleError
from longshore.model.values import JsonSchema, YamlValue
from longshore.model.wording import did_you_mean, own_word

_STAGE_NAMES: Final = (
    "timestamp",
    "uniqProcName",
    "submitPath",
    "operator",
    "payloadName",
    "label",
    "jobLabel",
    "jobName",
    "tags",
    "qgraphFile",
    "qgraphId",
    "qgraphNodeId",
    "runQgraphFile",
    "inputQgraphFile",
    "outputQgraphFile",
    "inCollection",
    "dataQuery",
)
_DIMENSION_NAMES: Final = (
    "instrument",
    "skymap",
    "tract",
    "patch",
    "band",
    "physical_filter",
    "subfilter",
    "visit",
    "visit_system",
    "exposure",
    "detector",
    "group",
    "day_obs",
    "node_number",
)
LATER_NAMES: Final = frozenset({*_STAGE_NAMES, *_DIMENSION_NAMES})
"""Names that run stages or a quantum's data ID define, and names that BPS allows to be undefined."""

_OPTIONAL_NAME = re.compile(r"extra\w*Options|\w*PreCmdOpts")
_LENIENT_TEMPLATES: Final = frozenset({"templateDataId", "subDirTemplate", "subdirTemplate", "clusterTemplate"})
"""Keys of texts that never fail on a dimension that a job lacks."""
_CHOSEN_SECTIONS: Final = {
    "pipetask": ("pipetask", "cluster"),
    "cluster": ("cluster",),
    "site": ("site",),
    "cloud": ("cloud",),
}
_UNINTERPOLATED_KEYS: Final = frozenset({"pipeline", "current"})
"""Keys at the root whose texts are not interpolated by search."""
_FREE_SECTIONS: Final = frozenset({"site", "cloud", "replay", "ordering"})
_MAX_SUGGESTIONS: Final = 20
_COMMAND = re.compile(r"runQuantumCommand|command[0-9]+")


class LintContext(msgspec.Struct, frozen=True, kw_only=True):
    """Names and environment that a configuration may use.

    Attributes
    ----------
    env
        Environment variables.
    known
        Names defined elsewhere: the defaults of quantum graphs.
    payload_names
        Names that the payload defines; ``None`` where they cannot be known.
    payload_uses
        Names that the payload uses; ``None`` where they cannot be known.
    commands
        Whether to check commands too; a caller that makes jobs of them afterwards checks them better.
    plugins_read
        Whether a plug-in may read sections that Longshore does not know.
    site
        Site of the run; empty if unknown.
    foreign_sites
        Sites whose keys only the code that they name knows.
    """

    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    known: frozenset[str] = frozenset()
    payload_names: frozenset[str] | None = None
    payload_uses: frozenset[str] | None = None
    commands: bool = True
    plugins_read: bool = False
    site: str = ""
    foreign_sites: Collection[str] = ()


def find_variable_errors(config: Config, context: LintContext) -> Iterator[Finding]:
    """Findings about user-written texts: undefined variables, reference cycles, calls, and words in angle brackets."""
    return _VariableChecker(config, context).findings()


class _VariableChecker:
    """Interpolates every text once, in the scope of its section."""

    def __init__(self, config: Config, context: LintContext) -> None:
        self.config = config
        self.context = context
        self._defined = {*key_names(config.root), *context.known, *(context.payload_names or ()), *LATER_NAMES}
        self._interpolators: dict[tuple[str, ...], Interpolator] = {}
        self._undefined: dict[tuple[str, Origin | None], None] = {}
        self._suggestions: dict[str, str] = {}

    def findings(self) -> Iterator[Finding]:
        for key, node in map_items(self.config.root).items():
            if key not in _UNINTERPOLATED_KEYS:
                yield from self._check_node(node, (key,))

    def _check_node(self, node: Node, path: tuple[str, ...]) -> Iterator[Finding]:
        if path[-1] == TRANSFER_COMMAND:
            # Its placeholders are those of each file.
            return
        if isinstance(node.value, dict):
            for key, below in node.value.items():
                yield from self._check_node(below, (*path, key))
        elif isinstance(node.value, list):
            for below in node.value:
                yield from self._check_node(below, path)
        elif isinstance(node.value, str) and node.origin.layer not in PACKAGED_LAYERS:
            yield from self._check_text(node.value, node, path)

    def _check_text(self, text: str, node: Node, path: tuple[str, ...]) -> Iterator[Finding]:
        if "<" in text:
            yield from self._find_literal_angles(text, node.origin)
        if "{" not in text and "<" not in text and BPS_EVAL not in text and path[-1] != GENERATE_KEY:
            return
        self._undefined.clear()
        interpolator = self._interpolator(path)
        try:
            if BPS_EVAL in text:
                for name in impure_calls(text):
                    message = f"'{BPS_EVAL}' calls '{name}' when a run is prepared; its value is not known before"
                    yield Finding(message=message, origin=node.origin, severity=Severity.NOTE)
            hit = self.config.lookup(path[-1], interpolator.scope)
            is_own = hit is not None and hit.node is node
            template = interpolator.template(text, node.origin, name=path[-1] if is_own else "")
            if path[-1] == GENERATE_KEY and text:
                parse_call(template.render({}), node.origin, hint=GENERATE_HINT)
        except ReferenceCycleError as error:
            yield _finding(error, node.origin, Severity.ERROR)
        except ConfigError as error:
            # The text may be valid with another label's values; a wrong function call never is.
            is_certain = BPS_EVAL in text or path[-1] == GENERATE_KEY
            yield _finding(error, node.origin, Severity.ERROR if is_certain else Severity.WARNING)
        if path[-1] not in _LENIENT_TEMPLATES:
            yield from self._find_undefined(path)

    def _interpolator(self, path: tuple[str, ...]) -> Interpolator:
        part = path[:2] if path[0] in _CHOSEN_SECTIONS and len(path) > 2 else path[:1] if len(path) > 1 else ()
        if part not in self._interpolators:
            current: dict[str, YamlValue] = {}
            if len(part) == 2:
                current = {f"curr_{section}": part[1] for section in _CHOSEN_SECTIONS[part[0]]}
            searchobj = self.config.node_at(*part) if len(part) == 1 else None
            scope = Scope(
                current=current,
                searchobj=searchobj,
                env=self.context.env,
                undefined=self._record_undefined,
                # A text is a value of a job, or a part of one. One of neither is refused where it is read.
                of_attempts=True,
            )
            self._interpolators[part] = Interpolator(self.config, scope)
        return self._interpolators[part]

    def _record_undefined(self, name: str, origin: Origin | None) -> str:
        self._undefined[name, origin] = None
        return ""

    def _find_undefined(self, path: tuple[str, ...]) -> Iterator[Finding]:
        for name, origin in self._undefined:
            last = name.rpartition(".")[2]
            if last in self._defined or _OPTIONAL_NAME.fullmatch(name):
                continue
            if is_wms_name(name):
                message = f"no workload manager replaces '{{{name}}}'"
                yield Finding(message=message, origin=origin or Origin(""), hint=WMS_HINT)
                continue
            suggestion = self._suggestion(name)
            if _COMMAND.fullmatch(path[-1]):
                if not self.context.commands:
                    continue
                hint = f"{suggestion} If no variable is meant, double the braces: '{{{{{name}}}}}'.".strip()
                is_certain = self.context.payload_names is not None
                severity = Severity.ERROR if is_certain else Severity.WARNING
                message = f"the command uses '{{{name}}}', which nothing defines"
            else:
                hint = f"{suggestion} It would be empty.".strip()
                severity = Severity.WARNING
                message = f"nothing defines the variable '{name}'"
            yield Finding(message=message, origin=origin or Origin(""), hint=hint, severity=severity)

    def _suggestion(self, name: str) -> str:
        """The nearest defined name, searched for the first few only, because each search compares all names."""
        if name not in self._suggestions:
            self._suggestions[name] = (
                did_you_mean(name, self._defined) if len(self._suggestions) < _MAX_SUGGESTIONS else ""
            )
        return self._suggestions[name]

    def _find_literal_angles(self, text: str, origin: Origin) -> Iterator[Finding]:
        for name, is_env in angled_names(text, self.context.env):
            if is_env or name not in self._defined:
                kind = "environment variable" if is_env else "variable"
                written = f"$<{name}>" if is_env else f"<{name}>"
                yield Finding(
                    message=f"'{written}' stays as it is: no {kind} has the name '{name}'",
                    origin=origin,
                    hint="A redirection of the shell is written like this.",
                    severity=Severity.NOTE,
                )


def _finding(error: ConfigError, origin: Origin, severity: Severity) -> Finding:
    return Finding(message=error.message, origin=error.origin or origin, hint=error.hint, severity=severity)


def key_names(node: Node) -> Iterator[str]:
    """Every key at any depth."""
    if isinstance(node.value, dict):
        yield from node.value
        for below in node.value.values():
            yield from key_names(below)
    elif isinstance(node.value, list):
        for below in node.value:
            yield from key_names(below)


def find_unused_keys(
    root: Node, schema: JsonSchema, context: LintContext, reported: Collection[tuple[str, ...]]
) -> Iterator[Finding]:
    """Warn of each user-written key, and each section, that no text uses as a variable.

    `reported` are the paths of keys that already have a finding.
    """
    if context.payload_uses is None:
        return
    used_names: set[str] | None = None
    for path, node, known in find_unknown_keys(root, schema, schema):
        # A map or a list may belong to a plug-in. Sites and the like may have plain values of any name.
        is_section = isinstance(node.value, dict | list)
        is_free = len(path) > 1 and path[0] in _FREE_SECTIONS and not (is_section and path[0] == "site")
        if (is_section and context.plugins_read) or is_free:
            continue
        if used_names is None:
            used_names = {*variable_names(root), *context.payload_uses}
        if path[-1] in used_names or path in reported:
            continue
        if not is_section:
            yield Finding(
                message=f"nothing uses '{key_name(path)}'",
                origin=node.origin,
                hint=_site_key_hint(path, schema, context.site)
                or (did_you_mean(path[-1], known) if own_word(path[-1]) in known else "")
                or f"It is not a key of Longshore, and no text uses '{{{path[-1]}}}'.",
                severity=Severity.WARNING,
                path=path,
                at_key=True,
            )
        elif path[0] != "current" and not _is_shared(root, path):
            noun = "key" if isinstance(node.value, dict) else "item"
            yield Finding(
                message=f"no {noun} of '{key_name(path)}' has an effect",
                origin=node.origin,
                hint=(_pipeline_hint(path[0], root) if len(path) == 1 else "")
                or _site_key_hint(path, schema, context.site)
                or did_you_mean(path[-1], known)
                or "It is not a section of Longshore, and no text uses it.",
                severity=Severity.WARNING,
                path=path,
                at_key=True,
            )


def _site_key_hint(path: tuple[str, ...], schema: JsonSchema, site: str) -> str:
    """Return a hint for a key of a site that is at the root or that ``--set`` gives; empty for others."""
    *sections, name = path
    if path[0] == "bps_cmdline" and name in keys_of_schema(schema, schema):
        return f"It is a key of sites: write '--set site.{site or 'NAME'}.{name}=VALUE'."
    if sections or name not in schema["$defs"].get("site", {}).get("properties", {}):
        return ""
    if name == "service":
        return "It is a key of sites. The service of a run is 'wmsServiceClass'."
    return f"It is a key of sites: write it below 'site.{site or 'NAME'}', or in a profile."


def _pipeline_hint(section: str, root: Node) -> str:
    """Return a hint for a section of a pipeline that stands beside it; empty for others."""
    if section not in {"tasks", "datasets", "dimensions", "relations"}:
        return ""
    way = "indent it below that key" if "pipeline" in map_items(root) else f"write 'pipeline: {{{section}: ...}}'"
    return f"'{section}' belongs under 'pipeline': {way}."


def _is_shared(root: Node, path: tuple[str, ...]) -> bool:
    """Whether other sections hold a value that was written in this one, through an anchor of YAML."""
    section = root
    for key in path:
        section = map_items(section)[key]
    own = {node.origin for node in _values(section)}
    return any(node.origin in own for key, part in map_items(root).items() if key != path[0] for node in _values(part))


def _values(node: Node) -> Iterator[Node]:
    """Every value below a node."""
    for below in _below(node):
        yield below
        yield from _values(below)


def _below(node: Node) -> Iterable[Node]:
    if isinstance(node.value, dict):
        return node.value.values()
    return node.value if isinstance(node.value, list) else ()


def with_default_origin(finding: Finding) -> Finding:
    """The finding with the origin ``configuration`` where it has no file."""
    return finding if finding.origin.file else msgspec.structs.replace(finding, origin=Origin("configuration"))
