"""Checks sections of a configuration: parts that match nothing, and hidden, deprecated or out-of-range keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec

from longshore.config.lint.schema_check import Finding, Severity, key_name
from longshore.config.profile.profile import REQUEST_KEYS
from longshore.config.profile.retry_rules import MAP_READERS, VALUE_READERS
from longshore.config.values.arithmetic import evaluate_amount
from longshore.config.values.merge import PACKAGED_LAYERS, RUN_LAYERS, LayerRank, Node, map_items, plain_value
from longshore.config.values.quantities import parse_count, parse_exit_codes, parse_memory, parse_walltime
from longshore.config.values.search import INIT_LABEL, LABEL_SECTIONS
from longshore.errors import ConfigError
from longshore.model.suggestions import did_you_mean
from longshore.model.values import YamlValue
from longshore.model.wording import count_noun, quote_value
from longshore.model.workflow.request import MIB
from longshore.origin import Origin

CHOICE_KEYS: Final = {"site": "computeSite", "cloud": "computeCloud"}
"""Key that chooses a part, per section."""

_UNNAMED_LAYERS: Final = PACKAGED_LAYERS | {LayerRank.SITE.label}

_DEPRECATED: Final = {
    "executionButler": "'executionButler' is a relic of BPS; its successor is the section 'finalJob'",
}
_SECTIONLESS_ALGORITHM: Final = re.compile(r"(lsst\.ctrl\.bps\.(\w+\.)*)?single_quantum_clustering|chain|runtime")
"""Clustering algorithms that ignore the sections of ``cluster``; any other is assumed to use them."""
_SECTION_ALGORITHM: Final = "dimension_clustering"
_MAX_HINT_LABELS: Final = 5
"""Maximum number of labels in a hint."""
_BPS_PACKAGE: Final = "lsst.ctrl.bps."
_OLD_BPS_PACKAGE: Final = f"{_BPS_PACKAGE}wms."

_LSST_KEYS: Final = frozenset(
    {"butlerConfig", "inCollection", "qgraphFile", "createQuantumGraph", "updateQuantumGraph"}
)


_PAYLOAD_KEYS: Final = frozenset({"pipelineYaml", "graphFile", "qgraphFile", "createQuantumGraph"})
"""Keys by which a file has a payload of LSST's."""


class BpsDefaultService(msgspec.Struct, frozen=True):
    """The service that BPS uses where none is named.

    Attributes
    ----------
    service
        Short name of the service.
    title
        Name of its workload manager.
    keys
        Keys that it adds to a configuration.
    """

    service: str
    title: str
    keys: frozenset[str]


def find_unmatched_sections(root: Node, labels: frozenset[str] | None) -> Iterator[Finding]:
    """Warn of each part of a section that no task label, cluster or site chooses."""
    top = map_items(root)
    tasks, clusters = map_items(top.get("pipetask")), map_items(top.get("cluster"))
    if labels is not None:
        for label, node in tasks.items():
            if label not in labels and label != INIT_LABEL and isinstance(node.value, dict) and _is_user_written(node):
                yield _unmatched_finding(("pipetask", label), f"no task has the label '{label}'", node, labels)
    packs = clusters_by_section(top)
    for label, node in clusters.items():
        if isinstance(node.value, dict) and _is_user_written(node):
            yield from _find_unmatched_cluster(label, node, labels, packs=packs)
    for section, chooser in CHOICE_KEYS.items():
        parts = {name: node for name, node in map_items(top.get(section)).items() if isinstance(node.value, dict)}
        named = dict(find_choices(root, chooser))
        for name, node in parts.items():
            # A file may define unused sites; warn only of a name that resembles the chosen one.
            hint = did_you_mean(name, [each for each in named if each not in parts], likeness=0.75)
            if name not in named and hint and _is_user_written(node):
                message = f"'{section}.{name}' matches no '{chooser}'"
                yield _warning(message, node.origin, hint, path=(section, name), at_key=True)


def clusters_by_section(top: Mapping[str, Node]) -> bool:
    """Whether tasks are clustered by sections, so that cluster labels can differ from task labels."""
    # Search order for a value of the run: the command line, the payload, the root.
    for section in (map_items(top.get("bps_cmdline")), map_items(top.get("payload")), top):
        if (node := section.get("clusterAlgorithm")) is not None and node.value:
            return not (isinstance(node.value, str) and _SECTIONLESS_ALGORITHM.fullmatch(node.value.strip()))
    return False


def _find_unmatched_cluster(label: str, node: Node, labels: frozenset[str] | None, *, packs: bool) -> Iterator[Finding]:
    tasks = map_items(node).get("pipetasks")
    none_here = f"no task has the label '{label}'"
    if tasks is None:
        if labels is not None and label not in labels:
            yield _unmatched_finding(("cluster", label), f"it has no 'pipetasks', and {none_here}", node, labels)
        return
    if not isinstance(tasks.value, str) or not _is_user_written(tasks):
        return
    names = [name for part in tasks.value.split(",") if (name := part.strip())]
    if not packs:
        if names != [label]:
            yield _warning(
                f"'cluster.{label}.pipetasks' has no effect: 'clusterAlgorithm' does not go by it",
                tasks.origin,
                f"Say 'clusterAlgorithm: {_SECTION_ALGORITHM}' to have such tasks in one job.",
                path=("cluster", label, "pipetasks"),
                at_key=True,
            )
        return
    for name in names:
        if labels is not None and name not in labels and "{" not in tasks.value:
            reason = f"no task has the label '{name}'"
            message = f"'cluster.{label}.pipetasks' matches nothing: {reason}"
            yield _warning(message, tasks.origin, label_hint(name, labels), path=("cluster", label, "pipetasks"))


def _unmatched_finding(path: tuple[str, ...], reason: str, node: Node, labels: frozenset[str]) -> Finding:
    message = f"'{key_name(path)}' matches nothing: {reason}"
    return _warning(message, node.origin, label_hint(path[-1], labels), path=path, at_key=True)


def label_hint(label: str, labels: frozenset[str]) -> str:
    """Hint: the label that may have been meant."""
    label_list = ", ".join(f"'{each}'" for each in sorted(labels)[:_MAX_HINT_LABELS])
    ending = ", and more" if len(labels) > _MAX_HINT_LABELS else ""
    return did_you_mean(label, labels) or (
        f"Labels are {label_list}{ending}." if labels else "There are no tasks at all."
    )


def find_choices(node: Node, chooser: str) -> Iterator[tuple[str, Origin]]:
    """Each text under a key, at any depth, and where it was written."""
    for key, below in map_items(node).items():
        if key == chooser and isinstance(below.value, str):
            yield below.value, below.origin
        elif key == chooser and isinstance(below.value, list):
            yield from ((each.value, each.origin) for each in below.value if isinstance(each.value, str))
        else:
            yield from find_choices(below, chooser)


def find_hidden_keys(root: Node) -> Iterator[Finding]:
    """Warn of each key at the root that a default in ``payload`` overrides."""
    top = map_items(root)
    for key, node in map_items(top.get("payload")).items():
        upper = top.get(key)
        if upper is not None and node.origin.layer in PACKAGED_LAYERS and upper.origin.layer not in PACKAGED_LAYERS:
            yield _warning(
                f"'{key}' at the root has no effect: the default 'payload.{key}' wins over it",
                upper.origin,
                f"Write it under 'payload'; the default is {quote_value(plain_value(node))}.",
                path=(key,),
                at_key=True,
            )


def find_keys_of_other_services(root: Node, site: str, keys: Mapping[str, str], service: str) -> Iterator[Finding]:
    """Report each key that another service alone reads; `keys` has the name of that service per key.

    Only the sections of the chosen `site` and those of jobs count: other sites may have other services.
    """
    for part, place in _job_value_maps(root):
        if place[:1] == ("site",) and place[1] != site:
            continue
        for key in part.keys() & keys.keys():
            if plain_value(part[key]) is not None:
                yield Finding(
                    message=f"'{key_name((*place, key))}' is for the service '{keys[key]}', and this run's is "
                    f"'{service}'",
                    origin=part[key].origin,
                    hint=f"Write it in the section of a site of '{keys[key]}', or leave it out.",
                    path=(*place, key),
                    at_key=True,
                )


def find_sections_of_other_services(
    root: Node, site: str, sections: Mapping[str, str], service: str
) -> Iterator[Finding]:
    """Report sections that another service alone reads; `sections` has the name of that service per key.

    A file with sections for several services is meant for several sites: there, each is a note, else a warning.
    """
    found = [
        ((*place, key), part[key], sections[key])
        for part, place in _job_value_maps(root)
        if place[:1] != ("site",) or place[1] == site
        for key in part.keys() & sections.keys()
        if part[key].origin.layer in RUN_LAYERS and plain_value(part[key])
    ]
    is_portable = len({owner for _, _, owner in found}) > 1
    for path, node, owner in found:
        if owner != service:
            yield Finding(
                message=f"'{key_name(path)}' has no effect: it is for the service '{owner}', and this run's is "
                f"'{service}'",
                origin=node.origin,
                hint=f"Choose a site of '{owner}' with 'computeSite', or leave it out.",
                severity=Severity.NOTE if is_portable else Severity.WARNING,
                path=path,
                at_key=True,
            )


def find_deprecated_names(root: Node) -> Iterator[Finding]:
    """Warn of each deprecated key and name; ``outCollection`` is an error, see `check`."""
    top = map_items(root)
    # BPS writes all its defaults to the merged configuration of a run.
    is_merged_by_bps = "submitPath" in map_items(top.get("bps_defined"))
    for key, message in _DEPRECATED.items():
        node = top.get(key)
        if node is not None and _is_user_written(node) and not is_merged_by_bps:
            yield _warning(message, node.origin, "Leave it out.", path=(key,), at_key=True)
    for name, origin in find_choices(root, "wmsServiceClass"):
        if name.startswith(_OLD_BPS_PACKAGE):
            hint = f"Write '{_BPS_PACKAGE}{name.removeprefix(_OLD_BPS_PACKAGE)}', or the short name of the service."
            yield _warning(f"{quote_value(name)} is an old name", origin, hint)


def find_missing_service(root: Node, bps: BpsDefaultService | None) -> Iterator[Finding]:
    """Tell once where BPS would use its default service: it is used, or Longshore's own is, which is a warning."""
    if bps is None:
        return
    top = map_items(root)
    service = top.get("wmsServiceClass")
    if any("wmsServiceClass" in map_items(top.get(section)) for section in ("bps_cmdline", "payload")):
        return
    default = service
    while default is not None and default.replaced_node is not None:
        if default.value == bps.service and default.origin.layer in PACKAGED_LAYERS:
            # The payload brings it: any other was chosen, by a site at least.
            if default is service:
                yield _service_of_bps(root, bps, default.replaced_node)
            return
        default = default.replaced_node
    # The site's profile may name the default service anyway.
    by_default = _UNNAMED_LAYERS if service and default and service.value == default.value else PACKAGED_LAYERS
    if service is not None and service.origin.layer not in by_default:
        return
    service_text = f"the service '{default.value}'" if default else "its own default"
    for path, node in _user_keys(root, bps.keys):
        key = path[-1]
        if key in bps.keys or key in _LSST_KEYS:
            whose = bps.title if key in bps.keys else "LSST"
            yield _warning(
                f"no 'wmsServiceClass' is named: BPS would use {bps.title} here (there is {whose}'s key '{key}'), "
                f"Longshore uses {service_text}",
                node.origin,
                f"Say 'wmsServiceClass: {bps.service}', or name the service that is meant.",
                path=path,
                at_key=True,
            )
            return


def _service_of_bps(root: Node, bps: BpsDefaultService, ours: Node) -> Finding:
    """Note that a run belongs to the service that BPS uses by default."""
    path, node = next(
        ((path, node) for path, node in _user_keys(root, frozenset()) if path[-1] in _PAYLOAD_KEYS), ((), root)
    )
    return Finding(
        message=f"no 'wmsServiceClass' is named: the run belongs to {bps.title}, as with BPS",
        origin=node.origin,
        hint=f"Name the service that is meant: 'wmsServiceClass: {bps.service}', or '{ours.value}' for this machine.",
        severity=Severity.NOTE,
        path=path,
        at_key=bool(path),
    )


def _user_keys(node: Node, whole: frozenset[str], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Path and value of each user-written key; maps named in `whole` are not entered."""
    for key, below in map_items(node).items():
        if isinstance(below.value, dict) and key not in whole:
            yield from _user_keys(below, whole, (*path, key))
        elif _is_user_written(below):
            yield (*path, key), below


_VALUE_READERS: Final[Mapping[str, Callable[[YamlValue, str, Origin | None], object]]] = {
    "requestCpus": lambda value, key, origin: parse_count(value, key, origin, least=1),
    "requestMemory": parse_memory,
    "requestMemoryMax": parse_memory,
    "memoryLimit": parse_memory,
    "requestDisk": parse_memory,
    "requestWalltime": parse_walltime,
    "killGrace": parse_walltime,
    "numberOfRetries": parse_count,
    "retryOnLost": parse_count,
    "retryUnlessExit": parse_exit_codes,
    **VALUE_READERS,
}


_AMOUNT_KEYS: Final = frozenset(key for key, reader in _VALUE_READERS.items() if reader is parse_memory)


def find_values_out_of_range(root: Node, reported: Collection[tuple[str, ...]]) -> Iterator[Finding]:
    """Report amounts that no job could have as errors, and tiny ones, and caps below what they cap, as warnings.

    `reported` are the paths of values that already have a finding.
    """
    for part, place in _job_value_maps(root):
        amounts: dict[str, float] = {}
        for key, node in part.items():
            if key not in _VALUE_READERS and key not in MAP_READERS:
                continue
            path = (*place, key)
            if node.value is None or path in reported or _has_variables(node) or not _is_user_written(node):
                continue
            try:
                if key in MAP_READERS:
                    MAP_READERS[key](node, key_name(path))
                else:
                    value = _VALUE_READERS[key](_calculated(key, node), key_name(path), node.origin)
                    if isinstance(value, int | float):
                        amounts[key] = value
            except ConfigError as error:
                yield Finding(message=error.message, origin=error.origin or node.origin, hint=error.hint, path=path)
        yield from _tiny_amounts(amounts, part, place)
        for most, least in (("requestMemoryMax", "requestMemory"), ("requestWalltimeMax", "requestWalltime")):
            if 0 < amounts.get(most, 0) < amounts.get(least, 0):
                yield _warning(
                    f"'{key_name((*place, most))}' is less than '{least}'",
                    part[most].origin,
                    "It is the maximum of a retry with a larger request.",
                    path=(*place, most),
                )


def _tiny_amounts(amounts: Mapping[str, float], part: Mapping[str, Node], place: tuple[str, ...]) -> Iterator[Finding]:
    for key, value in amounts.items():
        if key in _AMOUNT_KEYS and 0 < value < MIB:
            yield _warning(
                f"'{key_name((*place, key))}' is {count_noun(int(value), 'byte')}, less than 1 MB",
                part[key].origin,
                "Write a number of MB, or a unit such as 'M' or 'G' behind it; 'B' alone is bytes.",
                path=(*place, key),
            )


def _calculated(key: str, node: Node) -> YamlValue:
    """The value of a key; the result where it is the arithmetic of a request."""
    value = plain_value(node)
    return evaluate_amount(value, node.origin) if key in REQUEST_KEYS and isinstance(value, str) else value


def _job_value_maps(root: Node) -> Iterator[tuple[Mapping[str, Node], tuple[str, ...]]]:
    """Every map in which values of jobs are looked up, with the keys that lead to it."""
    top = map_items(root)
    yield top, ()
    for name in ("bps_cmdline", "payload", "finalJob", "customJob"):
        yield map_items(top.get(name)), (name,)
    for name in LABEL_SECTIONS:
        for label, node in map_items(top.get(name)).items():
            yield map_items(node), (name, label)


def _has_variables(node: Node) -> bool:
    """Whether the value is known only after interpolation."""
    return isinstance(node.value, str) and any(mark in node.value for mark in ("{", "$", "<", "bpsEval"))


def _is_user_written(node: Node) -> bool:
    return node.origin.layer not in PACKAGED_LAYERS


def _warning(message: str, origin: Origin, hint: str, *, path: tuple[str, ...] = (), at_key: bool = False) -> Finding:
    return Finding(message=message, origin=origin, hint=hint, severity=Severity.WARNING, path=path, at_key=at_key)
