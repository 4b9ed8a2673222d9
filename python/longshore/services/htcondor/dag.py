"""Turns the kinds of a workflow's jobs, and the order among them, into the text of a DAG that DAGMan runs.

Its nodes are ``j<n>``, where n is the number of the job in ``workflow.jsonl``; ``g<n>`` are nodes without a job that
gather many edges; ``final`` is the job that runs after all others.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from longshore.contract.context import Context
from longshore.model.request import Request
from longshore.services.htcondor import describe, joblog, kinds, quoting
from longshore.services.htcondor.describe import Shape
from longshore.services.htcondor.kinds import Kind

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

FINAL: Final = "final"
OVERRIDES: Final = "overrides.dag"
CONFIG: Final = "dagman.conf"
FINAL_SCRIPT: Final = "final-status"
_MOST: Final = 500
"""Names in a line, and the number on both sides of a set of edges beyond which a node of its own gathers them."""
_ILLEGAL: Final = re.compile(r"\W", re.ASCII)


class Order(msgspec.Struct, frozen=True):
    """What comes before what, by numbers of jobs.

    Attributes
    ----------
    parents
        Per job.
    rank
        Per job the priority of its node: a job with a longer chain behind it goes first.
    """

    parents: Sequence[tuple[int, ...]]
    rank: Sequence[int]


def order_of(workflow: Workflow) -> Order:
    """The order among the jobs of a workflow, the final job aside."""
    graph = workflow.graph
    index = {name: number for number, name in enumerate(graph)}
    parents: list[tuple[int, ...]] = [tuple([index[parent] for parent in before]) for before in graph.pred.values()]
    rank = array("l", bytes(array("l").itemsize * len(parents)))
    for job in range(len(parents) - 1, -1, -1):
        height = rank[job] + 1
        for parent in parents[job]:
            rank[parent] = max(rank[parent], height)
    return Order(parents, rank)


def text(workflow: Workflow, ctx: Context) -> Iterator[str]:
    """The text of the DAG, a piece at a time."""
    order = order_of(workflow)
    yield from _head(workflow, ctx)
    names: set[str] = set()
    for kind in kinds.Sorter(workflow, ctx).kinds():
        is_final = workflow.final is not None and kind.indices[0] == len(workflow) - 1
        yield from _kind(kind, ctx, order, _description_name(kind.settings.label, names), is_final=is_final)
    yield from edges(order.parents)
    yield f"\nINCLUDE {OVERRIDES}\n"


def _head(workflow: Workflow, ctx: Context) -> Iterator[str]:
    yield f"# {quoting.in_attribute(workflow.name)[1:-1]}: condor_submit_dag in this folder runs it by hand.\n"
    yield f"CONFIG {CONFIG}\n"
    yield f"SET_JOB_ATTR LongshoreRun = {quoting.in_attribute(ctx.mark)}\n"
    attributes = {**workflow.attributes, "bps_wms_service": "longshore", "bps_wms_workflow": "htcondor"}
    attributes["bps_job_summary"] = ";".join(f"{label}:{count}" for label, count in workflow.counts().items())
    for name, value in attributes.items():
        if value:
            yield f"SET_JOB_ATTR {name} = {quoting.in_attribute(value)}\n"


def _description_name(label: str, taken: set[str]) -> str:
    plain = "d_" + (_ILLEGAL.sub("_", label)[:100] or "_")
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    taken.add(name)
    return name


def _kind(kind: Kind, ctx: Context, order: Order, name: str, *, is_final: bool) -> Iterator[str]:
    """A description, and the nodes that use it."""
    executable, lines = kinds.programs(kind)
    around, shared = quoting.split(lines), quoting.split(kind.variables)
    shape = Shape(
        settings=kind.settings,
        name=name,
        executable=executable,
        arguments=around,
        variables=shared,
        differs=(_differs(lines), _differs(kind.variables)),
        plain=kind.plain,
        index=kind.indices[0] if is_final else None,
        unset=kind.unset,
        exported=kind.exported,
    )
    yield f"\nSUBMIT-DESCRIPTION {name} {{\n"
    attributes: dict[str, str] = {}
    yield from (f"  {line}\n" for line in describe.description(shape, ctx, attributes))
    yield "}\n"
    if is_final:
        yield f"FINAL {FINAL} {name}\n"
        yield f"SCRIPT POST {FINAL} {FINAL_SCRIPT} $DAG_STATUS $RETURN\n"
    yield from _nodes(kind, shape, ctx, order, lines)


def _differs(texts: Sequence[str]) -> bool:
    first = texts[0]
    return any(text != first for text in texts)


def _nodes(kind: Kind, shape: Shape, ctx: Context, order: Order, lines: Sequence[str]) -> Iterator[str]:
    """The lines of each job: its node, its variables, its priority."""
    asked = _Asked(shape.settings, ctx)
    commands = _commands(shape)
    begin, end = len(shape.arguments[0]), len(shape.arguments[1])
    first, last = len(shape.variables[0]), len(shape.variables[1])
    for index, name, line, variables, request in zip(
        kind.indices, kind.names, lines, kind.variables, kind.requests, strict=True
    ):
        node = f"j{index}" if shape.index is None else FINAL
        own = _name_vars(index, name) if not shape.plain else f'{describe.NAME}="{name}"'
        own += f' {describe.FOLDER}="{joblog.subfolder(index)}"'
        if shape.differs[0]:
            own += f' {describe.ARGUMENTS}="{quoting.in_vars(quoting.in_description(line[begin : len(line) - end]))}"'
        if shape.differs[1]:
            piece = variables[first : len(variables) - last]
            own += f' {describe.VARIABLES}="{quoting.in_vars(quoting.in_description(piece))}"'
        own += asked.of(request)
        job = f"JOB {node} {shape.name}\n" if shape.index is None else ""
        rank = order.rank[index] if shape.index is None else 0
        priority = f"PRIORITY {node} {rank + asked.priority}\n" if rank + asked.priority else ""
        yield f"{job}VARS {node} {own}\n{priority}{commands.format(node=node)}"


def _name_vars(index: int, name: str) -> str:
    shown = quoting.in_attribute(name)[1:-1]
    variables = quoting.in_vars(quoting.in_description(quoting.word(name if quoting.fits(name) else shown)))
    path = joblog.stem(index, name)
    return f'{describe.NAME}="{shown}" {describe.IN_PATHS}="{path}" {describe.IN_VARIABLES}="{variables}"'


def _commands(shape: Shape) -> str:
    """Lines about each node of a kind beside its variables, with a place for its name."""
    given = shape.settings.attributes
    found = ""
    if given.get("category") and shape.index is None:
        found += f"CATEGORY {{node}} {_ILLEGAL.sub('_', str(given['category']))}\n"
    if given.get("abortOnValue") is not None and shape.index is None:
        code = given.get("abortReturnValue")
        returned = "" if code is None else f" RETURN {code}"
        found += f"ABORT-DAG-ON {{node}} {given['abortOnValue']}{returned}\n"
    return found


class _Asked:
    """What single jobs ask for beside what their description does."""

    def __init__(self, settings: Any, ctx: Context) -> None:
        self._settings = settings
        self._ctx = ctx
        self._usual = describe.amounts(settings.request, settings, ctx)
        self._known: dict[int, str] = {id(settings.request): ""}
        self._kept: list[Request] = []
        self.priority = round(settings.priority)

    def of(self, request: Request) -> str:
        """Its macros."""
        text = self._known.get(id(request))
        if text is None:
            found = describe.amounts(request, self._settings, self._ctx)
            text = "".join(f' {name}="{value}"' for name, value in found.items() if value != self._usual.get(name))
            self._known[id(request)] = text
            self._kept.append(request)
        return text


def edges(parents: Sequence[tuple[int, ...]]) -> Iterator[str]:
    """Lines ``PARENT ... CHILD ...``: jobs with the same parents share one, so that the text grows with the edges.

    Parameters
    ----------
    parents
        Numbers of the parents per job.
    """
    children: dict[tuple[int, ...], list[int]] = {}
    for job, before in enumerate(parents):
        if before:
            children.setdefault(before, []).append(job)
    yield "\n"
    gathered = 0
    for before, after in children.items():
        if len(before) > 1 and len(after) > 1 and len(before) + len(after) > _MOST:
            # A node without a job between them: two short lists in the place of their product.
            node = f"g{gathered}"
            gathered += 1
            yield f"JOB {node} d_none NOOP\n" if gathered > 1 else _NOOP.format(node=node)
            yield from (f"PARENT {some} CHILD {node}\n" for some in _chunks(before))
            yield from (f"PARENT {node} CHILD {some}\n" for some in _chunks(after))
        else:
            # One of the two is a single job, or both are few.
            for first in _chunks(before):
                yield from (f"PARENT {first} CHILD {some}\n" for some in _chunks(after))


_NOOP: Final = "SUBMIT-DESCRIPTION d_none {{\n  executable = /bin/true\n}}\nJOB {node} d_none NOOP\n"


def _chunks(jobs: Sequence[int]) -> Iterator[str]:
    for start in range(0, len(jobs), _MOST):
        yield " ".join([f"j{job}" for job in jobs[start : start + _MOST]])


def config(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The text of DAGMan's settings for the run."""
    yield "# Settings of DAGMan for this run: wmsConfig.\n"
    yield from (f"{name} = {value}\n" for name, value in settings)
