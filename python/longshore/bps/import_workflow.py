"""Makes a workflow of BPS's generic workflow: jobs, edges, orderings of groups and empty jobs, files, the final job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from lsst.ctrl.bps import (
    GenericWorkflow,
    GenericWorkflowFile,
    GenericWorkflowGroup,
    GenericWorkflowJob,
    GenericWorkflowNodeType,
    GenericWorkflowNoopJob,
)

from longshore.config.templates import ATTEMPT_MARK, WMS_HINT, undelay_env
from longshore.contract.service import RUN_FOLDER
from longshore.errors import PreparationError
from longshore.model.tasks import Dag, DataId, File
from longshore.model.workflow import Implementation, Job, JobGroup, JobSettings, Ordering, Workflow

# Orderings of the group nodes and empty jobs.


class OrderingCollector:
    """Collects group nodes and empty jobs in topological order.

    Parameters
    ----------
    dimensions
        Dimensions of each ordering, for the titles of its groups.
    """

    def __init__(self, dimensions: Mapping[str, tuple[str, ...]]) -> None:
        self._dimensions = dimensions
        self._groups: dict[str, list[JobGroup]] = {}
        self._blocking: dict[str, bool] = {}
        self._noops: dict[str, list[tuple[tuple[str, ...], Sequence[str], Sequence[str]]]] = {}

    def add_group(self, group: GenericWorkflowGroup) -> None:
        """Add a group of jobs."""
        key = self._key(group.name.removeprefix(f"group_{group.label}_"), group.label)
        self._groups.setdefault(group.label, []).append(JobGroup(key=key, jobs=tuple(group)))
        self._blocking[group.label] = bool(group.blocking)

    def add_noop(self, node: GenericWorkflowNoopJob, before: Sequence[str], after: Sequence[str]) -> None:
        """Add an empty job between the jobs before and after it."""
        key = self._key(node.name.removeprefix(f"noop_{node.label}_"), node.label)
        self._noops.setdefault(node.label, []).append((key, before, after))

    def orderings(self) -> tuple[Ordering, ...]:
        """Return an ordering per label."""
        grouped = [
            self._ordering(label, Implementation.GROUP, groups, blocking=self._blocking[label])
            for label, groups in self._groups.items()
        ]
        separated = [
            self._ordering(label, Implementation.NOOP, _groups_between(noops)) for label, noops in self._noops.items()
        ]
        return (*grouped, *separated)

    def _key(self, values: str, label: str) -> tuple[str, ...]:
        """Return the values of the ordering's dimensions in the name of a node."""
        parts = tuple(values.split("=="))
        return parts if len(parts) == len(self._dimensions.get(label, ())) else (values,)

    def _ordering(
        self, label: str, implementation: Implementation, groups: Sequence[JobGroup], *, blocking: bool = False
    ) -> Ordering:
        known = self._dimensions.get(label, ())
        dimensions = known if groups and len(groups[0].key) == len(known) else ("group",)
        return Ordering(
            name=label, dimensions=dimensions, implementation=implementation, blocking=blocking, groups=tuple(groups)
        )


def _groups_between(noops: Sequence[tuple[tuple[str, ...], Sequence[str], Sequence[str]]]) -> list[JobGroup]:
    """Return the groups that empty jobs separate: each has the jobs after one of them and before the next.

    Jobs in the midst of a group have no edge to an empty job, and need none.
    """
    groups = []
    waiting: Sequence[str] = ()
    for key, before, after in noops:
        groups.append(JobGroup(key=key, jobs=tuple(dict.fromkeys([*waiting, *before]))))
        waiting = after
    if noops:
        last = ("",) * len(noops[0][0])
        groups.append(JobGroup(key=last, jobs=tuple(waiting)))
    return groups


SettingsCompiler: TypeAlias = Callable[[GenericWorkflowJob], JobSettings]
"""Makes the settings of a job from its attributes."""
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
        return f'"{RUN_FOLDER}"/{shlex.quote(str(path.relative_to(self._folder)))}'

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
