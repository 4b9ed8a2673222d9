"""Finds unset environment variables that texts need when a run is submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from longshore.config.lint.schema_check import Finding, Severity, variable_names
from longshore.config.lint.section_checks import CHOICE_KEYS, find_choices
from longshore.config.values.merge import PACKAGED_LAYERS, Node
from longshore.config.values.scope import Scope
from longshore.config.values.search import LABEL_SECTIONS, Config
from longshore.config.values.templates import rewrite_angled_env, unset_env_names

_PAYLOADS: Final = ("wfformat", "pipelineYaml", "qgraphFile", "graphFile")
_PATHS: Final = ("workingDirectory", "submitPath", "idLinkPath", "sitePath", *_PAYLOADS)
_NAMES: Final = ("butlerConfig", "output", "outputRun", "inCollection", "payloadName", "uniqProcName", "dataQuery")
_RUN: Final = ("operator", "project", "campaign", "wmsServiceClass", "computeSite", "computeCloud")
_REQUEST: Final = ("requestCpus", "requestMemory", "requestMemoryMax", "requestDisk", "requestWalltime")
_JOB: Final = ("queue", "priority", "category", "accountingGroup", "accountingUser", "mailTo", "concurrencyLimit")
_PREPARED: Final = (
    "createQuantumGraph",
    "updateQuantumGraph",
    "qgraphFileTemplate",
    "subDirTemplate",
    "templateDataId",
)
_SUBMISSION_KEYS: Final = frozenset((*_PATHS, *_NAMES, *_RUN, *_REQUEST, *_JOB, *_PREPARED))
"""Keys whose texts are interpolated at submission and never reach a shell. Commands and values of ``environment`` wait
for the environment of the job, which is not known yet; variables that only they use wait with them.
"""
_CUSTOM_JOB_KEYS: Final = frozenset({"executable", "arguments", "inputs", "outputs"})
"""Keys of ``customJob`` that are interpolated at submission likewise."""
_SECTIONS: Final = frozenset({"payload", "bps_cmdline", "finalJob", "customJob"})


def find_unset_env(config: Config, env: Mapping[str, str]) -> Iterator[Finding]:
    """Warn of each environment variable that a user-written text needs at submission and `env` lacks."""
    suspects = {id(node) for _, node in _texts(config.root, ()) if _unset_names(node, env)}
    if not suspects:
        return
    seen: set[int] = set()
    # A file may define many sites; the variables of each are set where that site is used.
    used_names = {
        section: {name for name, _ in find_choices(config.root, chooser)} for section, chooser in CHOICE_KEYS.items()
    }
    for path, node in _texts(config.root, ()):
        if _is_used_at_submission(path) and (path[0] not in used_names or path[1] in used_names[path[0]]):
            yield from _UnsetEnvFinder(config, env, suspects, seen).findings(node, path, 0)


class _UnsetEnvFinder:
    """Finds unset variables in a text and in the values of its variables."""

    def __init__(self, config: Config, env: Mapping[str, str], suspects: set[int], seen: set[int]) -> None:
        self.config = config
        self.env = env
        self.suspects = suspects
        self.seen = seen
        self.scope = Scope()

    def findings(self, node: Node, path: tuple[str, ...], depth: int) -> Iterator[Finding]:
        """Findings about a text and the texts substituted in it."""
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        if depth == 0:
            self.scope = _scope(self.config, path)
        if id(node) in self.suspects:
            for name in _unset_names(node, self.env):
                yield Finding(
                    message=f"the environment has no variable '{name}', which is needed when the run is submitted",
                    origin=node.origin,
                    hint=f"Set '{name}'; without it the text stays as it is.",
                    severity=Severity.WARNING,
                    path=path,
                )
        for variable in variable_names(node):
            hit = self.config.lookup(variable, self.scope)
            if hit is not None and hit.node is not None and isinstance(hit.node.value, str):
                yield from self.findings(hit.node, (variable,), depth + 1)


def _scope(config: Config, path: tuple[str, ...]) -> Scope:
    """Search parameters of a text, by its section."""
    if path[0] not in LABEL_SECTIONS:
        return Scope(searchobj=config.node_at(path[0]) if len(path) > 1 else None)
    labels = ("cluster", "pipetask") if path[0] == "pipetask" else (path[0],)
    return Scope(current={f"curr_{section}": path[1] for section in labels})


def _is_used_at_submission(path: tuple[str, ...]) -> bool:
    within = 1 if path[0] in _SECTIONS and len(path) > 1 else 2 if path[0] in LABEL_SECTIONS and len(path) > 2 else 0
    key, below = path[within], path[within + 1 :]
    if path[0] == "customJob" and key in _CUSTOM_JOB_KEYS:
        return True
    return key in _SUBMISSION_KEYS and not below


def _texts(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every text that is the value of a key, or an item of a list of such."""
    if isinstance(node.value, dict):
        for key, below in node.value.items():
            yield from _texts(below, (*path, key))
    elif isinstance(node.value, list):
        for below in node.value:
            yield from _texts(below, path)
    elif isinstance(node.value, str) and ("$" in node.value or "{" in node.value or "<" in node.value):
        yield path, node


def _unset_names(node: Node, env: Mapping[str, str]) -> list[str]:
    """Names of variables in a user-written text that the environment lacks."""
    if not isinstance(node.value, str) or node.origin.layer in PACKAGED_LAYERS:
        return []
    return unset_env_names(rewrite_angled_env(node.value, env), env)
