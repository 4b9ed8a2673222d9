"""Labels and variables of a payload, found cheaply before the payload is read, for lint and explanations of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from longshore.app.configure.configuration import Configuration, explain_keys
from longshore.app.payload.locate_file import locate_file
from longshore.app.payload.pipeline_imports import pipeline_node
from longshore.config.explain import KeyExplanation
from longshore.config.lint import label_hint
from longshore.config.lint_variables import key_names
from longshore.config.merge import Node, map_items
from longshore.config.schema import variable_names
from longshore.config.search import INIT_LABEL
from longshore.errors import DECODE_ERRORS, LongshoreError, UsageError
from longshore.model.report import FINAL_LABEL
from longshore.plan.transform import PER_JOB
from longshore.world.read.yaml_includes import read_yaml

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
