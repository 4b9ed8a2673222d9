"""Differences that the page names: for each the row of the page, and the values that it explains."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from tests.bps.compare import Value
from tests.pages import DOC

PAGE: Final = DOC / "reference" / "differences-from-bps.md"

Files = Mapping[str, str]

_TEXT_KEYS: Final = ("runPreCmdOpts", "initPreCmdOpts", "extraRunQuantumOptions", "extraInitOptions")


@dataclass(frozen=True, kw_only=True)
class Documented:
    """A row of the page, named by its first cell, and which differences it explains."""

    row: str
    explains: Callable[[Value, Files], bool]


def find_row(value: Value, files: Files) -> str | None:
    """Return the row that explains a difference; ``None`` if there is none."""
    return next((each.row for each in DOCUMENTED if each.explains(value, files)), None)


def rows_of_page() -> list[str]:
    """Return the first cell of each row."""
    lines = PAGE.read_text("utf-8").splitlines()
    return [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]


def merged(files: Files) -> dict[str, Any]:
    """Return all sections of a case's files, those of ``run.yaml`` last."""
    documents = [yaml.safe_load(text) for _, text in sorted(files.items())]
    return {key: value for document in documents for key, value in document.items()}


def _sections(files: Files) -> list[dict[str, Any]]:
    """Return the root and all sections of values."""
    root = merged(files)
    named = [each for name in ("pipetask", "cluster", "site", "cloud") for each in root.get(name, {}).values()]
    return [
        root,
        root.get("payload", {}),
        *(each for each in named if isinstance(each, dict)),
        root.get("finalJob", {}),
    ]


def _without_names(value: Value) -> Any:
    """Return what Longshore has, without label and name of the job."""
    ours = [value.ours] if isinstance(value.ours, str) else value.ours
    if not isinstance(ours, list):
        return value.ours
    if value.place == "script":
        return [[word for word in words if word != value.label] for words in ours]
    names = {value.label, value.job}
    words = [word for word in ours if word not in names]
    return words[0] if isinstance(value.ours, str) and words else "" if isinstance(value.ours, str) else words


def _is_tag(value: Value, _files: Files) -> bool:
    return value.ours is None and value.place.endswith((".tags.label", ".tags.node_number"))


def _is_unfilled(value: Value, _files: Files) -> bool:
    is_attribute = value.kind == "attributes" and ".environment" not in value.place
    return is_attribute and isinstance(value.bps, str) and bool(re.search(r"\{\w+(:\d+)?\}|<ENV:\w+>", value.bps))


def _is_name(value: Value, files: Files) -> bool:
    fits = value.kind == "commands" or ".environment." in value.place
    if not fits or value.bps is None:
        return False
    # A cluster of one label fills in that label.
    only = str(merged(files).get("cluster", {}).get(value.label, {}).get("pipetasks", "")).strip()
    return bool(_without_names(value) == value.bps or (value.bps == "" and value.ours == only != ""))


def _is_environment_of_cluster(value: Value, files: Files) -> bool:
    sections = merged(files).get("cluster", {})
    place = re.fullmatch(r".*\.environment\.(\w+)", value.place)
    section = sections.get(value.label, {}).get("environment", {}) if place and isinstance(sections, dict) else {}
    text = str(section.get(place[1], "")) if place else ""
    return "{" in text and value.bps == re.sub(r"\{[^{}]*\}", "", text)


def _is_in_cluster(value: Value, files: Files) -> bool:
    if value.kind != "commands":
        return False
    root = merged(files)
    if "LONGSHORE_JOB_TASKS_DONE" in str(value.ours):
        sections = _sections(files)
    else:
        sections = [section for name in ("cluster", "site", "cloud") for section in root.get(name, {}).values()]
    return any(key in section for section in sections for key in _TEXT_KEYS)


def _is_map(value: Value, _files: Files) -> bool:
    return value.bps is None and bool(re.search(r"\.(attrs|profile)\.", value.place))


def _is_merged_environment(value: Value, files: Files) -> bool:
    many = sum("environment" in section for section in _sections(files)) > 1
    return ".environment." in value.place and many and value.bps is None


def _is_false_in_final(value: Value, files: Files) -> bool:
    return value.kind == "attributes" and value.job == "finalJob" and value.bps is None and not value.ours


def _is_final_environment(value: Value, _files: Files) -> bool:
    return value.place.startswith("finalJob.environment.") and "<ENV:" in str(value.ours)


def _chooses_section(value: Value, files: Files) -> bool:
    chosen = [
        section
        for label, section in merged(files).get("pipetask", {}).items()
        if "computeCloud" in section or "computeSite" in section
        if not value.label or value.label == label or label in value.tasks
    ]
    return bool(chosen) and value.kind in {"attributes", "commands", "outcome"}


def _is_in_payload(value: Value, files: Files) -> bool:
    root = merged(files)
    both = root.get("cluster", {}).get(value.label, {}).keys() & root.get("payload", {}).keys()
    attribute = value.place.removeprefix(f"{value.job}.").partition(".")[0]
    return value.kind == "attributes" and any(_snake(key) == attribute for key in both)


def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", key)


def _uses_older_names(value: Value, files: Files) -> bool:
    is_older = "outputQgraphFile" in str(merged(files).get("updateQuantumGraph", ""))
    return is_older and _fails_only_there(value, "BpsSubprocessError: Updating quantum graph failed")


def _asks_for_graphs_of_jobs(value: Value, files: Files) -> bool:
    asks = merged(files).get("whenSaveJobQgraph", "NEVER") != "NEVER"
    return asks and value.kind == "outcome" and "'whenSaveJobQgraph: " in str(value.ours)


def _has_no_payload_name(value: Value, files: Files) -> bool:
    is_name = value.kind in {"names and files", "run attributes"}
    return is_name and "payloadName" not in merged(files).get("payload", {})


def _is_undefined_in_command(value: Value, _files: Files) -> bool:
    return value.kind == "outcome" and value.bps is None and "which nothing defines" in str(value.ours)


def _is_account_of_site(value: Value, files: Files) -> bool:
    sites = merged(files).get("site", {}).values()
    has_account = any(value.ours == site.get("account") for site in sites if isinstance(site, dict))
    return value.place.endswith(".accounting_group") and value.bps is None and has_account


def _is_eager(value: Value, files: Files) -> bool:
    return value.kind == "commands" and merged(files).get("useLazyCommands") is False


def _is_undefined_in_final(value: Value, _files: Files) -> bool:
    return value.job == "finalJob" and value.bps == "None" and not value.ours


def _fails_only_there(value: Value, pattern: str) -> bool:
    return value.kind == "outcome" and value.ours is None and bool(re.match(pattern, str(value.bps)))


def _has_dimension_twice(value: Value, files: Files) -> bool:
    def words(section: Mapping[str, Any], key: str) -> set[str]:
        return set(str(section.get(key, "")).replace(",", " ").split())

    sections = merged(files).get("cluster", {}).values()
    twice = any(words(section, "dimensions") & words(section, "partitionDimensions") for section in sections)
    return twice and _fails_only_there(value, "KeyError: '")


def _surrounds_jobs(value: Value, files: Files) -> bool:
    return "ordering" in merged(files) and _fails_only_there(value, "NetworkXUnfeasible: Graph contains a cycle")


def _lacks_dimension(value: Value, files: Files) -> bool:
    starts = any("findDependencyMethod" in section for section in merged(files).get("cluster", {}).values())
    return starts and _fails_only_there(value, r"RuntimeError: Quantum \S+ \(.*\) missing dimensions")


def _differs_in_cluster(value: Value, _files: Files) -> bool:
    return _fails_only_there(value, "RuntimeError: Inconsistent value for ")


def _is_filled_differently(value: Value, files: Files) -> bool:
    """Tell whether only we refuse a cluster, because an attribute is another one for each label once it is filled."""
    is_refused = value.kind == "outcome" and value.bps is None and "Inconsistent value for" in str(value.ours)
    return is_refused and any("{label}" in text for text in files.values())


DOCUMENTED: Final = (
    Documented(row="tags of a job", explains=_is_tag),
    Documented(row='variables in an attribute of jobs, as in `category: "{project}"`', explains=_is_unfilled),
    Documented(row='variables in an attribute of jobs, as in `category: "{project}"`', explains=_is_filled_differently),
    Documented(row="`{label}` and `{jobName}` in commands and in `environment`", explains=_is_name),
    Documented(
        row='variables in `environment` of a section of `cluster`, as in `ONE: "{project}"`',
        explains=_is_environment_of_cluster,
    ),
    Documented(
        row="parts of commands in a section of `cluster`, `site` or `cloud`, or of a task in a cluster",
        explains=_is_in_cluster,
    ),
    Documented(row="`attrs` and `profile` of a label", explains=_is_map),
    Documented(row="`environment`", explains=_is_merged_environment),
    Documented(row="`false` and 0 in `finalJob`", explains=_is_false_in_final),
    Documented(row="`${X}` in a value of `environment`", explains=_is_final_environment),
    Documented(row="`computeSite` or `computeCloud` in `pipetask.T`", explains=_chooses_section),
    Documented(row="`findDependencyMethod` for a task without a dimension of its cluster", explains=_lacks_dimension),
    Documented(row="`cluster.T.KEY` where `payload` or the command line has the key too", explains=_is_in_payload),
    Documented(
        row="an `updateQuantumGraph` with `{qgraphFile}` and `{outputQgraphFile}`, as in the guide",
        explains=_uses_older_names,
    ),
    Documented(row="`whenSaveJobQgraph` other than NEVER", explains=_asks_for_graphs_of_jobs),
    Documented(row="no `payloadName`", explains=_has_no_payload_name),
    Documented(row="an undefined variable", explains=_is_undefined_in_command),
    Documented(row="`account` in a site, as for Parsl", explains=_is_account_of_site),
    Documented(row="`useLazyCommands: false`", explains=_is_eager),
    Documented(row="an undefined variable", explains=_is_undefined_in_final),
    Documented(row="a name in both `dimensions` and `partitionDimensions` of a cluster", explains=_has_dimension_twice),
    Documented(row="a job outside of all groups, between two jobs of one group", explains=_surrounds_jobs),
    Documented(
        row="a value that must be equal for all labels of a cluster, and only some have it",
        explains=_differs_in_cluster,
    ),
)
