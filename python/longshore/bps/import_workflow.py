"""Makes a workflow of BPS's generic workflow: jobs with their settings, edges, groups, files and the final job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from lsst.ctrl.bps import (
    GenericWorkflow,
    GenericWorkflowFile,
    GenericWorkflowGroup,
    GenericWorkflowJob,
    GenericWorkflowNodeType,
)

from longshore.bps.import_orderings import OrderingCollector
from longshore.config.templates import ATTEMPT_MARK, WMS_HINT, undelay_env
from longshore.errors import PreparationError
from longshore.model.tasks import Dag, DataId, File
from longshore.model.workflow import Job, JobSettings, Workflow

SettingsCompiler: TypeAlias = Callable[[GenericWorkflowJob], JobSettings]
"""Makes the settings of a job from its attributes."""
_RUN_FOLDER: Final = "<ENV:LONGSHORE_JOB_RUN_DIR>"
_WMS: Final = re.compile(r"<WMS:[^<>]*>")
"""What BPS leaves to the workload manager."""


def import_workflow(
    generic: GenericWorkflow,
    settings_of: SettingsCompiler,
    folder: Path,
    ordering_dimensions: Mapping[str, tuple[str, ...]],
) -> Workflow:
    """Make a workflow of a generic workflow.

    `folder` is the submit directory, to which files are relative. `ordering_dimensions` are those of each ordering.

    Raises
    ------
    PreparationError
        A job has no command, or the final job is a workflow.
    """
    importer = _Importer(settings_of, folder)
    orderings = OrderingCollector(ordering_dimensions)
    nodes: dict[str, tuple[str, ...]] = {}
    jobs: list[Job] = []
    for name in generic:
        node = generic.get_job(name)
        match node.node_type:
            case GenericWorkflowNodeType.PAYLOAD:
                jobs.append(importer.make_job(generic, node))
                nodes[name] = (name,)
            case GenericWorkflowNodeType.GROUP:
                jobs += [importer.make_job(node, node.get_job(each)) for each in node]
                nodes[name] = tuple(node)
                orderings.add_group(node)
            case GenericWorkflowNodeType.NOOP:
                orderings.add_noop(node, list(generic.predecessors(name)), list(generic.successors(name)))
    edges = list(_flat_edges(generic, nodes))
    final = generic.get_final()
    if isinstance(final, GenericWorkflow):
        raise PreparationError("the final job is a workflow, which Longshore cannot run: BPS makes none")
    return Workflow(
        generic.name,
        Dag.by_name(jobs, edges),
        final=importer.make_job(generic, final) if final else None,
        files=importer.files,
        attributes={key: str(value) for key, value in generic.run_attrs.items()},
        orderings=orderings.orderings(),
    )


def _flat_edges(generic: GenericWorkflow, members: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the edges between jobs: the last jobs of a group stand for it as parent, and the first ones as child.

    Empty jobs, and edges between groups of one ordering, are left to orderings.
    """
    groups = {name: generic.get_job(name) for name in members if _is_group(generic.get_job(name))}
    for group in groups.values():
        yield from group.edges()
    firsts = {name: tuple(each for each in group if not group.in_degree(each)) for name, group in groups.items()}
    lasts = {name: tuple(each for each in group if not group.out_degree(each)) for name, group in groups.items()}
    for parent, child in generic.edges():
        if parent not in members or child not in members:
            continue
        if parent in groups and child in groups and groups[parent].label == groups[child].label:
            continue
        before, after = lasts.get(parent, (parent,)), firsts.get(child, (child,))
        yield from ((one, other) for one in before for other in after)


def _is_group(node: object) -> bool:
    return isinstance(node, GenericWorkflowGroup)


class _Importer:
    """Makes jobs, and collects the files that they name."""

    def __init__(self, settings_of: SettingsCompiler, folder: Path) -> None:
        self.files: dict[str, File] = {}
        self._settings_of = settings_of
        self._folder = folder

    def make_job(self, workflow: GenericWorkflow, job: GenericWorkflowJob) -> Job:
        """Make one job."""
        quanta = {str(label): int(count) for label, count in job.quanta_counts.items() if count}
        return Job(
            name=job.name,
            label=job.label,
            command=self._command(job),
            settings=self._settings_of(job),
            tags=_tags(job.tags),
            inputs=self._file_names(workflow.get_job_inputs(job.name, data=True, transfer_only=False)),
            outputs=self._file_names(workflow.get_job_outputs(job.name, data=True, transfer_only=False)),
            tasks=sum(quanta.values()) or 1,
            quanta=None if not quanta else (() if list(quanta) == [job.label] else tuple(quanta.items())),
        )

    def _command(self, job: GenericWorkflowJob) -> str:
        """Return the shell line of a job, with variables and files for the job to fill in."""
        program = job.executable.src_uri if job.executable else None
        if not program:
            raise PreparationError(f"job '{job.name}' has no executable")
        try:
            arguments = (job.arguments or "").format(**(job.cmdvals or {}))
        except (KeyError, IndexError, ValueError) as error:
            raise PreparationError(f"the arguments of job '{job.name}' have no value for {error}") from error
        line = f"{self._program(str(program))} {arguments}".rstrip()
        for text in (line, *map(str, (job.environment or {}).values())):
            if others := set(_WMS.findall(text)) - {ATTEMPT_MARK}:
                raise PreparationError(
                    f"job '{job.name}' uses '{min(others)}', which only another workload manager replaces",
                    hint=WMS_HINT,
                )
        return undelay_env(line)

    def _program(self, program: str) -> str:
        """Return the path of a program; one in the submit directory is found from there, wherever that is mounted."""
        path = Path(program)
        if not path.is_relative_to(self._folder):
            return program
        return f'"{_RUN_FOLDER}"/{shlex.quote(str(path.relative_to(self._folder)))}'

    def _file_names(self, files: Iterable[GenericWorkflowFile]) -> tuple[str, ...]:
        names = []
        for file in files:
            if file.name not in self.files:
                path = Path(file.src_uri or file.name)
                inside = path.is_relative_to(self._folder)
                self.files[file.name] = File(
                    name=file.name,
                    path=str(path.relative_to(self._folder)) if inside else str(file.src_uri or file.name),
                    transfer=bool(file.wms_transfer),
                    shared=bool(file.job_shared),
                )
            names.append(file.name)
        return tuple(names)


def _tags(tags: Mapping[str, Any]) -> DataId:
    return {
        str(key): value if isinstance(value, str | int | float | bool) else str(value) for key, value in tags.items()
    }


def with_environment(settings: JobSettings, environment: Mapping[str, Any]) -> JobSettings:
    """Return settings with the variables of a job of BPS over those of its site."""
    if not environment:
        return settings
    values = {str(key): str(value) for key, value in environment.items()}
    return msgspec.structs.replace(settings, environment={**settings.environment, **values})
