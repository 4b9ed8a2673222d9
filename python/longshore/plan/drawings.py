"""Draws a graph of clusters or jobs: as DOT for Graphviz, as an outline of all labels, or near one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.model.report import Drawing, DrawingEdge, DrawingNode
from longshore.model.states import JobState

if TYPE_CHECKING:
    from longshore.model.tasks import ClusteredGraph
    from longshore.model.workflow import Workflow


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


MAX_DRAWN: Final = 12
"""Maximum parents or children of one label that are drawn for a job; the rest are counted."""


class JobOutline(msgspec.Struct, frozen=True, kw_only=True):
    """Shape of a graph of jobs: parents and labels."""

    title: str
    parents: Sequence[Sequence[int]]
    """Per job, the indices of its parents; each index is less than the job's own."""
    label_of: Sequence[int]
    """Per job, the index of its label."""
    labels: Sequence[str]


def draw_labels(outline: JobOutline, counts: Mapping[str, Mapping[JobState, int]] | None = None) -> Drawing:
    """Picture with a box per label, in the order in which their first jobs can run."""
    jobs: Counter[int] = Counter(outline.label_of)
    place = {label: number for number, label in enumerate(jobs)}
    pairs: Counter[tuple[int, int]] = Counter()
    for job, parents in enumerate(outline.parents):
        label = place[outline.label_of[job]]
        pairs.update((place[outline.label_of[parent]], label) for parent in parents)
    return Drawing(
        title=outline.title,
        boxes=tuple(
            DrawingNode(
                name=outline.labels[label],
                label=outline.labels[label],
                jobs=number,
                counts={
                    state: amount for state, amount in (counts or {}).get(outline.labels[label], {}).items() if amount
                },
            )
            for label, number in jobs.items()
        ),
        arrows=tuple(DrawingEdge(start=start, end=end, jobs=number) for (start, end), number in sorted(pairs.items())),
    )


class Neighborhood(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs near a job."""

    jobs: tuple[int, ...]
    left_out: Mapping[tuple[int, bool, int], int]
    """Number of jobs not drawn, by a drawn job, whether they are its parents, and their label."""
    arrows: tuple[tuple[int, int], ...]
    """Parent and child among the drawn jobs."""


def find_neighborhood(outline: JobOutline, job: int, depth: int) -> Neighborhood:
    """Jobs up to `depth` steps before and after a job, at most `MAX_DRAWN` per step, job and label."""
    children = _children(outline, job, depth)
    shown = {job: None}
    left_out: dict[tuple[int, bool, int], int] = {}
    arrows: dict[tuple[int, int], None] = {}
    for before in (True, False):
        layer = [job]
        for _ in range(depth):
            following: dict[int, None] = {}
            for each in layer:
                others = outline.parents[each] if before else children.get(each, ())
                seen: Counter[int] = Counter()
                for other in others:
                    label = outline.label_of[other]
                    seen[label] += 1
                    if seen[label] <= MAX_DRAWN or other in shown:
                        following[other] = None
                        arrows[(other, each) if before else (each, other)] = None
                    else:
                        left_out[each, before, label] = left_out.get((each, before, label), 0) + 1
            layer = [other for other in following if other not in shown]
            shown.update(dict.fromkeys(layer))
    return Neighborhood(jobs=tuple(sorted(shown)), left_out=left_out, arrows=tuple(sorted(arrows)))


def draw_neighborhood(
    outline: JobOutline, near: Neighborhood, job: int, names: Mapping[int, str], states: Mapping[int, JobState]
) -> Drawing:
    """Picture of the jobs near a job, with one box for all further jobs of a label."""
    boxes = [
        DrawingNode(
            name=names[each],
            label=outline.labels[outline.label_of[each]],
            counts={states[each]: 1} if each in states else {},
            here=each == job,
        )
        for each in near.jobs
    ]
    place = {each: number for number, each in enumerate(near.jobs)}
    arrows = [DrawingEdge(start=place[start], end=place[end]) for start, end in near.arrows]
    for (each, before, label), number in near.left_out.items():
        rest = len(boxes)
        boxes.append(DrawingNode(name=f"{number} more", label=outline.labels[label], jobs=number, more=True))
        start, end = (rest, place[each]) if before else (place[each], rest)
        arrows.append(DrawingEdge(start=start, end=end, jobs=number))
    return Drawing(title=f"{outline.title}: {names[job]}", boxes=tuple(boxes), arrows=tuple(arrows))


def _children(outline: JobOutline, job: int, depth: int) -> dict[int, list[int]]:
    """Children of a job and of its descendants, up to `depth` steps."""
    # One pass over all jobs is enough: parents come first.
    steps = {job: 0}
    children: dict[int, list[int]] = {}
    for each in range(job + 1, len(outline.parents)):
        for parent in outline.parents[each]:
            if (step := steps.get(parent)) is not None and step < depth:
                children.setdefault(parent, []).append(each)
                steps[each] = min(steps.get(each, depth), step + 1)
    return children
