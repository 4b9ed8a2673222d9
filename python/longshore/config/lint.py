"""Checks a merged configuration before it is used; findings come in file order."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from longshore.config.final_job import NUMBERED_COMMAND
from longshore.config.interpolate import Scope, evaluate_amount
from longshore.config.lint_variables import LintContext, find_unused_keys, find_variable_errors, with_default_origin
from longshore.config.merge import (
    DEFAULT_LAYERS,
    PACKAGED_LAYERS,
    RUN_LAYERS,
    Node,
    map_items,
    overlay,
    plain_value,
)
from longshore.config.profile import REQUEST_KEYS
from longshore.config.quantities import parse_count, parse_exit_codes, parse_memory, parse_walltime
from longshore.config.retries import MAP_READERS, VALUE_READERS
from longshore.config.schema import (
    RENAMED_KEYS,
    Finding,
    Severity,
    check_schema,
    find_keys_of_users,
    find_unknown_keys,
    key_name,
    variable_names,
)
from longshore.config.search import INIT_LABEL, LABEL_SECTIONS, Config
from longshore.config.secrets import find_secrets
from longshore.config.templates import rewrite_angled_env, unset_env_names
from longshore.errors import ConfigError, Origin
from longshore.model.values import JsonSchema, YamlValue
from longshore.model.wording import count_noun, did_you_mean, list_words, quote_value
from longshore.model.workflow import MIB

# Reads keys that BPS's own guide misspells as the intended keys, and warns of them; accepts other spellings.


_JOB_ALIASES: Final = {"concurrency_limit": "concurrencyLimit"}
_RUN_ALIASES: Final = {"subdirTemplate": "subDirTemplate", "gqraphFile": "qgraphFile"} | _JOB_ALIASES
_ROOT_ALIASES: Final = {"pipetasks": "pipetask"} | _RUN_ALIASES
"""The intended key per misspelling: of jobs, of a run, at the root."""

_SECTION_ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "payload": _RUN_ALIASES,
    "bps_cmdline": _RUN_ALIASES,
    "finalJob": _JOB_ALIASES,
    "customJob": _JOB_ALIASES,
}


_SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {"finalJob": {"command": "command1"}}
"""Further spellings of keys, per section: as right as the intended key, so nothing warns of them."""


def add_intended_keys(root: Node) -> Node:
    """One layer with the value of each misspelled key under the intended key too, unless that is set already.

    Other accepted spellings are treated alike. The key as written stays, because it may be a variable as well.
    """
    if not isinstance(root.value, dict):
        return root
    values = dict(map_items(_add_keys(root, _ROOT_ALIASES)))
    for aliases_by_section in (_SECTION_ALIASES, _SPELLINGS):
        for name, aliases in aliases_by_section.items():
            if name in values:
                values[name] = _add_keys(values[name], aliases)
    for name in LABEL_SECTIONS:
        parts = map_items(values.get(name))
        corrected = {label: _add_keys(part, _JOB_ALIASES) for label, part in parts.items()}
        if any(corrected[label] is not part for label, part in parts.items()):
            values[name] = Node(corrected, values[name].origin, values[name].replaced_node)
    return Node(values, root.origin, root.replaced_node)


def _add_keys(node: Node, aliases: Mapping[str, str]) -> Node:
    found = list(_misspelled(node, aliases))
    if not found:
        return node
    values = dict(map_items(node))
    for _, intended, written in found:
        values[intended] = overlay(written, values[intended]) if intended in values else written
    return Node(values, node.origin, node.replaced_node)


def _misspelled(node: Node, aliases: Mapping[str, str]) -> Iterator[tuple[str, str, Node]]:
    """Each misspelled key of a map, the intended key, and the value."""
    items = map_items(node)
    for key, intended in aliases.items():
        # `pipetasks` of a cluster is valid text; at the root only a map makes sense.
        if (written := items.get(key)) is not None and (key != "pipetasks" or isinstance(written.value, dict)):
            yield key, intended, written


def find_misspelled_keys(root: Node) -> Iterator[Finding]:
    """Warn of each key that is read as another."""
    top = map_items(root)
    maps: list[tuple[tuple[str, ...], Node, Mapping[str, str]]] = [((), root, _ROOT_ALIASES)]
    maps += [((name,), top[name], aliases) for name, aliases in _SECTION_ALIASES.items() if name in top]
    for name in LABEL_SECTIONS:
        maps += [((name, label), part, _JOB_ALIASES) for label, part in map_items(top.get(name)).items()]
    for path, node, aliases in maps:
        for key, intended, written in _misspelled(node, aliases):
            if written.origin.layer not in PACKAGED_LAYERS:
                yield Finding(
                    message=f"'{key_name((*path, key))}' is read as '{key_name((*path, intended))}'",
                    origin=written.origin,
                    hint=f"Write '{intended}': BPS itself does not know '{key}', though its guide has it.",
                    severity=Severity.WARNING,
                    path=(*path, key),
                    at_key=True,
                )


# Checks sections of a configuration: parts that match nothing, and hidden, deprecated or out-of-range keys.


CHOICE_KEYS: Final = {"site": "computeSite", "cloud": "computeCloud"}
"""Key that chooses a part, per section."""

_DEPRECATED: Final = {
    "executionButler": "'executionButler' is a relic of BPS; its successor is the section 'finalJob'",
}
_SECTIONLESS_ALGORITHM: Final = re.compile(r"(lsst\.ctrl\.bps\.(\w+\.)*)?single_quantum_clustering|chain|runtime")
"""Clustering algorithms that ignore the sections of ``cluster``; any other is assumed to use them."""
_SECTION_ALGORITHM: Final = "dimension_clustering"
BPS: Final = "bps"
PILOTS: Final = "pilots"
_USER_WORDS: Final = {BPS: "plug-ins of BPS", PILOTS: "jobs in pilots"}
"""Words for the users of keys that are no services."""
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
        if key == chooser and below.has_text:
            yield below.text, below.origin
        elif key == chooser and isinstance(below.value, list):
            yield from ((each.text, each.origin) for each in below.value if each.has_text)
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


class RunService(msgspec.Struct, frozen=True, kw_only=True):
    """The service of a run, as a user of keys.

    Attributes
    ----------
    name
        Its name in messages.
    users
        What it is among the users of a key: its own name, and further ones that stand for it.
    has_pilots
        Whether it has pilots; keys for these have an effect where jobs may run in some.
    reasons
        Why it does not use a key, by the key.
    others
        The service by each key that another service added, and this one does not have.
    is_known
        Whether the annotations of keys speak of it; of another one, only `others` are judged.
    whose
        What it is the service of, in messages.
    """

    name: str
    users: frozenset[str] = frozenset()
    has_pilots: bool = False
    reasons: Mapping[str, str] = msgspec.field(default_factory=dict)
    others: Mapping[str, str] = msgspec.field(default_factory=dict)
    is_known: bool = True
    whose: str = "run"


def find_keys_without_effect(
    root: Node, schema: JsonSchema, service: RunService, *, layers: Collection[str] = RUN_LAYERS, site: str = ""
) -> list[Finding]:
    """Return a note for each key that was written in some layers, and that the service of the run does not use.

    Only the section of the chosen `site` counts: other sites may have other services. A default that is written out
    changes nothing on any service, and a variable has an effect where it is used.
    """
    used = service.users | ({PILOTS} if service.has_pilots and may_run_in_pilots(root) else frozenset())
    top, variables = map_items(root), set(variable_names(root))
    found: dict[tuple[str, ...], Finding] = {}
    for path, node, users in find_keys_of_users(root, schema, schema):
        is_used = path[-1] not in service.others and (not service.is_known or not used.isdisjoint(users))
        if is_used or path[-1] in variables or (path[0] == "site" and path[1] != site):
            continue
        if any(path[:depth] in found for depth in range(1, len(path))):
            continue
        written, value = _first_written(node, layers), plain_value(node)
        # Null, empty text and empty maps say nothing.
        if written is not None and value not in (None, "", {}, []) and value != _packaged_value(top.get(path[-1])):
            found[path] = _without_effect(path, written, users, service)
    # A key of a site with another name in BPS is there under both.
    renamed = {(*path[:-1], RENAMED_KEYS[path[-1]]): each for path, each in found.items() if path[-1] in RENAMED_KEYS}
    return [each for path, each in found.items() if path not in renamed or each.origin != renamed[path].origin]


def may_run_in_pilots(root: Node) -> bool:
    """Whether any part of a configuration wants jobs in pilots."""
    return bool({name for name, _ in find_choices(root, "packing")} - {"job"})


def _without_effect(path: tuple[str, ...], node: Node, users: Sequence[str], service: RunService) -> Finding:
    key, names = key_name(path), [f"'{user}'" for user in users if user not in _USER_WORDS]
    words = [f"the service{'s' if names[1:] else ''} {list_words(names)}"] if names else []
    words += [_USER_WORDS[user] for user in users if user == PILOTS or (user == BPS and not names)]
    hint = "Leave it out."
    if names and service.whose == "run":
        hint = f"Choose a site of {list_words(names, 'or')} with 'computeSite', or leave it out."
    reason = f": it is for {list_words(words)}, and this {service.whose}'s is '{service.name}'"
    if PILOTS in users and service.has_pilots:
        reason = f": on '{service.name}', it is for jobs in pilots alone"
        hint = "Let jobs run in pilots with 'packing: pilot', or leave it out."
    elif why := service.reasons.get(".".join(path[-2:]), service.reasons.get(path[-1], "")):
        reason = f" on the service '{service.name}': {why}"
    return Finding(
        message=f"'{key}' has no effect{reason}",
        origin=node.origin,
        hint=hint,
        severity=Severity.NOTE,
        path=path,
        at_key=True,
        told=True,
    )


def _first_written(node: Node, layers: Collection[str]) -> Node | None:
    """Return the node if it, or else the first value below it that, was written in one of some layers."""
    if node.origin.layer in layers:
        return node
    below = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    return next((found for each in below if (found := _first_written(each, layers)) is not None), None)


def _packaged_value(node: Node | None) -> YamlValue:
    """Return the shipped default that a value at the root replaced, or is."""
    while node is not None and node.origin.layer not in PACKAGED_LAYERS:
        node = node.replaced_node
    return None if node is None else plain_value(node)


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
    by_default = DEFAULT_LAYERS if service and default and service.value == default.value else PACKAGED_LAYERS
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


# Checks for user-written sections without effect.


_SMALL_NUMBER: Final = re.compile(r"command[1-9][0-9]{0,5}")
_CLUSTER_RULES: Final = frozenset(
    {
        "pipetasks",
        "dimensions",
        "equalDimensions",
        "partitionDimensions",
        "partitionMaxClusters",
        "partitionMaxSize",
        "clusterTemplate",
        "findDependencyMethod",
    }
)
"""Keys of a section of ``cluster`` that only clustering by these sections reads."""
_PLAIN_PAYLOADS: Final = ("pipeline", "wfformat")
"""Keys of payloads that have no init job unless ``runInit`` asks for one."""
_GRAPH_KEYS: Final = ("graphFile", "graphSource")


def find_ineffective_sections(root: Node, *, payload_read: bool) -> Iterator[Finding]:
    """Warn of each section without effect, and of a final job with its command given twice.

    `payload_read` says that the kind of the payload is known: a quantum graph adds defaults to some sections.
    """
    top = map_items(root)
    payload = _payload_keys(top)
    yield from _find_double_command(map_items(top.get("finalJob")), root)
    yield from _find_command_after_gap(map_items(top.get("finalJob")))
    if payload_read or not payload.isdisjoint(_PLAIN_PAYLOADS):
        yield from _check_final_job(top.get("finalJob"))
    yield from _check_clusters(top)
    yield from _find_exits_without_retries(root)
    replay = top.get("replay")
    is_replay = not payload or not payload.isdisjoint({"wfformat", *_GRAPH_KEYS})
    if replay is not None and _is_user_written(replay) and map_items(replay) and not is_replay:
        yield _no_effect(("replay",), replay.origin, "the payload is not a 'wfformat' file", "Leave it out.")
    init = map_items(top.get("pipetask")).get(INIT_LABEL)
    if init is not None and _is_user_written(init) and not payload.isdisjoint(_PLAIN_PAYLOADS) and not _runs_init(top):
        path = ("pipetask", INIT_LABEL)
        yield _no_effect(path, init.origin, "the run has no init job", "Set 'runInit: true' under 'payload' for one.")


def _find_double_command(items: Mapping[str, Node], root: Node) -> Iterator[Finding]:
    command, first = items.get("command"), items.get("command1")
    if command is None or first is None or not _are_rivals(command, first) or "command" in variable_names(root):
        return
    yield Finding(
        message="the final job has 'command' and 'command1', which mean the same",
        origin=max(command.origin, first.origin, key=lambda origin: (origin.line, origin.column)),
        hint="Keep one of them; 'command2' is the second command.",
        path=("finalJob", "command"),
    )


def _find_command_after_gap(items: Mapping[str, Node]) -> Iterator[Finding]:
    """Warn of a command of the final job that never runs, because the number before it is missing."""
    numbers = {int(key.removeprefix("command")): item for key, item in items.items() if _SMALL_NUMBER.fullmatch(key)}
    if "command1" not in items and "command" not in items:
        return
    last = 1
    while last + 1 in numbers:
        last += 1
    for number in sorted(each for each in numbers if each > last and _is_user_written(numbers[each])):
        yield Finding(
            message=f"'finalJob.command{number}' has no effect: there is no 'command{last + 1}'",
            origin=numbers[number].origin,
            hint=f'Commands are numbered without a gap; to skip one, leave it empty: command{last + 1}: "".',
            severity=Severity.WARNING,
            path=("finalJob", f"command{number}"),
            at_key=True,
        )


def _check_final_job(section: Node | None) -> Iterator[Finding]:
    items = map_items(section)
    written = [item for item in items.values() if _is_user_written(item)]
    # Defaults of a service may have keys for a final job that there is not.
    if section is None or not written or not _is_unset(items.get("whenRun")):
        return
    if not any(NUMBERED_COMMAND.fullmatch(key) for key in items):
        other = items.get("runQuantumCommand")
        hint = "Give it a 'command'." if other is None else "Write 'command' instead of 'runQuantumCommand'."
        origin = section.origin if _is_user_written(section) else written[0].origin
        yield _no_effect(("finalJob",), origin, "it has no command", hint)


def _are_rivals(command: Node, first: Node) -> bool:
    """Whether one file gives both; across files the stronger one wins."""
    return command.origin != first.origin and command.origin.file == first.origin.file


def _check_clusters(top: Mapping[str, Node]) -> Iterator[Finding]:
    if clusters_by_section(top):
        return
    for label, node in map_items(top.get("cluster")).items():
        keys = map_items(node).keys()
        # A section with 'pipetasks' has a warning of its own.
        if keys and _is_user_written(node) and keys <= _CLUSTER_RULES - {"pipetasks"}:
            yield _no_effect(
                ("cluster", label),
                node.origin,
                "'clusterAlgorithm' does not go by it",
                "Say 'clusterAlgorithm: dimension_clustering' to cluster by it.",
            )


def _find_exits_without_retries(root: Node) -> Iterator[Finding]:
    """Tell of exit codes that are not retried in parts of a configuration in which no exit code is."""
    parts = list(_parts_with_exits(root, ()))
    has_retries = any(map(_may_be_positive, _values_of("numberOfRetries", root))) if parts else False
    for path, items in parts:
        own = items.get("numberOfRetries")
        if has_retries if own is None else _may_be_positive(own):
            continue
        yield Finding(
            message=f"'{key_name((*path, 'retryUnlessExit'))}' has no effect: no exit code is retried",
            origin=items["retryUnlessExit"].origin,
            hint="'numberOfRetries' is 0; give it the number of retries after other exit codes.",
            severity=Severity.NOTE,
            path=(*path, "retryUnlessExit"),
            at_key=True,
        )


def _parts_with_exits(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Node]]]:
    items = map_items(node)
    exits = items.get("retryUnlessExit")
    if exits is not None and exits.value not in (None, []) and exits.origin.layer in RUN_LAYERS:
        yield path, items
    for key, item in items.items():
        yield from _parts_with_exits(item, (*path, key))


def _values_of(key: str, node: Node) -> Iterator[Node]:
    for name, item in map_items(node).items():
        if name == key:
            yield item
        yield from _values_of(key, item)


def _may_be_positive(number: Node) -> bool:
    """Whether a number is above 0, or a text that may become one."""
    return number.value is not None and str(number.value).strip() not in {"", "0"}


def _payload_keys(top: Mapping[str, Node]) -> frozenset[str]:
    """Keys of the configuration that name a payload."""
    known = ("pipelineYaml", "qgraphFile", *_PLAIN_PAYLOADS, *_GRAPH_KEYS)
    sections = (top, map_items(top.get("payload")), map_items(top.get("bps_cmdline")))
    return frozenset(key for key in known for section in sections if not _is_unset(section.get(key)))


def _runs_init(top: Mapping[str, Node]) -> bool:
    sections = (map_items(top.get("bps_cmdline")), map_items(top.get("payload")), top)
    return any(not _is_unset(section.get("runInit")) for section in sections)


def _is_unset(node: Node | None) -> bool:
    return node is None or node.value is None or node.value == ""


def _no_effect(path: tuple[str, ...], origin: Origin, reason: str, hint: str) -> Finding:
    return Finding(
        message=f"no key of '{key_name(path)}' has an effect: {reason}",
        origin=origin,
        hint=hint,
        severity=Severity.WARNING,
        path=path,
        at_key=True,
    )


# Finds unset environment variables that texts need when a run is submitted.


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


# All checks of a configuration, in the order of the file.


def lint(
    config: Config,
    schema: JsonSchema,
    context: LintContext,
    *,
    bps: BpsDefaultService | None,
    labels: frozenset[str] | None = None,
) -> list[Finding]:
    """Find all errors and likely errors of a configuration.

    Parameters
    ----------
    config
        The merged configuration.
    schema
        JSON Schema 2020-12 with local references only.
    context
        Names and environment that its variables may use.
    bps
        The service that BPS uses by default.
    labels
        Labels of the payload's tasks, where they are known.
    """
    root = config.root
    findings, reported = _check_keys(root, schema)
    findings += find_values_out_of_range(root, reported)
    findings += [*find_variable_errors(config, context), *find_unset_env(config, context.env)]
    findings += find_unused_keys(root, schema, context, reported)
    findings += [
        *find_unmatched_sections(root, labels),
        *find_ineffective_sections(root, payload_read=context.payload_uses is not None and labels is not None),
        *find_hidden_keys(root),
        *find_deprecated_names(root),
        *find_missing_service(root, bps),
        *find_secrets(root),
    ]
    unjudged = keys_of_foreign_sites(root, schema, context.foreign_sites)
    findings = [each for each in findings if each.severity is Severity.ERROR or each.path not in unjudged]
    return [with_default_origin(finding) for finding in hide_secret_lines(findings)]


def lint_unused_keys(root: Node, schema: JsonSchema, context: LintContext) -> list[Finding]:
    """Find unused keys once the payload's variables are known, without the other checks."""
    unjudged = keys_of_foreign_sites(root, schema, context.foreign_sites)
    found = find_unused_keys(root, schema, context, _check_keys(root, schema)[1])
    return [finding for finding in found if finding.path not in unjudged]


def keys_of_foreign_sites(root: Node, schema: JsonSchema, sites: Collection[str]) -> frozenset[tuple[str, ...]]:
    """Return the paths of keys of some sites that Longshore does not know, and so cannot judge."""
    if not sites:
        return frozenset()
    unknown = (path for path, *_ in find_unknown_keys(root, schema, schema))
    return frozenset(path for path in unknown if path[0] == "site" and path[1] in sites)


def _check_keys(root: Node, schema: JsonSchema) -> tuple[list[Finding], set[tuple[str, ...]]]:
    """Return findings about keys and their values, and the paths that they are about."""
    misspelled = list(find_misspelled_keys(root))
    misspelled_paths = {finding.path for finding in misspelled}
    # The value of a misspelled key is checked too.
    findings = [
        finding for finding in check_schema(root, schema) if not finding.at_key or finding.path not in misspelled_paths
    ]
    findings += misspelled
    # A finding about an item counts for its list too.
    return findings, {finding.path[:end] for finding in findings for end in range(1, len(finding.path) + 1)}


def hide_secret_lines(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Hide all findings on a line if one of them is hidden."""
    lines = {(finding.origin.file, finding.origin.line) for finding in findings if finding.hidden}
    for finding in findings:
        is_hidden = (finding.origin.file, finding.origin.line) in lines
        yield msgspec.structs.replace(finding, hidden=True) if is_hidden else finding
