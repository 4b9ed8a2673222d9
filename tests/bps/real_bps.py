"""Serves the real BPS over a pipe: one JSON document a line in, one out.

Runs with the interpreter of the environment that has BPS. A case takes milliseconds; a process of its own would take
seconds, nearly all of them for imports.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import networkx as nx
from lsst.ctrl.bps import BPS_DEFAULTS, BPS_SEARCH_ORDER, BpsConfig, GenericWorkflow, drivers, initialize
from lsst.daf.butler import Config
from lsst.pipe.base import Instrument
from lsst.pipe.base.tests.mocks import DynamicConnectionConfig, InMemoryRepo

_BY_NAME: Final = frozenset({"name", "label", "tags", "quanta_counts", "executable", "arguments", "cmdvals"})
"""Attributes of a job that have a place of their own in its document."""


def serve() -> None:
    """Answer requests until the end of the input."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # What BPS prints must not be taken for an answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.disable(logging.CRITICAL)
    # Lists of all packages and of the whole environment: a second a case, and nothing is compared with them.
    initialize._dump_env_info = initialize._dump_pkg_info = lambda *_args: None
    for line in sys.stdin:
        request = json.loads(line)
        answer: object
        try:
            with _surroundings(request), contextlib.redirect_stdout(io.StringIO()):
                answer = _ANSWERS[request["do"]](request)
        except Exception as error:  # noqa: BLE001 - BPS has no class of errors of its own
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), file=answers, flush=True)


@contextlib.contextmanager
def _surroundings(request: Mapping[str, Any]) -> Iterator[None]:
    """Give a case its folder, its variables and its time."""
    Instrument.makeCollectionTimestamp = staticmethod(lambda: request.get("timestamp", "20260101T000000Z"))
    before = dict(os.environ)
    if folder := request.get("folder"):
        os.chdir(folder)
        os.environ["PWD"] = folder
    os.environ.update(request.get("env", {}))
    try:
        yield
    finally:
        # The folder is removed when the answer was read.
        os.chdir("/")
        os.environ.clear()
        os.environ.update(before)


# --------------------------------------------------------------------------------------------------------------- graphs


def make_graph(request: Mapping[str, Any]) -> object:
    """Write a quantum graph of the mocked tasks of a request, by the real builder and a registry in memory."""
    with InMemoryRepo("base.yaml", "spatial.yaml") as repo:
        for task in request["tasks"]:
            repo.add_task(
                task["label"],
                dimensions=task["dimensions"],
                inputs=_connections(task["inputs"]),
                outputs=_connections(task["outputs"]),
            )
        graph = repo.make_quantum_graph_builder(output_run="mock/run").finish(
            output="mock", attach_datastore_records=False
        )
        graph.write(request["path"])
        return {"quanta": {label: len(quanta) for label, quanta in graph.assemble().quanta_by_task.items()}}


def _connections(datasets: Mapping[str, list[str]]) -> dict[str, Any]:
    return {
        f"c_{name}": DynamicConnectionConfig(dataset_type_name=name, dimensions=dimensions, multiple=True)
        for name, dimensions in datasets.items()
    }


# ------------------------------------------------------------------------------------------------------- configurations


def search(request: Mapping[str, Any]) -> object:
    """Return what searches find: a value, its absence, or an error."""
    config = BpsConfig(request["config"], search_order=BPS_SEARCH_ORDER, defaults=BPS_DEFAULTS)
    # As each of its commands begins.
    config[".bps_defined.timestamp"] = request["timestamp"]
    if "operator" not in config:
        config[".bps_defined.operator"] = getpass.getuser()
    config[".bps_defined.uniqProcName"] = config["outputRun"].replace("/", "_")
    return [_found(config, each["key"], each["current"]) for each in request["searches"]]


def _found(config: Any, key: str, current: Mapping[str, str]) -> object:
    try:
        found, value = config.search(key, opt={"curvals": dict(current)})
    except Exception as error:  # noqa: BLE001 - as above
        return {"error": f"{type(error).__name__}: {error}"}
    return {"value": _plain(value)} if found else {}


def _plain(value: Any) -> Any:
    """Return a value without BPS's classes; what is in a section, as it is written."""
    if isinstance(value, Config):
        return {key: _plain(Config.__getitem__(value, key)) for key in value}
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


# ------------------------------------------------------------------------------------------------------------ workflows


def transform(request: Mapping[str, Any]) -> object:
    """Return clusters and generic workflow of a configuration, as ``bps transform`` makes them."""
    seen: dict[str, Any] = {}
    with _watching(seen):
        config, workflow = drivers.transform_driver(request["config"])
    clusters = seen["clusters"]
    script = Path(config[".bps_defined.submitPath"]) / "final_job.bash"
    return {
        "submitPath": config[".bps_defined.submitPath"],
        "name": workflow.name,
        "attributes": dict(workflow.run_attrs),
        "clusters": {
            each.name: {
                "label": each.label,
                "tags": dict(each.tags),
                "quanta": sorted(map(str, each.qgraph_node_ids)),
                "counts": dict(each.quanta_counts),
            }
            for each in clusters.clusters()
        },
        "cluster_edges": sorted(
            [parent.name, child.name] for parent in clusters.clusters() for child in clusters.successors(parent)
        ),
        "jobs": {job.name: _job(workflow, job) for job in seen["jobs"]},
        "edges": sorted(map(list, seen["edges"])),
        "final": _job(workflow, final) if (final := workflow.get_final()) is not None else None,
        "script": script.read_text("utf-8") if script.exists() else "",
        "groups": _groups(workflow),
        "files": {file.name: file.src_uri for file in workflow.get_files(data=True, transfer_only=False)},
        "counts": {label: dict(workflow.quanta_counts)[label] for label in workflow.quanta_counts},
        "job_counts": dict(workflow.job_counts),
    }


@contextlib.contextmanager
def _watching(seen: dict[str, Any]) -> Iterator[None]:
    """Keep the clusters, and jobs and edges as they are before groups hide them."""
    cluster, order, validate = drivers.cluster_quanta, GenericWorkflow.add_special_job_ordering, drivers.transform

    def look(workflow: Any) -> None:
        seen["edges"] = list(workflow.edges())
        seen["jobs"] = [workflow.get_job(name) for name in workflow]

    def clustering(*args: Any) -> Any:
        seen["clusters"] = cluster(*args)
        return seen["clusters"]

    def ordering(workflow: Any, config: Any) -> None:
        look(workflow)
        order(workflow, config)

    def transforming(*args: Any) -> Any:
        made = validate(*args)
        if "edges" not in seen:
            look(made[0])
        return made

    drivers.cluster_quanta, GenericWorkflow.add_special_job_ordering = clustering, ordering
    drivers.transform = transforming
    try:
        yield
    finally:
        drivers.cluster_quanta, GenericWorkflow.add_special_job_ordering = cluster, order
        drivers.transform = validate


def _job(workflow: Any, job: Any) -> dict[str, Any]:
    values = {field.name: _plain(getattr(job, field.name)) for field in fields(job) if field.name not in _BY_NAME}
    values = {name: value for name, value in values.items() if not name.startswith("_")}
    command = f"{job.executable.src_uri if job.executable else ''} {job.arguments or ''}"
    for name, value in job.cmdvals.items():
        command = command.replace(f"{{{name}}}", str(value))
    inputs = workflow.get_job_inputs(job.name, data=False)
    return {
        "label": job.label,
        "tags": _plain(job.tags),
        "counts": dict(job.quanta_counts),
        "command": command,
        "inputs": sorted(inputs),
        "values": values,
    }


def _groups(workflow: Any) -> dict[str, Any]:
    """Return groups with their jobs, and empty jobs with the jobs around them."""
    found: dict[str, Any] = {}
    for name in workflow.nodes:
        node = workflow.nodes[name]["job"]
        kind = type(node).__name__
        if kind == "GenericWorkflowGroup":
            found[name] = {"jobs": sorted(node.nodes), "blocking": bool(node.blocking)}
        elif kind == "GenericWorkflowNoopJob":
            found[name] = {
                "before": sorted(nx.DiGraph.predecessors(workflow, name)),
                "after": sorted(nx.DiGraph.successors(workflow, name)),
            }
    return found


_ANSWERS: Final[Mapping[str, Callable[[Mapping[str, Any]], object]]] = {
    "graph": make_graph,
    "search": search,
    "transform": transform,
}

if __name__ == "__main__":
    serve()
