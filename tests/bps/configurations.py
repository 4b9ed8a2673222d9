"""Configurations by chance: values of job keys in layers and sections, with variables, clusters and orderings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml
from hypothesis import strategies as st

_SERVICE: Final = "lsst.ctrl.bps.htcondor.HTCondorService"
_DIMENSION_CLUSTERS: Final = "lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering"

_TEXTS: Final = st.sampled_from(
    [
        "a",
        "{project}_x",
        "{label}",
        "${SOME_VARIABLE}/{campaign}",
        "{curr_site}",
        "{n:03}",
        "{one}",
        "x y",
        "{operator}",
    ]
)
_JOB_VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "requestMemory": st.sampled_from([512, 2048, 4096, "8192", "{big}"]),
    "requestMemoryMax": st.sampled_from([8192, 16384]),
    "requestCpus": st.sampled_from([1, 2, 4, "{n}"]),
    "requestDisk": st.sampled_from([100, 1000]),
    "memoryMultiplier": st.sampled_from([1, 1.5, 2, 4]),
    "numberOfRetries": st.sampled_from([0, 1, 3, 9]),
    "retryUnlessExit": st.sampled_from([2, [1, 2], [3]]),
    "queue": _TEXTS,
    "priority": st.sampled_from([1, 50, "7"]),
    "category": _TEXTS,
    "accountingGroup": _TEXTS,
    "accountingUser": st.sampled_from(["someone", "{operator}"]),
    "preemptible": st.booleans(),
    "concurrencyLimit": st.sampled_from(["db_limit", "tape"]),
    "computeCloud": st.sampled_from(["cloudy", "other"]),
    "computeSite": st.sampled_from(["here", "there"]),
    "environment": st.dictionaries(
        st.sampled_from(["ONE", "TWO", "THREE"]), st.one_of(_TEXTS, st.integers(0, 9)), min_size=1, max_size=2
    ),
    "extraRunQuantumOptions": st.sampled_from(["--no-versions", "--label {label}", "-x {jobName}", "{one} {campaign}"]),
    "runPreCmdOpts": st.sampled_from(["", "--long-log", "{defaultPreCmdOpts} --log-label {label}"]),
    "attrs": st.dictionaries(st.sampled_from(["Foo", "Bar"]), st.sampled_from([1, "two"]), min_size=1),
}
_CLUSTER_DIMENSIONS: Final = ("visit", "detector", "visit, detector", "instrument", "band")
_VARIABLES: Final = {"project": "proj", "campaign": "camp", "n": 3, "one": "1{project}", "big": 3072}


def _values(draw: st.DrawFn, most: int, without: Sequence[str] = ()) -> dict[str, Any]:
    keys = draw(
        st.lists(st.sampled_from([key for key in _JOB_VALUES if key not in without]), unique=True, max_size=most)
    )
    return {key: draw(_JOB_VALUES[key]) for key in keys}


@st.composite
def configurations(draw: st.DrawFn, labels: Sequence[str]) -> dict[str, str]:
    """Files of a configuration for a graph with some labels: ``run.yaml``, and perhaps one that it includes."""
    root: dict[str, Any] = {
        "payload": {"payloadName": "p", "butlerConfig": "repo", "output": "u/x/p", **_values(draw, 1)},
        "qgraphFile": "given.qg",
        "wmsServiceClass": _SERVICE,
        **_VARIABLES,
        **_values(draw, 4),
        "pipetask": {
            label: _values(draw, 3, ["computeSite"])
            for label in draw(st.lists(st.sampled_from([*labels, "pipetaskInit"]), unique=True, max_size=2))
        },
        "site": {name: _values(draw, 2, ["computeSite", "computeCloud"]) for name in ("here", "there")},
        "cloud": {name: _values(draw, 2, ["computeSite", "computeCloud"]) for name in ("cloudy", "other")},
        "finalJob": {
            "whenRun": draw(st.sampled_from(["ALWAYS", "SUCCESS", "NEVER"])),
            **_values(draw, 2, ["computeSite", "numberOfRetries"]),
        },
    }
    root |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "templateDataId": st.sampled_from(["{visit}_{detector}", "{tract}_{patch}_{band}_{visit}_{detector}"]),
                "useLazyCommands": st.just(True),
                "fileDistributionEndPoint": st.sampled_from(["", "file:///there/"]),
                "subDirTemplate": st.just("{label}/{visit}"),
            },
        )
    )
    root["payload"]["runInit"] = draw(st.booleans())
    clustered = draw(st.booleans())
    if clustered:
        root["clusterAlgorithm"] = _DIMENSION_CLUSTERS
        root["cluster"] = draw(_clusters(labels))
    if not clustered and draw(st.booleans()):
        root["ordering"] = draw(_orderings(labels))
    if draw(st.booleans()):
        kept = draw(st.sets(st.sampled_from(sorted(root)), max_size=4)) - {"qgraphFile", "payload"}
        included = {key: root.pop(key) for key in kept}
        below = {"project": "less", "requestDisk": 77}
        return {
            "run.yaml": _text({"includeConfigs": "other.yaml", **root}),
            "other.yaml": _text({**below, **included}),
        }
    return {"run.yaml": _text(root)}


def _text(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False)


@st.composite
def _clusters(draw: st.DrawFn, labels: Sequence[str]) -> dict[str, Any]:
    clusters: dict[str, Any] = {}
    rest = list(labels)
    for name in draw(st.sampled_from([["cl"], ["cl", "other"]])):
        tasks = draw(st.lists(st.sampled_from(rest), unique=True, min_size=1, max_size=3)) if rest else []
        rest = [label for label in rest if label not in tasks]
        if not tasks:
            continue
        section: dict[str, Any] = {"pipetasks": ", ".join(tasks), **_values(draw, 2)}
        if draw(st.booleans()):
            section["dimensions"] = draw(
                st.sampled_from(["visit", "detector", "visit, detector", "instrument", "band"])
            )
        if "dimensions" in section and draw(st.booleans()):
            section["clusterTemplate"] = "{label}_made_of_{visit}_{detector}_{instrument}_{band}"
        if draw(st.integers(0, 3)) == 0:
            section["findDependencyMethod"] = draw(st.sampled_from(["source", "sink"]))
        if draw(st.integers(0, 3)) == 0:
            section["partitionDimensions"] = draw(st.sampled_from(["detector", "visit", "visit, detector"]))
            section[draw(st.sampled_from(["partitionMaxSize", "partitionMaxClusters"]))] = draw(st.integers(1, 5))
        clusters[name] = section
    return clusters


@st.composite
def _orderings(draw: st.DrawFn, labels: Sequence[str]) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(labels), unique=True, min_size=1, max_size=2))
    return {
        "order1": {
            "labels": ", ".join(chosen),
            "dimensions": draw(st.sampled_from(["visit", "instrument", "detector"])),
            "implementation": draw(st.sampled_from(["group", "noop"])),
            **({"blocking": True} if draw(st.booleans()) else {}),
        }
    }


def searches_of(files: dict[str, str]) -> list[dict[str, Any]]:
    """Searches for all keys of a case and some that it lacks, by all sections that may be current."""
    documents = [yaml.safe_load(text) for text in files.values()]
    root = {key: value for document in documents for key, value in document.items()}
    keys = {*_JOB_VALUES, *_VARIABLES, "payloadName", "noSuchKey", ".payload.output", ".site.here.queue", "outputRun"}
    tasks = list(root.get("pipetask", {})) or ["isr"]
    currents: list[dict[str, str]] = [
        {},
        {"curr_pipetask": tasks[0]},
        {"curr_site": "here", "curr_cloud": "other"},
        {"curr_cluster": "cl", "curr_pipetask": tasks[-1], "curr_site": "there", "curr_cloud": "cloudy"},
        {"one": "given"},
    ]
    return [{"key": key, "current": current} for key in sorted(keys) for current in currents]
