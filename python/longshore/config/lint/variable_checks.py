"""Checks variables and function calls in a configuration: undefined variables, reference rings, unused keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from longshore.config.lint.schema_check import Finding, Severity, find_unknown_keys, key_name, variable_names
from longshore.config.values.bps_eval import BPS_EVAL, GENERATE_HINT, GENERATE_KEY, impure_calls, parse_call
from longshore.config.values.interpolate import angled_names, wms_placeholder
from longshore.config.values.merge import PACKAGED_LAYERS, Node
from longshore.config.values.search import Config, Interpolator, Scope
from longshore.errors import ConfigError, ReferenceCycleError
from longshore.model.suggestions import did_you_mean
from longshore.model.values import JsonSchema, YamlValue
from longshore.origin import Origin

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


@dataclass(frozen=True, kw_only=True)
class LintContext:
    """What the variables of a configuration may refer to outside it.

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
    """

    env: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    payload_names: frozenset[str] | None = None
    payload_uses: frozenset[str] | None = None
    commands: bool = True


def find_variable_errors(config: Config, around: LintContext) -> Iterator[Finding]:
    """Findings about user-written texts: undefined variables, rings, calls, and words in angle brackets."""
    yield from _VariableChecker(config, around).findings()


class _VariableChecker:
    """Interpolates every text once, with the sections chosen that it is in."""

    def __init__(self, config: Config, around: LintContext) -> None:
        self.config = config
        self.around = around
        self._defined = {*key_names(config.root), *around.known, *(around.payload_names or ()), *LATER_NAMES}
        self._expanders: dict[tuple[str, ...], Interpolator] = {}
        self._undefined: dict[tuple[str, Origin | None], None] = {}
        self._guesses: dict[str, str] = {}

    def findings(self) -> Iterator[Finding]:
        top = self.config.root.value
        for key, node in top.items() if isinstance(top, dict) else ():
            if key not in _UNINTERPOLATED_KEYS:
                yield from self._below(node, (key,))

    def _below(self, node: Node, path: tuple[str, ...]) -> Iterator[Finding]:
        if isinstance(node.value, dict):
            for key, below in node.value.items():
                yield from self._below(below, (*path, key))
        elif isinstance(node.value, list):
            for below in node.value:
                yield from self._below(below, path)
        elif isinstance(node.value, str) and node.origin.layer not in PACKAGED_LAYERS:
            yield from self._text(node.value, node, path)

    def _text(self, text: str, node: Node, path: tuple[str, ...]) -> Iterator[Finding]:
        if "<" in text:
            yield from self._angled(text, node.origin)
        if "{" not in text and "<" not in text and BPS_EVAL not in text and path[-1] != GENERATE_KEY:
            return
        self._undefined.clear()
        expander = self._expander(path)
        try:
            if BPS_EVAL in text:
                yield from _find_calls(text, node.origin)
            hit = self.config.lookup(path[-1], expander.scope)
            own = hit is not None and hit.node is node
            template = expander.template(text, node.origin, name=path[-1] if own else "")
            if path[-1] == GENERATE_KEY and text:
                parse_call(template.render({}), node.origin, hint=GENERATE_HINT)
        except ReferenceCycleError as error:
            yield _finding(error, node.origin, Severity.ERROR)
        except ConfigError as error:
            # The text may be valid with another label's values; a wrong function call never is.
            sure = BPS_EVAL in text or path[-1] == GENERATE_KEY
            yield _finding(error, node.origin, Severity.ERROR if sure else Severity.WARNING)
        if path[-1] not in _LENIENT_TEMPLATES:
            yield from self._missing(path)

    def _expander(self, path: tuple[str, ...]) -> Interpolator:
        part = path[:2] if path[0] in _CHOSEN_SECTIONS and len(path) > 2 else path[:1] if len(path) > 1 else ()
        if part not in self._expanders:
            current: dict[str, YamlValue] = {}
            if len(part) == 2:
                current = {f"curr_{section}": part[1] for section in _CHOSEN_SECTIONS[part[0]]}
            searchobj = self.config.node_at(*part) if len(part) == 1 else None
            scope = Scope(current=current, searchobj=searchobj, env=self.around.env, undefined=self._note)
            self._expanders[part] = Interpolator(self.config, scope)
        return self._expanders[part]

    def _note(self, name: str, origin: Origin | None) -> str:
        self._undefined[name, origin] = None
        return ""

    def _missing(self, path: tuple[str, ...]) -> Iterator[Finding]:
        for name, origin in self._undefined:
            last = name.rpartition(".")[2]
            if last in self._defined or _OPTIONAL_NAME.fullmatch(name) or wms_placeholder(name):
                continue
            guess = self._guess(name)
            if _COMMAND.fullmatch(path[-1]):
                if not self.around.commands:
                    continue
                hint = f"{guess} If no variable is meant, double the braces: '{{{{{name}}}}}'.".strip()
                sure = self.around.payload_names is not None
                severity = Severity.ERROR if sure else Severity.WARNING
                message = f"the command uses '{{{name}}}', which nothing defines"
            else:
                hint = f"{guess} It would be empty.".strip()
                severity = Severity.WARNING
                message = f"nothing defines the variable '{name}'"
            yield Finding(message=message, origin=origin or Origin(""), hint=hint, severity=severity)

    def _guess(self, name: str) -> str:
        """The nearest defined name, searched for the first few only, because each search compares all names."""
        if name not in self._guesses:
            self._guesses[name] = did_you_mean(name, self._defined) if len(self._guesses) < _MAX_SUGGESTIONS else ""
        return self._guesses[name]

    def _angled(self, text: str, origin: Origin) -> Iterator[Finding]:
        for name, of_environment in angled_names(text, self.around.env):
            if of_environment or name not in self._defined:
                kind = "environment variable" if of_environment else "variable"
                written = f"$<{name}>" if of_environment else f"<{name}>"
                yield Finding(
                    message=f"'{written}' stays as it is, for there is no {kind} '{name}'",
                    origin=origin,
                    hint="That is right for a redirection of the shell's.",
                    severity=Severity.NOTE,
                )


def _find_calls(text: str, origin: Origin) -> Iterator[Finding]:
    for name in impure_calls(text):
        yield Finding(
            message=f"'{BPS_EVAL}' calls '{name}' when a run is prepared; its value is not known before",
            origin=origin,
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
    root: Node, schema: JsonSchema, around: LintContext, said: Collection[tuple[str, ...]]
) -> Iterator[Finding]:
    """Warn of each user-written key that no text uses as a variable.

    `said` are the paths of keys that already have a finding.
    """
    if around.payload_uses is None:
        return
    used: set[str] | None = None
    for path, node, _known in find_unknown_keys(root, schema, schema):
        # Services read whole sections of sites, and a map or a list may belong to a plug-in.
        if isinstance(node.value, dict | list) or (len(path) > 1 and path[0] in _FREE_SECTIONS):
            continue
        if used is None:
            used = {*variable_names(root), *around.payload_uses}
        if path[-1] not in used and path not in said:
            yield Finding(
                message=f"nothing uses '{key_name(path)}'",
                origin=node.origin,
                hint=f"It is no key of Longshore's, and no text has '{{{path[-1]}}}' in it.",
                severity=Severity.WARNING,
                path=path,
                at_key=True,
            )


def with_default_origin(finding: Finding) -> Finding:
    """The finding with the origin ``configuration`` where it has no file."""
    return finding if finding.origin.file else msgspec.structs.replace(finding, origin=Origin("configuration"))
