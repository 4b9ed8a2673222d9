"""Times the values of 100,000 jobs of 12 labels, and a search path of 500 site profiles.

Usage: python -m tests.bench.profiles [--jobs N] [--sites N]
"""

from __future__ import annotations

import argparse
import collections
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from longshore.config.combine import ClusterProfile
from longshore.config.includes import read_yaml
from longshore.config.interpolate import Scope
from longshore.config.merge import Layer, LayerRank, merge_layers
from longshore.config.plugins import shipped_path
from longshore.config.profile import JobProfile, compile_profile
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml
from longshore.contract.algorithms import ClusteringSettings
from longshore.model.tasks import Cluster, ClusteredGraph, ClusterMember, Composition, Dag, Task, TaskGraph
from longshore.plan.clustering import cluster_single_tasks
from longshore.plan.jobs import SharedSettings, SpecialJobs, compile_profiles, make_job, transform

LABELS = 12
_PROFILE = """# A cluster of the campus.
title: Cluster {number}
service: slurm
hosts: ["login*.cluster{number}.example.org"]
limits: {{cpus: 128, memory: 480 GiB, walltime: "7-00:00:00", queued: 2000, pollFloor: 60}}
partitions:
  - {{name: short, cpus: 64, memory: 240 GiB, walltime: "4:00:00", default: true}}
  - {{name: long, cpus: 64, memory: 240 GiB, walltime: "7-00:00:00"}}
  - {{name: large, cpus: 128, memory: 480 GiB, walltime: "2-00:00:00"}}
account: general
qos: normal
slurm:
  killOnBadExit: true
modules: [gcc/13]
setup:
  job:
    - ulimit -s unlimited
    - export OMP_PLACES=cores
inheritEnvironment: [HOME, PATH, LANG]
scratch: /scratch
requestWalltime: "1:00:00"
"""


def build_graph(jobs: int) -> ClusteredGraph:
    """Build tasks of 12 labels with two dimensions."""
    tasks = [
        Task(
            name=f"t{number}",
            label=f"label{number % LABELS}",
            data_id={"visit": number // 100, "detector": number % 100},
        )
        for number in range(jobs)
    ]
    return cluster_single_tasks(TaskGraph(name="run", dag=Dag.by_name(tasks, [])), ClusteringSettings())


def build_clusters(jobs: int) -> ClusteredGraph:
    """Build clusters of three to five tasks of three labels, in a few dozen combinations."""
    clusters = []
    for number in range(jobs):
        labels = [(number + step) % LABELS for step in (0, 1, 1, 2, 2)][: 3 + number % 3]
        tasks = [
            Task(name=f"t{number}_{place}", label=f"label{label}", data_id={"visit": number, "detector": place})
            for place, label in enumerate(labels)
        ]
        clusters.append(Cluster(name=f"c{number}", label="group", tags={"visit": number}, tasks=tuple(tasks)))
    everything = TaskGraph(name="run", dag=Dag([], []))
    return ClusteredGraph(name="run", dag=Dag(clusters, []), source=everything)


def configuration() -> Config:
    """Return the defaults with values for each label."""
    sections = "".join(f"  label{number}: {{requestMemory: {1000 + number}}}\n" for number in range(LABELS))
    text = (
        "runQuantumCommand: 'work --visit {visit} --detector {detector} {options}'\noptions: '-v {label}'\n"
        f"requestWalltime: '1:00'\nqueue: long\nenvironment: {{WHERE: '{{queue}}'}}\npipetask:\n{sections}"
    )
    defaults = Layer("defaults", LayerRank.DEFAULTS, read_yaml(shipped_path("etc", "defaults.yaml")))
    return Config(merge_layers([defaults, Layer("run", LayerRank.FILE, parse_yaml(text, "run.yaml"))]))


def cluster_profiles(clustered: ClusteredGraph, config: Config) -> dict[Composition, ClusterProfile]:
    """Return the profile of each composition of clusters."""

    def compiled(member: ClusterMember, free: frozenset[str]) -> JobProfile:
        env = {"PWD": "/somewhere"}
        return compile_profile(config, member.label, Scope(free=free, env=env), cluster=member.section)

    return compile_profiles(clustered, compiled)


def resolve_values(clustered: ClusteredGraph, config: Config) -> None:
    """Resolve all values of all jobs."""
    kinds = cluster_profiles(clustered, config)
    shared: SharedSettings = {}
    nodes = clustered.dag.nodes
    each = zip(nodes, clustered.compositions, strict=True)
    collections.deque(
        (make_job(cluster, kind, kinds[kind], shared, clustered.source) for cluster, kind in each), maxlen=0
    )


def build_workflow(clustered: ClusteredGraph, config: Config) -> None:
    """Resolve all values and build the workflow."""
    transform(clustered, cluster_profiles(clustered, config), name="run", attributes={}, special=SpecialJobs())


def median_s(act: Callable[[], object], rounds: int) -> float:
    """Return the median wall time of a call."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    config, clustered = configuration(), build_graph(options.jobs)
    rounds = options.rounds
    print(f"profiles of {LABELS} labels: {median_s(lambda: cluster_profiles(clustered, config), rounds) * 1000:.1f} ms")
    print(f"all values of {options.jobs:,} jobs: {median_s(lambda: resolve_values(clustered, config), rounds):.2f} s")
    print(f"the workflow made of them as well: {median_s(lambda: build_workflow(clustered, config), rounds):.2f} s")
    groups = build_clusters(options.jobs // 4)
    tasks = sum(len(cluster.tasks) for cluster in groups.dag.nodes)
    took = median_s(lambda: resolve_values(groups, config), rounds)
    print(f"all values of {len(groups.dag):,} jobs of {tasks:,} tasks of several labels: {took:.2f} s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(options.sites):
            (folder / f"cluster{number}.yaml").write_text(_PROFILE.format(number=number), "utf-8")
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}

        def ran(*words: str) -> float:
            command = [sys.executable, *words]
            return median_s(
                lambda: subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True),
                options.rounds,
            )

        bare = ran("-c", "pass")
        listed = ran("-m", "longshore", "site", "list", "--site-path", name)
        shown = ran("-m", "longshore", "site", "show", "cluster7", "--site-path", name)
    print(f"site list of {options.sites} profiles: {listed:.2f} s (Python alone {bare:.2f} s)")
    print(f"site show of one of them: {shown:.2f} s")


if __name__ == "__main__":
    main()
