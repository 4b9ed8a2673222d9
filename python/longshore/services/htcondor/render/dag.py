"""Writes the files of ``wms/`` that DAGMan runs: the text of the DAG, and what it names.

They also work by hand: ``condor_submit_dag run.dag`` in that folder. Nodes are ``j<n>``, where n is the number of the
job in ``workflow.jsonl``; ``wms_noop_g<n>`` are nodes without a job that join many edges; ``final`` is the job that
runs after all others. BPS reads the labels of jobs from the names of their descriptions, ``jobs/<label>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from longshore.contract.service import Context, RenderedFile
from longshore.engine.job_wrapper import wrapper_file
from longshore.model.tasks import collection_paused
from longshore.model.workflow import JobSettings, Request
from longshore.services.htcondor.codes import FINAL_NODE
from longshore.services.htcondor.render import log_names, quoting, retries, service_nodes, submit_description, transfer
from longshore.services.htcondor.render.dag_edges import (
    BARRIER_SCRIPT,
    NOOP_DESCRIPTION,
    DagEdges,
    edge_lines,
    find_edges,
    has_barrier_scripts,
)
from longshore.services.htcondor.render.settings import category_name, dagman_settings, max_jobs
from longshore.services.htcondor.render.submit_description import (
    DescriptionGroup,
    JobGrouper,
    SharedText,
    SubmitDescription,
)
from longshore.services.htcondor.render.transfer import has_checked_outputs
from longshore.services.htcondor.submission_record import DAG, OVERRIDES

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

CONFIG: Final = "dagman.conf"
FINAL_SCRIPT: Final = "final-status"
_ILLEGAL: Final = re.compile(r"[^\w.:-]", re.ASCII)
_STATUS_S: Final = 60
"""Seconds between two status files, at least."""
_JOBS_PER_STATUS_S: Final = 200
"""Jobs for which the time between two status files is a second longer: DAGMan writes all nodes each time."""


def dag_text(workflow: Workflow, ctx: Context) -> Iterator[str]:
    """The text of the DAG, in pieces."""
    edges = find_edges(workflow)
    yield from _head(workflow, ctx)
    names = {NOOP_DESCRIPTION, *service_nodes.DESCRIPTIONS}
    grouper = JobGrouper(workflow, ctx)
    groups = grouper.groups()
    for group in groups:
        is_final = workflow.final is not None and group.indices[0] == len(workflow) - 1
        name = _description_name(group.settings.label, names)
        yield from _group_lines(grouper, group, ctx, edges, name=name, is_final=is_final)
    yield from service_nodes.service_node_lines(ctx)
    yield from edge_lines(edges)
    used = {category_name(group.settings.attributes.get("category")) for group in groups}
    yield from (f"MAXJOBS {name} {most}\n" for name, most in sorted(max_jobs(ctx).items()) if name in used)
    yield f"\nINCLUDE {OVERRIDES.name}\n"


def _head(workflow: Workflow, ctx: Context) -> Iterator[str]:
    yield f"# {quoting.quote_attribute(workflow.name)[1:-1]}: condor_submit_dag in this folder runs it by hand.\n"
    yield f"CONFIG {CONFIG}\n"
    # Nothing here reads it; BPS's report does.
    yield f"NODE_STATUS_FILE run.node_status {max(_STATUS_S, len(workflow) // _JOBS_PER_STATUS_S)}\n"
    yield f"SET_JOB_ATTR LongshoreRun = {quoting.quote_attribute(ctx.run_token)}\n"
    attributes = {**workflow.attributes, "bps_wms_service": "longshore", "bps_wms_workflow": "htcondor"}
    attributes["bps_run_quanta"] = ";".join(f"{label}:{count}" for label, count in workflow.quanta_counts().items())
    attributes["bps_job_summary"] = ";".join(f"{label}:{count}" for label, count in workflow.counts().items())
    for name, value in attributes.items():
        if value:
            yield f"SET_JOB_ATTR {name} = {quoting.quote_attribute(value)}\n"


def _description_name(label: str, used_names: set[str]) -> str:
    plain = "jobs/" + (_ILLEGAL.sub("_", label)[:100] or "_")
    name, number = plain, 1
    while name in used_names:
        number += 1
        name = f"{plain}/{number}"
    used_names.add(name)
    return name


def _group_lines(
    grouper: JobGrouper, group: DescriptionGroup, ctx: Context, edges: DagEdges, *, name: str, is_final: bool
) -> Iterator[str]:
    """One submit description, and the nodes that use it."""
    executable, arguments = grouper.program_and_arguments(group)
    variables = SharedText.of(group.variables)
    description = SubmitDescription(
        settings=group.settings,
        name=name,
        executable=executable,
        arguments=arguments,
        variables=variables,
        is_plain=group.is_plain,
        index=group.indices[0] if is_final else None,
        unset=group.unset,
        exported=group.exported,
        quanta=SharedText.of(group.quanta),
        checked=SharedText.of(group.outputs) if group.outputs else None,
        transfers={
            submit_description.INPUTS: SharedText.of([files.inputs for files in group.transfers]),
            submit_description.OUTPUTS: SharedText.of([files.outputs for files in group.transfers]),
            submit_description.REMAPS: SharedText.of([files.remaps for files in group.transfers]),
        }
        if group.transfers
        else {},
    )
    yield f"\nSUBMIT-DESCRIPTION {name} {{\n"
    yield from (f"  {line}\n" for line in submit_description.description_lines(description, ctx, grouper.attributes))
    yield "}\n"
    if is_final:
        yield f"FINAL {FINAL_NODE} {name}\n"
        yield f"SCRIPT POST {FINAL_NODE} {FINAL_SCRIPT} $DAG_STATUS $RETURN\n"
    yield from _node_lines(group, description, ctx, edges)


def _node_lines(
    group: DescriptionGroup, description: SubmitDescription, ctx: Context, edges: DagEdges
) -> Iterator[str]:
    """The lines of each job: its node, variables, priority and node commands."""
    job_variables = _own_variables(group, description, ctx)
    commands = _node_commands(description)
    if description.index is not None:
        yield f"VARS {FINAL_NODE} {job_variables[0]}\n"
        return
    ranks, base = edges.ranks, round(description.settings.priority) * edges.levels
    for index, variables in zip(group.indices, job_variables, strict=True):
        first = ranks[index] + base
        priority = f"PRIORITY j{index} {first}\n" if first else ""
        more = commands.format(node=f"j{index}") if commands else ""
        yield f"JOB j{index} {description.name}\nVARS j{index} {variables}\n{priority}{more}"


def _own_variables(group: DescriptionGroup, description: SubmitDescription, ctx: Context) -> list[str]:
    """The variables of each job, beside those of its submit description."""
    folder, subfolder = submit_description.FOLDER, log_names.subfolder
    numbers = list(map(ctx.file_number, group.indices)) if ctx.file_numbers else group.indices
    names = (
        [f'{submit_description.NAME}="{name}"' for name in group.names]
        if description.is_plain
        else list(map(_name_vars, numbers, group.names))
    )
    job_variables = [f'{name} {folder}="{subfolder(number)}"' for number, name in zip(numbers, names, strict=True)]
    texts = {
        submit_description.ARGUMENTS: description.arguments,
        submit_description.VARIABLES: description.variables,
        submit_description.QUANTA: description.quanta,
        **description.transfers,
    }
    if description.checked is not None:
        texts[submit_description.CHECKED] = description.checked
    for macro, text in texts.items():
        if text.own_parts:
            job_variables = [
                f'{variables} {macro}="{piece}"'
                for variables, piece in zip(job_variables, _insert_attempt(_escape_parts(text.own_parts)), strict=True)
            ]
    if len(set(map(id, group.requests))) > 1:
        request_macros = _RequestMacros(description.settings, ctx)
        job_variables = [
            variables + request_macros.text(request)
            for variables, request in zip(job_variables, group.requests, strict=True)
        ]
    return job_variables


def _escape_parts(pieces: Sequence[str]) -> Sequence[str]:
    together = "".join(pieces)
    if '"' not in together and "\\" not in together:
        return pieces
    return [quoting.escape_vars(quoting.escape_description(piece)) for piece in pieces]


def _insert_attempt(pieces: Sequence[str]) -> Sequence[str]:
    return [*map(submit_description.insert_attempt, pieces)] if quoting.ATTEMPT in "".join(pieces) else pieces


def _name_vars(number: int, name: str) -> str:
    shown = quoting.quote_attribute(name)[1:-1]
    variables = quoting.escape_vars(
        quoting.escape_description(quoting.quote_word(name if quoting.is_quotable(name) else shown))
    )
    path = log_names.log_prefix(number, name)
    names = submit_description
    return f'{names.NAME}="{shown}" {names.IN_PATHS}="{path}" {names.IN_VARIABLES}="{variables}"'


def _node_commands(description: SubmitDescription) -> str:
    """Node commands shared by a job group, as a template with the node's name open."""
    attributes = description.settings.attributes
    lines = ""
    if attributes.get("category") and description.index is None:
        lines += f"CATEGORY {{node}} {category_name(attributes['category'])}\n"
    if attributes.get("abortOnValue") is not None and description.index is None:
        code = attributes.get("abortReturnValue")
        returned = "" if code is None else f" RETURN {code}"
        lines += f"ABORT-DAG-ON {{node}} {attributes['abortOnValue']}{returned}\n"
    return lines + (retries.node_lines(description.settings) if description.index is None else "")


class _RequestMacros:
    """Requests of single jobs that differ from their submit description."""

    def __init__(self, settings: JobSettings, ctx: Context) -> None:
        self._settings = settings
        self._ctx = ctx
        self._shared = submit_description.request_macros(settings.request, settings, ctx)
        self._texts: dict[int, str] = {id(settings.request): ""}
        self._requests: list[Request] = []

    def text(self, request: Request) -> str:
        """Macros of a request; empty if it equals that of the description."""
        text = self._texts.get(id(request))
        if text is None:
            macros = submit_description.request_macros(request, self._settings, self._ctx)
            text = "".join(f' {name}="{value}"' for name, value in macros.items() if value != self._shared.get(name))
            self._texts[id(request)] = text
            self._requests.append(request)
        return text


def config_text(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The text of DAGMan's configuration for the run."""
    yield "# Settings of DAGMan for this run: wmsConfig.\n"
    yield from (f"{name} = {value}\n" for name, value in settings)


FOLDER: Final = PurePosixPath("wms")
CONFIG_PATH: Final = FOLDER / CONFIG
FINAL_PATH: Final = FOLDER / FINAL_SCRIPT
_BARRIER_PROGRAM: Final = Path(__file__).with_name("barrier_script.py")
OVERRIDES_TEXT: Final = """\
# Read last: what is said of a node here holds. What it asks for at first are mem and disk (MiB), cpus, wall (seconds):
#   VARS j12 mem="4096"
# And any command of its submit description can be given anew:
#   VARS j12 APPEND request_gpus="1"
"""
_FINAL_TEXT: Final = """\
#!/bin/sh
# Run by DAGMan when the final job has ended, with the status of the DAG and the exit code of that job: a final job that
# succeeds does not hide that others failed.
[ "$1" -eq 0 ] || exit "$1"
exit "$2"
"""


def render(workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
    """The files of a run: fewer than ten for any number of jobs."""
    yield RenderedFile(path=DAG, chunks=lambda: _dag_chunks(workflow, ctx))
    yield RenderedFile(path=OVERRIDES, is_mutable=True, chunks=lambda: iter((OVERRIDES_TEXT,)))
    yield RenderedFile(path=CONFIG_PATH, chunks=lambda: config_text(dagman_settings(ctx)))
    if workflow.final is not None:
        yield RenderedFile.from_text(FINAL_PATH, _FINAL_TEXT, mode=0o755)
    if retries.has_removal_retries(job.settings for job in workflow):
        yield RenderedFile.from_text(FOLDER / retries.SCRIPT, retries.TEXT, mode=0o755)
    if has_checked_outputs(workflow) and not transfer.is_enabled(ctx):
        yield wrapper_file(ctx)
    if has_barrier_scripts(workflow):
        yield RenderedFile.from_text(FOLDER / BARRIER_SCRIPT, _BARRIER_PROGRAM.read_text("utf-8"), mode=0o755)
    if service_nodes.has_notices(ctx):
        yield RenderedFile.from_text(
            FOLDER / service_nodes.NOTIFIER_SCRIPT, service_nodes.notifier_text(ctx), mode=0o755
        )
    if provisioned := service_nodes.provisioning(ctx):
        program = service_nodes.provisioner_text(provisioned, ctx)
        yield RenderedFile.from_text(FOLDER / service_nodes.PROVISIONER_SCRIPT, program, mode=0o755)
        if provisioned.config:
            yield RenderedFile.from_text(FOLDER / service_nodes.PROVISIONER_CONFIG, provisioned.config)


def folders(workflow: Workflow) -> Iterator[str]:
    """The directories of all logs: HTCondor creates none, and holds a job whose log it cannot open."""
    return log_names.log_folders(job.settings.label for job in workflow)


def _dag_chunks(workflow: Workflow, ctx: Context) -> Iterator[str]:
    # None of hundreds of thousands of small texts is garbage; collection would take longer than rendering.
    with collection_paused():
        yield from dag_text(workflow, ctx)
