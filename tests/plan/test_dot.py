"""DOT of whole graphs: every cluster, every job, every edge."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from longshore.model.tasks import Cluster, ClusteredGraph, Dag, Task, TaskGraph
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.plan.drawings import cluster_dot, workflow_dot


def job(name: str, label: str) -> Job:
    return Job(name=name, label=label, command="true", settings=JobSettings(label=label))


def test_clusters() -> None:
    tasks = [Task(name=name, label="a") for name in ("a1", "a2", "b1")]
    clusters = [
        Cluster(name="b1", label="b1", tasks=(tasks[2],)),
        Cluster(name="both", label="a", tasks=(tasks[0], tasks[1])),
    ]
    graph = ClusteredGraph(
        name='w "1"', dag=Dag(clusters, [(1, 0)]), source=TaskGraph(name="w", dag=Dag(tasks, [(0, 2)]))
    )
    assert b"".join(cluster_dot(graph)).decode().splitlines() == [
        r'digraph "w \"1\"" {',
        "  node [shape=box];",
        r'  "both" [label="both\na\n2 tasks"];',
        r'  "b1" [label="b1\n1 task"];',
        '  "both" -> "b1";',
        "}",
    ]


def workflow() -> Workflow:
    jobs = [job("x1", "x"), job('y"1', "y"), job("z", "z")]
    return Workflow("w", Dag.by_name(jobs, [("x1", 'y"1')]), final=job("finalJob", "finalJob"))


def test_workflow_dot_has_jobs_and_edges_to_the_final_job() -> None:
    assert b"".join(workflow_dot(workflow())).decode().splitlines() == [
        'digraph "w" {',
        "  node [shape=box];",
        r'  "x1" [label="x1\nx"];',
        r'  "z" [label="z"];',
        r'  "y\"1" [label="y\"1\ny"];',
        r'  "finalJob" [label="finalJob"];',
        r'  "x1" -> "y\"1";',
        '  "z" -> "finalJob" [style=dashed];',
        r'  "y\"1" -> "finalJob" [style=dashed];',
        "}",
    ]


def test_names_that_differ_in_a_line_feed_have_distinct_ids() -> None:
    jobs = [job("a\nb", "l"), job("a b", "l"), job(r"a\nb", "l")]
    lines = b"".join(workflow_dot(Workflow("w", Dag.by_name(jobs)))).decode().splitlines()[2:-1]
    assert [line.partition(" [")[0] for line in lines] == [r'  "a\nb"', '  "a b"', r'  "a\\nb"']


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_it() -> None:
    subprocess.run(["dot", "-Tplain"], input=b"".join(workflow_dot(workflow())), capture_output=True, check=True)
