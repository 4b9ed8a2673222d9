"""Makes jobs of clusters, by the profiles of their labels; the init and final job and groups of orderings join."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec

from longshore.config.combine import ClusterProfile, combine_profiles
from longshore.config.profile import JobProfile
from longshore.config.search import INIT_LABEL
from longshore.config.select import OrderingRule
from longshore.config.templates import Field, Template, protect_text, split_fields
from longshore.contract.algorithms import Start
from longshore.contract.service import RUN_FOLDER, Problem
from longshore.errors import ConfigError, CycleError, ErrorCollector, PreparationError
from longshore.graphs.declarations import PER_JOB
from longshore.jobs.commands import count_placeholders, quote_literal, quote_template, render_line
from longshore.jobs.scripts import join_commands
from longshore.jobs.stage_table import ScratchLayout
from longshore.model.report import FINAL_LABEL
from longshore.model.tasks import (
    Cluster,
    ClusteredGraph,
    ClusterMember,
    Command,
    Composition,
    Dag,
    DataId,
    Scalar,
    Task,
    TaskGraph,
    is_remote,
)
from longshore.model.values import value_order
from longshore.model.wording import did_you_mean
from longshore.model.workflow import MIB, Job, JobGroup, JobSettings, Ordering, OutputCheck, Workflow

# Groups the jobs of ordering rules; the groups of a rule run one after another.


_Key: TypeAlias = tuple[Scalar, ...]
_SortKey: TypeAlias = list[tuple[int, float, str]]


def unknown_label_notes(rules: Iterable[OrderingRule], labels: Iterable[str]) -> Iterator[Problem]:
    """Note per rule that names labels without jobs."""
    known = set(labels)
    for rule in rules:
        if missing := [label for label in rule.labels if label not in known]:
            words = ", ".join(f"'{label}'" for label in missing)
            nothing = "; it orders nothing" if len(missing) == len(rule.labels) else ""
            yield Problem(
                message=f"'ordering.{rule.name}.labels' names {words}, but no job has such a label{nothing}",
                origin=rule.origin,
                hint=did_you_mean(missing[0], known),
                fatal=False,
            )


def make_orderings(rules: Sequence[OrderingRule], dag: Dag[Cluster]) -> tuple[Ordering, ...]:
    """Groups of jobs per rule, in the order in which they run.

    Raises `ConfigError` if a label is in two rules, and `PreparationError` if a job lacks a dimension of its rule.
    """
    grouping = _Grouping(_rule_of(rules), dag)
    found = grouping.found()
    return tuple(_make_ordering(rule, found[rule.name], dag.nodes) for rule in rules if rule.name in found)


def _rule_of(rules: Iterable[OrderingRule]) -> dict[str, OrderingRule]:
    rule_of: dict[str, OrderingRule] = {}
    for rule in rules:
        for label in rule.labels:
            if (other := rule_of.setdefault(label, rule)) is not rule:
                raise ConfigError(
                    f"the label '{label}' is in the orders '{other.name}' and '{rule.name}'",
                    origin=rule.origin,
                    hint=f"A job is in one order; '{other.name}' is written at {other.origin}.",
                )
    return rule_of


class _Grouping:
    """Assigns each job to a group of its rule."""

    def __init__(self, rule_of: Mapping[str, OrderingRule], dag: Dag[Cluster]) -> None:
        self._dag = dag
        self._rules = [rule_of.get(cluster.label) for cluster in dag.nodes]
        self._keys: list[_Key | None] = [None] * len(dag)
        self._alike: dict[str, Scalar] = {}

    def found(self) -> dict[str, dict[_Key, list[int]]]:
        """Numbers of the jobs of each group, per rule."""
        order, dag = self._dag.order, self._dag
        for number in order:
            rule = self._rules[number]
            if rule is not None and rule.start is not Start.SINK:
                if rule.start:
                    self._set_key(number, self._group_key(number, rule, dag.parents, max))
                else:
                    self._set_key(number, _own_key(dag, number, rule))
        for number in reversed(order):
            rule = self._rules[number]
            if rule is not None and rule.start is Start.SINK:
                self._set_key(number, self._group_key(number, rule, dag.children, min))
        found: dict[str, dict[_Key, list[int]]] = {}
        for number, (rule, key) in enumerate(zip(self._rules, self._keys, strict=True)):
            if rule is not None and key is not None:
                found.setdefault(rule.name, {}).setdefault(key, []).append(number)
        return found

    def _set_key(self, number: int, key: _Key) -> None:
        """Assign a job to a group; values of two labels are equal by their texts."""
        self._keys[number] = tuple([self._alike.setdefault(str(value), value) for value in key])

    def _group_key(
        self, number: int, rule: OrderingRule, near: Sequence[Sequence[int]], choose: Callable[..., _Key]
    ) -> _Key:
        """Key of a job's group: that of its neighbours under the same rule, else its own values."""
        keys = [key for each in near[number] if self._rules[each] is rule and (key := self._keys[each]) is not None]
        # Of several the one that keeps it behind all it waits for, or before all that wait for it.
        return choose(keys, key=_sort_key) if keys else _own_key(self._dag, number, rule)


def _own_key(dag: Dag[Cluster], number: int, rule: OrderingRule) -> _Key:
    """Key of a job's group by its own values."""
    cluster = dag.nodes[number]
    try:
        return tuple([cluster.tags[name] for name in rule.dimensions])
    except KeyError:
        return _equal_key(cluster, rule)


def _equal_key(cluster: Cluster, rule: OrderingRule) -> _Key:
    """Values of a job that lacks a dimension, by equal dimensions and those of its task."""
    values: DataId = cluster.tags
    if len(cluster.tasks) == 1:
        task = cluster.tasks[0]
        values = {**task.implied, **task.data_id, **values}
    key: list[Scalar] = []
    missing: list[str] = []
    for name in rule.dimensions:
        there = next((each for each in (name, *rule.equal.get(name, ())) if each in values), None)
        if there is None:
            missing.append(name)
        else:
            key.append(values[there])
    if missing:
        raise _missing_dimension_error(cluster, rule, missing, values)
    return tuple(key)


def _missing_dimension_error(
    cluster: Cluster, rule: OrderingRule, missing: Sequence[str], values: DataId
) -> PreparationError:
    words = ", ".join(f"'{name}'" for name in missing)
    has = ", ".join(f"{name}: {value}" for name, value in values.items()) or "no dimension at all"
    return PreparationError(
        f"the job '{cluster.name}' of '{cluster.label}' ({has}) lacks {words}, which the order '{rule.name}' needs",
        origin=rule.origin,
        hint="Take the label or the dimension out, name another that stands for it by 'equalDimensions', or let "
        "'findDependencyMethod' put the job where those are that it hangs on.",
    )


def _sort_key(key: _Key) -> _SortKey:
    """Sort key of a group: numbers first, in numeric order."""
    return list(map(value_order, key))


def _make_ordering(rule: OrderingRule, found: Mapping[_Key, list[int]], clusters: Sequence[Cluster]) -> Ordering:
    ordered = sorted(((_sort_key(key), key) for key in found), key=itemgetter(0))
    return Ordering(
        name=rule.name,
        dimensions=rule.dimensions,
        implementation=rule.implementation,
        blocking=rule.blocking,
        groups=tuple(
            JobGroup(key=key, jobs=tuple(clusters[number].name for number in found[key])) for _, key in ordered
        ),
    )


def barrier_names(orderings: Iterable[Ordering]) -> dict[str, str]:
    """Name of the ordering per name of a barrier."""
    return {ordering.node_name(group): ordering.name for ordering in orderings for group in ordering.groups}


def explain_ring(error: CycleError, rules: Iterable[OrderingRule], nodes: Mapping[str, str]) -> CycleError:
    """Error for a cycle with barriers in it, with the rules at fault and a way out; `nodes` maps barriers to rules."""
    names = dict.fromkeys(nodes[name] for name in error.ring if name in nodes)
    involved = [rule for rule in rules if rule.name in names]
    if not involved:
        return error
    words = ", ".join(f"'{rule.name}'" for rule in involved)
    return CycleError(
        error.ring,
        origin=involved[0].origin,
        hint=f"The jobs themselves allow no such order as {words} wants: one of an earlier group needs one of a later "
        "group. Leave a label or a dimension out, or use 'findDependencyMethod'.",
    )


# Lowers default requests to the capacity of a service.


_FIELDS: Final = {
    "requestCpus": ("cpus", "cpus"),
    "requestMemory": ("memory", "memory_b"),
    "requestDisk": ("disk", "disk_b"),
}
"""Resource name and field of the request, per configuration key."""


def lower_to_capacity(settings: JobSettings, capacity: Mapping[str, int]) -> tuple[JobSettings, list[str]]:
    """Lower the requests that come from defaults to the largest amounts that one job can have.

    Returns the settings, and a note per lowered request. A user's own request never changes: if it cannot be granted,
    the service's check reports an error.
    """
    notes = []
    lower: dict[str, int] = {}
    for key in settings.defaulted:
        resource, name = _FIELDS.get(key, ("", ""))
        asked = getattr(settings.request, name, None)
        there = capacity.get(resource)
        if asked is not None and there is not None and asked > there:
            lower[name] = there
            notes.append(
                f"'{key}' is {_with_unit(key, asked)} by default; lowered to the available {_with_unit(key, there)}"
            )
    if lower:
        settings = msgspec.structs.replace(settings, request=msgspec.structs.replace(settings.request, **lower))
    return settings, notes


def _with_unit(key: str, amount: int) -> str:
    return str(amount) if key == "requestCpus" else f"{amount // MIB} MiB"


# The init job and the final job.


FINAL_SCRIPT: Final = "final_job.bash"
"""Path of the final job's script, relative to the run directory."""


class SpecialJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a workflow without tasks, each optional."""

    init: Job | None = None
    """Job before all others."""
    last: Job | None = None
    """Job after all others, if they succeed."""
    final: Job | None = None
    """Job after all others, whether or not they succeed."""


def init_job(profile: JobProfile, inputs: tuple[str, ...] = ()) -> Job:
    """Job that runs before all others; its command is ``pipetask.pipetaskInit.runQuantumCommand``.

    Raises `PreparationError` if it has no command.
    """
    values = {"label": INIT_LABEL, "jobName": INIT_LABEL, "jobLabel": INIT_LABEL}
    template = profile.command
    if template is None:
        raise PreparationError(
            "'runInit' asks for an init job, which has no command",
            hint=f"Give it one: pipetask: {{{INIT_LABEL}: {{runQuantumCommand: ...}}}}; or say 'runInit: false'.",
        )
    if isinstance(template, tuple):
        return _make_job(INIT_LABEL, profile, tuple(word.render(values) for word in template), inputs)
    return _make_job(INIT_LABEL, profile, template.render(values), inputs)


def final_job(profile: JobProfile, arguments: Sequence[tuple[str, str]] = (), inputs: tuple[str, ...] = ()) -> Job:
    """Job that runs the final script, with the values of `arguments` in their order."""
    script = f"{RUN_FOLDER}/{FINAL_SCRIPT}"
    return _make_job(FINAL_LABEL, profile, ("/bin/bash", script, *(value for _, value in arguments)), inputs)


def final_script(commands: Sequence[str], arguments: Sequence[str] = ()) -> str:
    """Script of the final job: as in BPS it prints each line before it runs, and stops at the first failure."""
    named = [f"{name}=${number}" for number, name in enumerate(arguments, 1)]
    return "\n".join(["#!/bin/bash", "", "set -e", "set -x", *named, *commands]) + "\n"


def _make_job(name: str, profile: JobProfile, command: str | tuple[str, ...], inputs: tuple[str, ...] = ()) -> Job:
    values = {"label": name, "jobName": name, "jobLabel": name}
    return Job(
        name=name,
        label=name,
        command=command,
        settings=profile.settings,
        quanta=None,
        inputs=inputs,
        environment={
            variable: template.render(values, quote=protect_text) for variable, template in profile.environment.items()
        },
    )


# Makes the workflow from clusters: each cluster becomes a job, by the profiles of its labels.


SharedSettings: TypeAlias = dict[tuple[object, ...], JobSettings]
_Values: TypeAlias = dict[str, Any]

NODE_ID = "qgraphNodeId"
"""Name, in a command, of the ids of a job's tasks in their source, sorted and joined by commas (BPS)."""
MAX_NODE_IDS = 2000
"""Maximum ids in one command: Linux limits an argument to 128 KiB."""


def free_names(clustered: ClusteredGraph) -> dict[ClusterMember, frozenset[str]]:
    """Names with a value per task, for each label of tasks in each kind of cluster."""
    columns: dict[str, list[str]] = {}
    for column in clustered.source.columns:
        columns.setdefault(column.partition(".")[0], []).append(column)
    # Plain tuples, and no update that adds nothing: this is done for every task there is.
    names: dict[tuple[str, str, str], set[str]] = {}
    for cluster in clustered.dag.nodes:
        tags, section = cluster.tags, cluster.section or cluster.label
        for task in cluster.tasks:
            key = (cluster.label, section, task.label)
            these = names.get(key)
            if these is None:
                these = names[key] = set(PER_JOB)
            these.update(tags)
            if task.data_id is not tags:
                these.update(task.data_id)
            if task.paths:
                these.update(task.paths)
            if task.node_id:
                these.add(NODE_ID)
    return {
        ClusterMember(*key): frozenset(these).union(*(columns[each] for each in columns if each in these))
        for key, these in names.items()
    }


def compile_profiles(
    clustered: ClusteredGraph, compiled: Callable[[ClusterMember, frozenset[str]], JobProfile]
) -> dict[Composition, ClusterProfile]:
    """Profile per composition of clusters; the cost grows with the compositions, not with the clusters.

    `compiled` compiles the profile of a label, given the names that stay free.

    Raises `ConfigError` if a value is invalid, with one error per label, or if the labels of a cluster have different
    values.
    """
    errors = ErrorCollector()
    members: dict[ClusterMember, JobProfile] = {}
    for member, free in free_names(clustered).items():
        with errors.collect():
            members[member] = compiled(member, free)
    errors.raise_errors()
    kinds = dict.fromkeys(clustered.compositions)
    return {
        kind: combine_profiles(
            kind.section, kind.label, kind.tasks, {member.label: members[member] for member in kind.members()}
        )
        for kind in kinds
    }


def transform(
    clustered: ClusteredGraph,
    profiles: Mapping[Composition, ClusterProfile],
    *,
    name: str,
    attributes: Mapping[str, str],
    special: SpecialJobs,
    orderings: Sequence[OrderingRule] = (),
    log_folders: str = "",
) -> Workflow:
    """Make the workflow.

    Raises `PreparationError` if a task has no command or (as `CycleError`) an ordering contradicts the graph, and
    `ConfigError` if a job's request is invalid or its tasks have different values.
    """
    shared: SharedSettings = {}
    nodes = clustered.dag.nodes
    source = clustered.source
    kinds = clustered.compositions
    jobs = (make_job(cluster, kind, profiles[kind], shared, source) for cluster, kind in zip(nodes, kinds, strict=True))
    ordered = make_orderings(orderings, clustered.dag) if orderings else ()
    try:
        return Workflow(
            name,
            _graph(clustered.dag, jobs, special),
            final=special.final,
            files=clustered.source.files,
            attributes=attributes,
            orderings=ordered,
            log_folders=log_folders,
        )
    except CycleError as error:
        raise explain_ring(error, orderings, barrier_names(ordered)) from None


def _graph(clusters: Dag[Cluster], jobs: Iterable[Job], special: SpecialJobs) -> Dag[Job]:
    """Graph of jobs: the init job before all roots, the last job after all leaves."""
    if special.init is None and special.last is None:
        return clusters.alike(jobs)
    first = 0 if special.init is None else 1
    numbers = list(range(first, first + len(clusters)))
    parents = [[numbers[parent] for parent in these] for these in clusters.parents]
    if special.init is not None:
        parents = [[], *(these or [0] for these in parents)]
    if special.last is not None:
        waited_for = frozenset(clusters.parents.neighbours)
        parents.append([number for cluster, number in enumerate(numbers) if cluster not in waited_for])
    return Dag(chain(filter(None, [special.init]), jobs, filter(None, [special.last])), parents=parents)


def make_job(
    cluster: Cluster, kind: Composition, profile: ClusterProfile, shared: SharedSettings, source: TaskGraph
) -> Job:
    """Job of a cluster; `shared` holds the settings that jobs share, `source` is the graph of the tasks."""
    values = [_task_values(cluster, task) for task in cluster.tasks]
    if source.columns:
        _add_columns(values, source.columns)
    directory = source.directory
    settings = profile.settings
    if profile.has_varying_settings:
        settings = _share_settings(settings, profile.settings_of(_values_by_label(cluster, values)), shared)
    if settings.rules.check_outputs is not OutputCheck.NONE and _replaces_command(cluster, profile):
        settings = _without_output_check(settings, shared)
    return Job(
        name=cluster.name,
        label=cluster.label,
        command=_command(cluster, profile, values, directory),
        settings=settings,
        tags=cluster.tags,
        inputs=_file_names(cluster, "inputs"),
        outputs=_file_names(cluster, "outputs"),
        environment=_environment(cluster, profile, values, directory) if profile.varying_variables else {},
        tasks=len(values),
        quanta=kind.tasks if len(values) > 1 or cluster.tasks[0].label != cluster.label else (),
        success_files=tuple(_success_files(cluster, settings, values, directory)) if settings.rules.success_if else (),
    )


def _success_files(cluster: Cluster, settings: JobSettings, values: Sequence[_Values], directory: str) -> Iterator[str]:
    """Paths for ``successIf.file`` where that names datasets: one per file of each task that has these."""
    success_if = settings.rules.success_if
    if success_if is None or success_if.file is None:
        return
    template = Template(split_fields(success_if.file))
    for task, own in zip(cluster.tasks, values, strict=True):
        datasets = sorted(template.names & task.paths.keys())
        if datasets and template.names <= {*own, *datasets}:
            paths = _rebase_paths(task.paths, directory, settings.working_directory)
            for these in product(*(paths[dataset] for dataset in datasets)):
                yield template.render({**own, **dict(zip(datasets, these, strict=True))})


def _replaces_command(cluster: Cluster, profile: ClusterProfile) -> bool:
    """Whether the configuration replaces the command of a task, such as a replay: its outputs are of that command."""
    if len(cluster.tasks) == 1 and cluster.tasks[0].command is None:
        # As nearly all.
        return False
    return any(task.command is not None and profile.parts[task.label].command is not None for task in cluster.tasks)


def _values_by_label(cluster: Cluster, values: Sequence[_Values]) -> list[tuple[str, _Values]]:
    return [(task.label, own) for task, own in zip(cluster.tasks, values, strict=True)]


def _task_values(cluster: Cluster, task: Task) -> _Values:
    """Values of a task's free names, without paths."""
    own = cluster.tags if task.data_id is cluster.tags else {**cluster.tags, **task.data_id}
    values = {**own, "label": task.label, "jobName": cluster.name, "jobLabel": cluster.label}
    if task.node_id:
        values[NODE_ID] = task.node_id
    return values


def _add_columns(values: Sequence[_Values], columns: Mapping[str, Mapping[Scalar, Scalar]]) -> None:
    """Add the cells of the tables that brought the dimensions of tasks."""
    for name, cells in columns.items():
        dimension = name.partition(".")[0]
        for own in values:
            if own.get(dimension) in cells:
                own[name] = cells[own[dimension]]


def _file_names(cluster: Cluster, side: str) -> tuple[str, ...]:
    """Distinct names of the files on one side of the tasks."""
    tasks = cluster.tasks
    if len(tasks) == 1 and len(names := getattr(tasks[0], side)) < 2:
        return tuple(names)
    return tuple(dict.fromkeys(name for task in tasks for name in getattr(task, side)))


def _environment(
    cluster: Cluster, profile: ClusterProfile, values: Sequence[_Values], directory: str
) -> dict[str, str]:
    """Variables with a value per job; the paths of a dataset are joined by blanks."""
    seen = []
    for task, (label, own) in zip(cluster.tasks, _values_by_label(cluster, values), strict=True):
        paths = _paths_of(task, directory, profile.settings)
        seen.append((label, {**own, **{name: " ".join(these) for name, these in paths.items()}}))
    return profile.environment_of(seen)


def _share_settings(usual: JobSettings, own: JobSettings, shared: SharedSettings) -> JobSettings:
    """Settings of a job; jobs with equal settings share one object."""
    # The rest is that of the usual settings, which stay alive as long as the profile.
    key = (
        id(usual),
        own.request.key(),
        own.number_of_retries,
        own.attributes.get("memoryMultiplier"),
        repr(own.service_settings) if own.service_settings else "",
    )
    return shared.setdefault(key, own)


def _without_output_check(settings: JobSettings, shared: SharedSettings) -> JobSettings:
    """Settings without the check of outputs; jobs with equal settings share one object."""
    key = (id(settings), OutputCheck.NONE)
    if key not in shared:
        rules = msgspec.structs.replace(settings.rules, check_outputs=OutputCheck.NONE)
        shared[key] = msgspec.structs.replace(settings, rules=rules)
    return shared[key]


def _command(cluster: Cluster, profile: ClusterProfile, values: Sequence[_Values], directory: str) -> Command:
    tasks = cluster.tasks
    if len(tasks) == 1:
        return _command_of(tasks[0], profile, values[0], directory)
    steps = [
        (_command_of(task, profile, own, directory), many)
        for task, own, many in _merge_tasks(tasks, values, profile, directory)
    ]
    # One failing task ends the job: those after it may need what it did not make.
    return join_commands(steps) if steps[1:] else steps[0][0]


def _merge_tasks(
    tasks: Sequence[Task], values: Sequence[_Values], profile: ClusterProfile, directory: str
) -> Iterator[tuple[Task, _Values, int]]:
    """Tasks with their values; adjacent tasks whose commands differ only in the id are merged.

    A command that takes ids takes many (BPS passes all of a job's), and starts LSST's packages once for all of them.
    """
    same: list[tuple[Task, _Values]] = []
    command: Command = ()
    for task, own in zip(tasks, values, strict=True):
        if not _takes_ids(profile.parts[task.label]):
            yield from _merge_ids(same)
            same = []
            yield task, own, 1
            continue
        but_for_id = _command_of(task, profile, {**own, NODE_ID: ""}, directory)
        if but_for_id != command or len(same) == MAX_NODE_IDS:
            yield from _merge_ids(same)
            same, command = [], but_for_id
        same.append((task, own))
    yield from _merge_ids(same)


def _takes_ids(profile: JobProfile) -> bool:
    template = profile.command
    words = template if isinstance(template, tuple) else () if template is None else (template,)
    return any(NODE_ID in word.names for word in words)


def _merge_ids(same: Sequence[tuple[Task, _Values]]) -> Iterator[tuple[Task, _Values, int]]:
    if same:
        task, own = same[0]
        yield task, {**own, NODE_ID: ",".join(sorted(each[NODE_ID] for _, each in same))}, len(same)


def _command_of(task: Task, profile: ClusterProfile, values: _Values, directory: str) -> Command:
    template = profile.parts[task.label].command
    if template is None:
        if task.command is None:
            raise _no_command_error(task)
        return task.command
    own = values
    if task.paths:
        own = {
            **values,
            **_paths_of(task, directory, profile.settings),
            "label": task.label,
        }
    if isinstance(template, tuple):
        words = tuple(chain.from_iterable(_words(word, own) for word in template))
        return _exact_line(template, own) if _adds_placeholders(template, words) else words
    return render_line(template, own)


def _paths_of(task: Task, directory: str, settings: JobSettings) -> Mapping[str, tuple[str, ...]]:
    """Paths as the command of a job names them, which may start in a scratch directory."""
    if settings.rules.staging is None:
        return _rebase_paths(task.paths, directory, settings.working_directory)
    layout = ScratchLayout.of(settings, "")
    return {
        name: tuple(layout.place(path if is_remote(path) else posixpath.join(directory, path)) for path in these)
        for name, these in task.paths.items()
    }


def _rebase_paths(
    paths: Mapping[str, tuple[str, ...]], directory: str, start: str | None
) -> Mapping[str, tuple[str, ...]]:
    """Paths as a command in directory `start` names them."""
    if not directory or start == directory:
        return paths
    return {
        name: tuple(path if is_remote(path) else posixpath.join(directory, path) for path in these)
        for name, these in paths.items()
    }


def _words(word: Template, values: Mapping[str, Any]) -> Sequence[str]:
    """Words of a command for one template: one, unless it stands for several files."""
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


def _adds_placeholders(template: Sequence[Template], words: Sequence[str]) -> bool:
    """Whether values add placeholders, by themselves or with the text beside them."""
    found = sum(map(count_placeholders, words))
    return bool(found) and found > sum(
        count_placeholders(part) for word in template for part in word.parts if isinstance(part, str)
    )


def _exact_line(template: Sequence[Template], values: Mapping[str, Any]) -> str:
    """Words as a line for the shell, in which values are literal and placeholders are substituted later."""
    line = []
    for word in template:
        pieces = (
            quote_template(part)
            if isinstance(part, str)
            else " ".join(map(quote_literal, _words(Template((part,), word.origin), values)))
            for part in word.parts
        )
        line.append("".join(pieces) or "''")
    return f"exec {' '.join(line)}"


def _no_command_error(task: Task) -> PreparationError:
    return PreparationError(
        f"task '{task.name}' has no command",
        hint=f"Give one to all its kind: pipetask: {{{task.label}: {{runQuantumCommand: ...}}}}.",
    )
