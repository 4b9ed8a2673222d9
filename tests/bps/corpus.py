"""Configurations as people write them: of the user guide's kinds, and of this repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

COMMON: Final = """\
payload: {payloadName: p, butlerConfig: repo, output: u/x/p, inCollection: raw, dataQuery: "visit > 0"}
qgraphFile: given.qg
wmsServiceClass: lsst.ctrl.bps.htcondor.HTCondorService
"""
_FILES: Final = Path(__file__).resolve().parents[1] / "data" / "bps"

_GUIDE: Final = {
    "made here": "qgraphFile: ''\npipelineYaml: pipeline.yaml\n",
    "made here under a name": (
        "qgraphFile: ''\npipelineYaml: pipeline.yaml\nqgraphFileTemplate: '{uniqProcName}_x.qg'\n"
    ),
    "updated with the newer names": (
        "updateQuantumGraph: >-\n"
        "  ${CTRL_MPEXEC_DIR}/bin/pipetask update-graph-run {inputQgraphFile} {outputRun} {qgraphFile}\n"
    ),
    "updated with the guide's names": (
        "updateQuantumGraph: >-\n"
        "  ${CTRL_MPEXEC_DIR}/bin/pipetask update-graph-run {qgraphFile} {outputRun} {outputQgraphFile}\n"
    ),
    "one graph for all jobs": (
        "whenSaveJobQgraph: NEVER\n"
        'runQuantumCommand: "${CTRL_MPEXEC_DIR}/bin/pipetask --long-log run -b {butlerConfig} --output {output}'
        ' --output-run {outputRun} --qgraph {qgraphFile} --qgraph-node-id {qgraphNodeId} --skip-init-writes"\n'
    ),
    "a graph for each job": "whenSaveJobQgraph: TRANSFORM\n",
    "a graph for each job, later": "whenSaveJobQgraph: PREPARE\n",
    "no shared files": "bpsUseShared: false\n",
    "eager commands": "useLazyCommands: false\n",
    "no ids in names": "useNodeIdInClusterName: false\n",
    "no init job": "payload: {payloadName: p, butlerConfig: repo, output: u/x/p, runInit: false}\n",
    "no name": "payload: {butlerConfig: repo}\n",
    "several commands at the end": (
        'finalJob: {command1: "echo {butlerConfig} {qgraphFile}", command2: "", command3: "true {requestCpus}"}\n'
    ),
    "no command at the end": 'finalJob: {command1: ""}\n',
    "a final job that cannot be": "finalJob: {whenRun: SOMETIMES}\n",
    "a final job with half the memory": "finalJob: {requestMemory: 16384, requestCpus: 1, preemptible: false}\n",
    "memory that does not grow": "memoryMultiplier: 1\nnumberOfRetries: 2\n",
    "a task in two clusters": (
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster: {one: {pipetasks: isr}, two: {pipetasks: isr}}\n"
    ),
    "an unknown task in a cluster": (
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster: {one: {pipetasks: 'isr, nothing', dimensions: visit}}\n"
    ),
    "a name that shows what divides a cluster": (
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster: {one: {pipetasks: isr, dimensions: instrument, clusterTemplate: '{label}_{detector}',"
        " partitionDimensions: detector, partitionMaxClusters: 100}}\n"
    ),
    "too few clusters for what a name shows": (
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster: {one: {pipetasks: isr, dimensions: instrument, clusterTemplate: '{label}_{detector}',"
        " partitionDimensions: detector, partitionMaxClusters: 1}}\n"
    ),
    "variables of a cluster's jobs": (
        "project: proj\n"
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster: {one: {pipetasks: isr, dimensions: visit, environment: {ONE: '1{project}', TWO: '{operator}'}}}\n"
    ),
    "equal dimensions": (
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster: {one: {pipetasks: 'isr, calibrate', dimensions: 'exposure, detector',"
        " equalDimensions: 'visit:exposure'}}\n"
    ),
    "ordered": "ordering: {first: {labels: 'isr, calibrate', dimensions: visit}}\n",
    "ordered by empty jobs": (
        "ordering: {first: {labels: isr, dimensions: visit, implementation: noop},"
        " second: {labels: calibrate, dimensions: detector}}\n"
    ),
    "ordered without dimensions": "ordering: {first: {labels: isr}}\n",
    "two algorithms": "clusterAlgorithm: no.such.function\n",
    "a site and a cloud": (
        "computeSite: here\ncomputeCloud: high\n"
        "site: {here: {queue: long, requestMemory: 3000, accountingGroup: g}}\n"
        "cloud: {high: {queue: short, priority: 5}}\n"
    ),
    "values of a program": 'requestMemory: "bpsEval(max, [1024, {big}])"\nbig: 4096\nqueue: "{big:06}"\n',
    "profiles": (
        "computeSite: here\nsite: {here: {profile: {condor: {+Walltime: 7200, requirements: 'TRUE'}}}}\n"
        "pipetask: {isr: {profile: {condor: {+Fast: 1}}}}\n"
    ),
}


def corpus() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield configurations by name; their graph is that of the shape ``chain``."""
    for name, text in _GUIDE.items():
        yield name, {"run.yaml": _text(COMMON, text), "pipeline.yaml": "tasks: {isr: {class: demo.Isr}}\n"}
    for path in sorted(_FILES.glob("*.yaml")):
        files = {"run.yaml": _text(path.read_text("utf-8"), "qgraphFile: given.qg\n", COMMON)}
        yield path.name, files


def _text(*texts: str) -> str:
    """Return one document of several, those first weaker; `payload` is one whole."""
    root: dict[str, object] = {}
    for text in texts:
        root |= yaml.safe_load(text)
    return yaml.safe_dump(root, sort_keys=False)
