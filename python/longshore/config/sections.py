"""Looks at the sections of a configuration: parts that match nothing, and keys that are hidden, old or out of range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from longshore.config.check import Finding, Severity
from longshore.config.interpolate import shown
from longshore.config.merge import PACKAGED, LayerRank, Node, plain
from longshore.config.search import did_you_mean
from longshore.config.settings import count, exit_codes, memory, walltime
from longshore.errors import ConfigError
from longshore.origin import Origin

INIT: Final = "pipetaskInit"
_LABELLED: Final = ("pipetask", "cluster", "site", "cloud")

_NOT_NAMED: Final = PACKAGED | {LayerRank.SITE.label}

_OLD: Final = {
    "executionButler": "'executionButler' is a relic of BPS; its successor is the section 'finalJob'",
}
_OLD_SERVICE: Final = "lsst.ctrl.bps.wms.htcondor"

_CONDOR: Final = frozenset(
    {"nodeset", "releaseExpr", "executeMachinesPattern", "overwriteJobFiles", "wmsConfig"}
    | {"provisionResources", "provisioning", "condor"}
)
_LSST: Final = frozenset({"butlerConfig", "inCollection", "qgraphFile", "createQuantumGraph", "updateQuantumGraph"})


def unmatched(root: Node, labels: frozenset[str] | None) -> Iterator[Finding]:
    """A warning for each part of a section that no task label, cluster or site chooses."""
    top = _map(root)
    tasks, clusters = _map(top.get("pipetask")), _map(top.get("cluster"))
    if labels is not None:
        for label, node in tasks.items():
            if label not in labels and label != INIT and isinstance(node.value, dict) and _own(node):
                yield _no_match(f"pipetask.{label}", f"no task has the label '{label}'", node, label, labels)
        for label, node in clusters.items():
            if isinstance(node.value, dict) and _own(node):
                yield from _unmatched_cluster(label, node, labels)
    for section, chooser in (("site", "computeSite"), ("cloud", "computeCloud")):
        parts = {name: node for name, node in _map(top.get(section)).items() if isinstance(node.value, dict)}
        chosen = dict(_chosen(root, chooser))
        for name, node in parts.items():
            # A file may well know more sites than it uses; one that is nearly what is chosen is another matter.
            near = did_you_mean(name, [each for each in chosen if each not in parts], likeness=0.75)
            if name not in chosen and near and _own(node):
                yield _warning(f"'{section}.{name}' matches no '{chooser}'", node.origin, near)


def _unmatched_cluster(label: str, node: Node, labels: frozenset[str]) -> Iterator[Finding]:
    tasks = _map(node).get("pipetasks")
    if tasks is None:
        if label not in labels:
            why = f"it has no 'pipetasks', and no task has the label '{label}'"
            yield _no_match(f"cluster.{label}", why, node, label, labels)
    elif isinstance(tasks.value, str) and "{" not in tasks.value and _own(tasks):
        for name in filter(None, (part.strip() for part in tasks.value.split(","))):
            if name not in labels:
                yield _no_match(f"cluster.{label}.pipetasks", f"no task has the label '{name}'", tasks, name, labels)


def _no_match(place: str, why: str, node: Node, name: str, labels: frozenset[str]) -> Finding:
    return _warning(f"'{place}' matches nothing: {why}", node.origin, did_you_mean(name, labels))


def _chosen(node: Node, chooser: str) -> Iterator[tuple[str, Origin]]:
    for key, below in _map(node).items():
        if key == chooser and isinstance(below.value, str):
            yield below.value, below.origin
        else:
            yield from _chosen(below, chooser)


def hidden(root: Node) -> Iterator[Finding]:
    """A warning for each key at the root that a default in ``payload`` wins over."""
    top = _map(root)
    for key, node in _map(top.get("payload")).items():
        above = top.get(key)
        if above is not None and node.origin.layer in PACKAGED and above.origin.layer not in PACKAGED:
            yield _warning(
                f"'{key}' at the root has no effect: the default 'payload.{key}' wins over it",
                above.origin,
                f"Write it under 'payload'; the default is {shown(plain(node))}.",
            )


def old(root: Node) -> Iterator[Finding]:
    """A warning for each key and name that has a successor; ``outCollection`` is an error, see `check`."""
    top = _map(root)
    for key, message in _OLD.items():
        node = top.get(key)
        if node is not None and _own(node):
            yield _warning(message, node.origin, "Leave it out.")
    for name, origin in _chosen(root, "wmsServiceClass"):
        if name == _OLD_SERVICE or name.startswith(f"{_OLD_SERVICE}."):
            yield _warning(
                f"{shown(name)} is an old name",
                origin,
                "Write 'lsst.ctrl.bps.htcondor.HTCondorService', or 'htcondor'.",
            )


def without_service(root: Node) -> Iterator[Finding]:
    """One warning where BPS would hand the jobs to HTCondor, and Longshore keeps them on this machine."""
    service = _map(root).get("wmsServiceClass")
    # This machine is a site whose profile names the service that is the default anyway.
    by_default = PACKAGED if service is None or service.value != "local" else _NOT_NAMED
    if service is not None and service.origin.layer not in by_default:
        return
    for key, node in _own_keys(root):
        if key in _CONDOR or key in _LSST:
            whose = "HTCondor's" if key in _CONDOR else "LSST's"
            yield _warning(
                f"no 'wmsServiceClass' is named: BPS would use HTCondor here (there is {whose} key '{key}'), Longshore "
                "runs jobs on this machine",
                node.origin,
                "Say 'wmsServiceClass: htcondor', or 'wmsServiceClass: local' if this machine is meant.",
            )
            return


def _own_keys(node: Node) -> Iterator[tuple[str, Node]]:
    for key, below in _map(node).items():
        if isinstance(below.value, dict) and key not in _CONDOR:
            yield from _own_keys(below)
        elif _own(below):
            yield key, below


_RANGES: Final[Mapping[str, Callable[[Any, str, Origin | None], Any]]] = {
    "requestCpus": lambda value, key, origin: count(value, key, origin, least=1),
    "requestMemory": memory,
    "requestMemoryMax": memory,
    "memoryLimit": memory,
    "requestDisk": memory,
    "requestWalltime": walltime,
    "killGrace": walltime,
    "numberOfRetries": count,
    "retryOnLost": count,
    "retryUnlessExit": exit_codes,
}


def out_of_range(root: Node, said: set[Origin]) -> Iterator[Finding]:
    """An error for each amount that no job could have, and a warning for a cap below what it caps.

    Parameters
    ----------
    said
        Places of which something was said already.
    """
    for part, place in _parts(root):
        values: dict[str, Any] = {}
        for key, node in part.items():
            read = _RANGES.get(key)
            if read is None or node.value is None or _known(node, said) or _waits(node) or not _own(node):
                continue
            try:
                values[key] = read(plain(node), f"{place}{key}", node.origin)
            except ConfigError as error:
                yield Finding(message=error.message, origin=error.origin or node.origin, hint=error.hint)
        most, least = values.get("requestMemoryMax"), values.get("requestMemory")
        if most and least and most < least:
            yield _warning(
                f"'{place}requestMemoryMax' is less than 'requestMemory'",
                part["requestMemoryMax"].origin,
                "It is what a job may have at most when it is tried again with more.",
            )


def _parts(root: Node) -> Iterator[tuple[Mapping[str, Node], str]]:
    """Every map that values of jobs are looked up in, with the name of its place."""
    top = _map(root)
    yield top, ""
    for name in ("payload", "finalJob", "customJob"):
        yield _map(top.get(name)), f"{name}."
    for name in _LABELLED:
        for label, node in _map(top.get(name)).items():
            yield _map(node), f"{name}.{label}."


def _known(node: Node, said: set[Origin]) -> bool:
    items = node.value if isinstance(node.value, list) else ()
    return node.origin in said or any(item.origin in said for item in items)


def _waits(node: Node) -> bool:
    """Whether the value is known only when variables are filled in."""
    return isinstance(node.value, str) and any(mark in node.value for mark in ("{", "$", "<", "bpsEval"))


def _own(node: Node) -> bool:
    return node.origin.layer not in PACKAGED


def _map(node: Node | None) -> Mapping[str, Node]:
    return node.value if node is not None and isinstance(node.value, dict) else {}


def _warning(message: str, origin: Origin, hint: str) -> Finding:
    return Finding(message=message, origin=origin, hint=hint, severity=Severity.WARNING)
