"""Turns the kinds of a workflow's jobs, and the order among them, into the text of a DAG that DAGMan runs.

Its nodes are ``j<n>``, where n is the number of the job in ``workflow.jsonl``; ``g<n>`` are nodes without a job that
gather many edges; ``final`` is the job that runs after all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from longshore.contract.context import Context
from longshore.model.request import Request
from longshore.services.htcondor import describe, joblog, quoting
from longshore.services.htcondor.describe import Shape
from longshore.services.htcondor.kinds import Kind, Sorter, Text
from longshore.services.htcondor.settings import category, max_jobs

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
    before: list[list[int]] = [[] for _ in index]
    children = [[index[child] for child in after] for _, after in graph.adjacency()]
    rank = [0] * len(index)
    for job, after in enumerate(children):
        for child in after:
            before[child].append(job)
    parents = list(map(tuple, before))
    for job in range(len(parents) - 1, -1, -1):
        after = children[job]
        if after:
            rank[job] = max([rank[child] for child in after]) + 1
    return Order(parents, rank)


def text(workflow: Workflow, ctx: Context) -> Iterator[str]:
    """The text of the DAG, a piece at a time."""
    order = order_of(workflow)
    yield from _head(workflow, ctx)
    names: set[str] = set()
    sorter = Sorter(workflow, ctx)
    found = sorter.kinds()
    for kind in found:
        is_final = workflow.final is not None and kind.indices[0] == len(workflow) - 1
        name = _description_name(kind.settings.label, names)
        yield from _kind(sorter, kind, ctx, order, name=name, is_final=is_final)
    yield from edges(order.parents)
    used = {category(kind.settings.attributes.get("category")) for kind in found}
    yield from (f"MAXJOBS {name} {most}\n" for name, most in sorted(max_jobs(ctx).items()) if name in used)
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


def _kind(sorter: Sorter, kind: Kind, ctx: Context, order: Order, *, name: str, is_final: bool) -> Iterator[str]:
    """A description, and the nodes that use it."""
    executable, arguments = sorter.programs(kind)
    variables = Text.of(kind.variables)
    shape = Shape(
        settings=kind.settings,
        name=name,
        executable=executable,
        arguments=arguments,
        variables=variables,
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
    yield from _nodes(kind, shape, ctx, order)


def _nodes(kind: Kind, shape: Shape, ctx: Context, order: Order) -> Iterator[str]:
    """The lines of each job: its node, its variables, its priority."""
    own = [[_shown(shape, index, name)] for index, name in zip(kind.indices, kind.names, strict=True)]
    for macro, text in ((describe.ARGUMENTS, shape.arguments), (describe.VARIABLES, shape.variables)):
        if text.own:
            for words, piece in zip(own, text.own, strict=True):
                words.append(f'{macro}="{quoting.in_vars(quoting.in_description(piece))}"')
    asked, commands, description = _Asked(shape.settings, ctx), _commands(shape), shape.name
    for index, words, request in zip(kind.indices, own, kind.requests, strict=True):
        more = asked.of(request)
        if shape.index is None:
            node, rank = f"j{index}", order.rank[index] + asked.priority
            job = f"JOB {node} {description}\n"
        else:
            node, rank, job = FINAL, 0, ""
        priority = f"PRIORITY {node} {rank}\n" if rank else ""
        yield f"{job}VARS {node} {' '.join(words)}{more}\n{priority}{commands.format(node=node) if commands else ''}"


def _shown(shape: Shape, index: int, name: str) -> str:
    folder = f'{describe.FOLDER}="{joblog.subfolder(index)}"'
    return f'{describe.NAME}="{name}" {folder}' if shape.plain else f"{_name_vars(index, name)} {folder}"


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
        found += f"CATEGORY {{node}} {category(given['category'])}\n"
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


def _chunks(jobs: Sequence[int]) -> list[str]:
    if len(jobs) <= _MOST:
        return [" ".join([f"j{job}" for job in jobs])]
    return [" ".join([f"j{job}" for job in jobs[start : start + _MOST]]) for start in range(0, len(jobs), _MOST)]


def config(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The text of DAGMan's settings for the run."""
    yield "# Settings of DAGMan for this run: wmsConfig.\n"
    yield from (f"{name} = {value}\n" for name, value in settings)
