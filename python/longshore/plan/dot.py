"""Writes a graph of clusters or jobs as DOT for Graphviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Whoever only wants text escaped does without networkx.
    from longshore.model.tasks.cluster import ClusteredGraph
    from longshore.model.workflow.workflow import Workflow


def cluster_dot(clustered: ClusteredGraph) -> Iterator[bytes]:
    """DOT of a graph of clusters, each with its label and number of tasks."""
    nodes = clustered.dag.nodes
    boxes = ((cluster.name, (cluster.label, _task_count(len(cluster.tasks)))) for cluster in clustered.dag)
    arrows = ((nodes[parent].name, nodes[child].name) for parent, child in clustered.dag.edges())
    yield from _dot_lines(clustered.name, boxes, arrows)


def workflow_dot(workflow: Workflow) -> Iterator[bytes]:
    """DOT of a workflow, each job with its label; dashed arrows lead to the final job."""
    graph = workflow.graph
    boxes = ((job.name, (job.label,)) for job in workflow)
    yield from _dot_lines(workflow.name, boxes, graph.edges, _final_edges(workflow))


def escape_dot(text: str) -> str:
    """Escape a text for a quoted string of DOT."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", " ")


def _dot_lines(
    title: str,
    boxes: Iterable[tuple[str, tuple[str, ...]]],
    arrows: Iterable[tuple[str, str]],
    dashed: Iterable[tuple[str, str]] = (),
) -> Iterator[bytes]:
    yield f'digraph "{escape_dot(title)}" {{\n  node [shape=box];\n'.encode()
    for name, more in boxes:
        text = r"\n".join(map(escape_dot, dict.fromkeys((name, *more))))
        yield f'  "{_node_id(name)}" [label="{text}"];\n'.encode()
    for start, end in arrows:
        yield f'  "{_node_id(start)}" -> "{_node_id(end)}";\n'.encode()
    for start, end in dashed:
        yield f'  "{_node_id(start)}" -> "{_node_id(end)}" [style=dashed];\n'.encode()
    yield b"}\n"


def _node_id(text: str) -> str:
    """Id of a node; unlike its label, it must stay unique."""
    return r"\n".join(map(escape_dot, text.split("\n")))


def _final_edges(workflow: Workflow) -> Iterator[tuple[str, str]]:
    """Edges to the final job, from the jobs without children."""
    if workflow.final is not None:
        yield from ((name, workflow.final.name) for name, degree in workflow.graph.out_degree if not degree)


def _task_count(tasks: int) -> str:
    return f"{tasks:,} task" + "s" * (tasks != 1)
