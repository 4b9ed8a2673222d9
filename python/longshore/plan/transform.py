"""Turns clusters of tasks into the generic workflow: each cluster a job, made from the profile of its label."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from longshore.config.interpolate import Field, Template
from longshore.config.profile import JobProfile
from longshore.errors import ConfigError, PreparationError
from longshore.model.cluster import Cluster, ClusteredGraph
from longshore.model.dag import Dag
from longshore.model.job import Job, JobSettings
from longshore.model.request import Request
from longshore.model.task import Command, Task
from longshore.model.workflow import Workflow
from longshore.plan.commands import as_line
from longshore.plan.special import SpecialJobs

PER_JOB = frozenset({"label", "jobName", "jobLabel"})
"""Names whose values every job has of its own, beside the dimensions of its data ID."""


def free_names(clustered: ClusteredGraph) -> dict[str, frozenset[str]]:
    """Names whose values are known per job only, per label of clusters."""
    names: dict[str, set[str]] = {}
    for cluster in clustered.dag.nodes:
        these = names.setdefault(cluster.label, set(PER_JOB))
        these.update(cluster.tags)
        for task in cluster.tasks:
            these.update(task.paths)
    return {label: frozenset(these) for label, these in names.items()}


def transform(
    clustered: ClusteredGraph,
    profiles: Mapping[str, JobProfile],
    *,
    name: str,
    attributes: Mapping[str, str],
    special: SpecialJobs,
) -> Workflow:
    """Make the workflow.

    Parameters
    ----------
    clustered
        The clusters and their order.
    profiles
        Profile per label.
    name
        The run's name.
    attributes
        What is known of the run as a whole.
    special
        The jobs that belong to no task.

    Raises
    ------
    PreparationError
        A task has no command.
    ConfigError
        With the values of some job, a request is not right.
    """
    shared: dict[tuple[str, tuple[object, ...]], JobSettings] = {}
    nodes = clustered.dag.nodes
    directory = clustered.source.directory
    jobs = (_job(cluster, profiles[cluster.label], shared, directory) for cluster in nodes)
    edges = ((nodes[parent].name, nodes[child].name) for parent, child in clustered.dag.edges())
    return Workflow(
        name,
        chain(filter(None, [special.init]), jobs, filter(None, [special.last])),
        chain(edges, _special_edges(clustered.dag, special)),
        final=special.final,
        files=clustered.source.files,
        attributes=attributes,
    )


def _special_edges(dag: Dag[Cluster], special: SpecialJobs) -> Iterator[tuple[str, str]]:
    """The init job before all that wait for nothing, the last one after all that nothing waits for."""
    for position, cluster in enumerate(dag.nodes):
        if special.init and not dag.parents[position]:
            yield special.init.name, cluster.name
        if special.last and not dag.children[position]:
            yield cluster.name, special.last.name


def _job(
    cluster: Cluster,
    profile: JobProfile,
    shared: dict[tuple[str, tuple[object, ...]], JobSettings],
    directory: str,
) -> Job:
    values = {**cluster.tags, "label": cluster.label, "jobName": cluster.name, "jobLabel": cluster.label}
    request = profile.request_of(values)
    return Job(
        name=cluster.name,
        label=cluster.label,
        command=_command(cluster, profile, values, directory),
        settings=_with_request(cluster.label, profile.settings, request, shared),
        tags=cluster.tags,
        inputs=_once(cluster, "inputs"),
        outputs=_once(cluster, "outputs"),
        environment=_environment(cluster, profile, values, directory),
        tasks=len(cluster.tasks),
    )


def _once(cluster: Cluster, side: str) -> tuple[str, ...]:
    """Names of the files on one side of the tasks, each of them once."""
    tasks = cluster.tasks
    if len(tasks) == 1 and len(names := getattr(tasks[0], side)) < 2:
        return tuple(names)
    return tuple(dict.fromkeys(name for task in tasks for name in getattr(task, side)))


def _environment(cluster: Cluster, profile: JobProfile, values: Mapping[str, Any], directory: str) -> dict[str, str]:
    """The variables that are a job's own; files of one kind stand in one variable, parted by blanks."""
    if not profile.environment:
        return {}
    start = profile.settings.working_directory
    paths = {
        name: " ".join(these)
        for task in cluster.tasks
        for name, these in _seen_from(task.paths, directory, start).items()
    }
    return {variable: template.render({**values, **paths}) for variable, template in profile.environment.items()}


def _with_request(
    label: str,
    settings: JobSettings,
    request: Request,
    shared: dict[tuple[str, tuple[object, ...]], JobSettings],
) -> JobSettings:
    """The settings with a job's own request; jobs that ask for the same keep sharing one object."""
    if request is settings.request:
        return settings
    key = (label, request.key())
    if key not in shared:
        shared[key] = msgspec.structs.replace(settings, request=request)
    return shared[key]


def _command(cluster: Cluster, profile: JobProfile, values: Mapping[str, Any], directory: str) -> Command:
    commands = list(_commands(cluster, profile, values, directory))
    # One failing task ends the job: those after it may need what it did not make.
    return commands[0] if len(commands) == 1 else " && ".join(f"{{ {as_line(command)}\n}}" for command in commands)


def _commands(cluster: Cluster, profile: JobProfile, values: Mapping[str, Any], directory: str) -> Iterator[Command]:
    for task in cluster.tasks:
        paths = _seen_from(task.paths, directory, profile.settings.working_directory)
        own: dict[str, Any] = {**values, **task.data_id, **paths, "label": task.label}
        template = profile.command
        if template is None:
            if task.command is None:
                raise _no_command(task)
            yield task.command
        elif isinstance(template, tuple):
            yield tuple(chain.from_iterable(_words(word, own) for word in template))
        else:
            # Only what the line uses is made fit for it: of a hundred thousand jobs, quoting takes most of the time.
            used = {name: own[name] for name in template.names if name in own}
            yield template.render(_for_shell(used), quote=_quote)


def _seen_from(
    paths: Mapping[str, tuple[str, ...]], directory: str, start: str | None
) -> Mapping[str, tuple[str, ...]]:
    """Paths as a command names them that starts in another directory than the one they are seen from."""
    if not directory or start == directory:
        return paths
    return {name: tuple(posixpath.join(directory, path) for path in these) for name, these in paths.items()}


def _words(word: Template, values: Mapping[str, Any]) -> Sequence[str]:
    """A word of a command: one, unless it stands for several files."""
    name = word.parts[0].name if len(word.parts) == 1 and isinstance(word.parts[0], Field) else None
    if name is not None and isinstance(values.get(name), tuple):
        return tuple(values[name])
    many = next(
        (name for name in sorted(word.names) if isinstance(values[name], tuple) and len(values[name]) != 1), None
    )
    if many is not None:
        raise ConfigError(
            f"'{{{many}}}' stands for {len(values[many])} files here, and so must be a word of its own",
            origin=word.origin,
        )
    alone = {name: value[0] if isinstance(value, tuple) else value for name, value in values.items() if value != ()}
    return (word.render(alone),)


class _Quoted(str):
    """Text that already is as a shell must see it."""

    __slots__ = ()

    def __str__(self) -> str:
        # Not a plain copy, which would be quoted once more.
        return self


def _for_shell(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line for the shell: several files are several words."""
    return {
        name: _Quoted(" ".join(map(shlex.quote, value))) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def _quote(text: str) -> str:
    # What a value is written as, its format applied, is data whatever signs it has in it: the shell must see one word.
    return text if isinstance(text, _Quoted) else shlex.quote(text)


def _no_command(task: Task) -> PreparationError:
    return PreparationError(
        f"task '{task.name}' has no command",
        hint=f"Give one to all its kind: pipetask: {{{task.label}: {{runQuantumCommand: ...}}}}.",
    )
