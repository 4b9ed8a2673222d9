"""Writes the text of the DAG: submit descriptions, nodes with their variables, edges, and DAGMan's settings.

Its nodes are ``j<n>``, where n is the number of the job in ``workflow.jsonl``; ``g<n>`` are nodes without a job that
join many edges; ``final`` is the job that runs after all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from longshore.contract.context import Context
from longshore.model.workflow.request import Request
from longshore.services.htcondor.node_names import FINAL_NODE
from longshore.services.htcondor.render import log_names, quoting, submit_description
from longshore.services.htcondor.render.dag_edges import NOOP_DESCRIPTION, DagEdges, edge_lines, find_edges
from longshore.services.htcondor.render.job_groups import JobGroup, JobGrouper, SharedText
from longshore.services.htcondor.render.provisioning import provisioning, service_node_lines
from longshore.services.htcondor.render.settings import category_name, max_jobs
from longshore.services.htcondor.render.submit_description import DescriptionInputs
from longshore.services.htcondor.submission_record import OVERRIDES

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

CONFIG: Final = "dagman.conf"
FINAL_SCRIPT: Final = "final-status"
_ILLEGAL: Final = re.compile(r"\W", re.ASCII)


def dag_text(workflow: Workflow, ctx: Context) -> Iterator[str]:
    """The text of the DAG, in pieces."""
    order = find_edges(workflow)
    yield from _head(workflow, ctx)
    names = {NOOP_DESCRIPTION, "d_provision"}
    sorter = JobGrouper(workflow, ctx)
    found = sorter.kinds()
    for kind in found:
        is_final = workflow.final is not None and kind.indices[0] == len(workflow) - 1
        name = _description_name(kind.settings.label, names)
        yield from _kind(sorter, kind, ctx, order, name=name, is_final=is_final)
    if provisioning(ctx) is not None:
        yield from service_node_lines(ctx)
    yield from edge_lines(order)
    used = {category_name(kind.settings.attributes.get("category")) for kind in found}
    yield from (f"MAXJOBS {name} {most}\n" for name, most in sorted(max_jobs(ctx).items()) if name in used)
    yield f"\nINCLUDE {OVERRIDES.name}\n"


def _head(workflow: Workflow, ctx: Context) -> Iterator[str]:
    yield f"# {quoting.quote_attribute(workflow.name)[1:-1]}: condor_submit_dag in this folder runs it by hand.\n"
    yield f"CONFIG {CONFIG}\n"
    yield f"SET_JOB_ATTR LongshoreRun = {quoting.quote_attribute(ctx.run_token)}\n"
    attributes = {**workflow.attributes, "bps_wms_service": "longshore", "bps_wms_workflow": "htcondor"}
    attributes["bps_run_quanta"] = ";".join(f"{label}:{count}" for label, count in workflow.quanta_counts().items())
    attributes["bps_job_summary"] = ";".join(f"{label}:{count}" for label, count in workflow.counts().items())
    for name, value in attributes.items():
        if value:
            yield f"SET_JOB_ATTR {name} = {quoting.quote_attribute(value)}\n"


def _description_name(label: str, taken: set[str]) -> str:
    plain = "d_" + (_ILLEGAL.sub("_", label)[:100] or "_")
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    taken.add(name)
    return name


def _kind(
    sorter: JobGrouper, kind: JobGroup, ctx: Context, order: DagEdges, *, name: str, is_final: bool
) -> Iterator[str]:
    """One submit description, and the nodes that use it."""
    executable, arguments = sorter.programs(kind)
    variables = SharedText.of(kind.variables)
    shape = DescriptionInputs(
        settings=kind.settings,
        name=name,
        executable=executable,
        arguments=arguments,
        variables=variables,
        plain=kind.plain,
        index=kind.indices[0] if is_final else None,
        unset=kind.unset,
        exported=kind.exported,
        quanta=SharedText.of(kind.quanta),
        carried={
            submit_description.INPUTS: SharedText.of([files.inputs for files in kind.carried]),
            submit_description.OUTPUTS: SharedText.of([files.outputs for files in kind.carried]),
            submit_description.REMAPS: SharedText.of([files.remaps for files in kind.carried]),
        }
        if kind.carried
        else {},
    )
    yield f"\nSUBMIT-DESCRIPTION {name} {{\n"
    yield from (f"  {line}\n" for line in submit_description.description_lines(shape, ctx, sorter.attributes))
    yield "}\n"
    if is_final:
        yield f"FINAL {FINAL_NODE} {name}\n"
        yield f"SCRIPT POST {FINAL_NODE} {FINAL_SCRIPT} $DAG_STATUS $RETURN\n"
    yield from _nodes(kind, shape, ctx, order)


def _nodes(kind: JobGroup, shape: DescriptionInputs, ctx: Context, order: DagEdges) -> Iterator[str]:
    """The lines of each job: its node, variables, priority and node commands."""
    own = _own(kind, shape, ctx)
    commands = _commands(shape)
    if shape.index is not None:
        yield f"VARS {FINAL_NODE} {own[0]}\n"
        return
    rank, base, description = order.rank, round(shape.settings.priority) * order.levels, shape.name
    for index, words in zip(kind.indices, own, strict=True):
        first = rank[index] + base
        priority = f"PRIORITY j{index} {first}\n" if first else ""
        more = commands.format(node=f"j{index}") if commands else ""
        yield f"JOB j{index} {description}\nVARS j{index} {words}\n{priority}{more}"


def _own(kind: JobGroup, shape: DescriptionInputs, ctx: Context) -> list[str]:
    """The variables of each job, beside those of its submit description."""
    folder, subfolder = submit_description.FOLDER, log_names.subfolder
    names = (
        [f'{submit_description.NAME}="{name}"' for name in kind.names]
        if shape.plain
        else list(map(_name_vars, kind.indices, kind.names))
    )
    own = [f'{name} {folder}="{subfolder(index)}"' for index, name in zip(kind.indices, names, strict=True)]
    texts = {
        submit_description.ARGUMENTS: shape.arguments,
        submit_description.VARIABLES: shape.variables,
        submit_description.QUANTA: shape.quanta,
        **shape.carried,
    }
    for macro, text in texts.items():
        if text.own:
            own = [f'{words} {macro}="{piece}"' for words, piece in zip(own, _escaped(text.own), strict=True)]
    if len(set(map(id, kind.requests))) > 1:
        asked = _Asked(shape.settings, ctx)
        own = [words + asked.of(request) for words, request in zip(own, kind.requests, strict=True)]
    return own


def _escaped(pieces: Sequence[str]) -> Sequence[str]:
    together = "".join(pieces)
    if '"' not in together and "\\" not in together:
        return pieces
    return [quoting.escape_vars(quoting.escape_description(piece)) for piece in pieces]


def _name_vars(index: int, name: str) -> str:
    shown = quoting.quote_attribute(name)[1:-1]
    variables = quoting.escape_vars(
        quoting.escape_description(quoting.quote_word(name if quoting.is_quotable(name) else shown))
    )
    path = log_names.log_prefix(index, name)
    names = submit_description
    return f'{names.NAME}="{shown}" {names.IN_PATHS}="{path}" {names.IN_VARIABLES}="{variables}"'


def _commands(shape: DescriptionInputs) -> str:
    """Node commands shared by a job group, as a template with the node's name open."""
    given = shape.settings.attributes
    found = ""
    if given.get("category") and shape.index is None:
        found += f"CATEGORY {{node}} {category_name(given['category'])}\n"
    if given.get("abortOnValue") is not None and shape.index is None:
        code = given.get("abortReturnValue")
        returned = "" if code is None else f" RETURN {code}"
        found += f"ABORT-DAG-ON {{node}} {given['abortOnValue']}{returned}\n"
    return found


class _Asked:
    """Requests of single jobs that differ from their submit description."""

    def __init__(self, settings: Any, ctx: Context) -> None:
        self._settings = settings
        self._ctx = ctx
        self._usual = submit_description.request_macros(settings.request, settings, ctx)
        self._known: dict[int, str] = {id(settings.request): ""}
        self._kept: list[Request] = []

    def of(self, request: Request) -> str:
        """Macros of a request; empty if it equals that of the description."""
        text = self._known.get(id(request))
        if text is None:
            found = submit_description.request_macros(request, self._settings, self._ctx)
            text = "".join(f' {name}="{value}"' for name, value in found.items() if value != self._usual.get(name))
            self._known[id(request)] = text
            self._kept.append(request)
        return text


def config_text(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The text of DAGMan's configuration for the run."""
    yield "# Settings of DAGMan for this run: wmsConfig.\n"
    yield from (f"{name} = {value}\n" for name, value in settings)
