"""Stage `transform`: the complete plan of a run directory, with its log folders and the graphs that are to be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from longshore.config.final_job import WhenRun, ignored_setup_notes, read_final_commands, read_when_run
from longshore.config.merge import PACKAGED_LAYERS, Node
from longshore.config.profile import JobProfile
from longshore.config.search import INIT_LABEL, SPECIAL_LABELS, Config
from longshore.config.select import parse_ordering_rules
from longshore.config.templates import ATTEMPT_MARK, ATTEMPT_NAME
from longshore.contract.executor import ExecutorOwner
from longshore.errors import ConfigError, PreparationError
from longshore.graphs.graph_file import AcquiredPayload
from longshore.graphs.quantum_graph import RUN_GRAPH
from longshore.jobs.commands import attempt_log_path
from longshore.model.report import FINAL_LABEL
from longshore.model.submission import ReusedJobs
from longshore.model.tasks import ClusteredGraph, collection_paused
from longshore.model.workflow import Job, Workflow
from longshore.model.workflow_lines import clustered_lines, workflow_lines
from longshore.plan.checks import (
    JobProgram,
    check_commands,
    check_jobs,
    note_unknown_quotations,
    note_unmatched_labels,
)
from longshore.plan.clustering import ClusteredRun, dimension_template
from longshore.plan.configuration import Configuration, ResolvedConfiguration, run_attributes
from longshore.plan.drawings import cluster_dot, workflow_dot
from longshore.plan.jobs import (
    FINAL_SCRIPT,
    SpecialJobs,
    final_job,
    final_script,
    init_job,
    transform,
    unknown_label_notes,
)
from longshore.plan.problems import raise_problems
from longshore.plan.profiles import ProfileCompiler
from longshore.plan.resolved_run import ResolvedRun
from longshore.progress import Progress
from longshore.rundir.output_claims import RunOutputs
from longshore.rundir.run_directory import add_to_run_folder
from longshore.system.atomic import create_file
from longshore.system.room import apply_umask

# Saves intermediate graphs as text in the run directory, as ``saveClusteredQgraph`` and similar keys request.


_CLUSTERED: Final = "bps_clustered_qgraph"
_WORKFLOW: Final = "bps_generic_workflow"

SavedGraphs: TypeAlias = dict[str, Callable[[], Iterator[bytes]]]
"""Producer of lines per file name; lines are generated when written."""


def graphs_to_save(
    configuration: Configuration, clustered: ClusteredGraph, workflow: Workflow | None = None
) -> SavedGraphs:
    """Return the requested files of ``saveClusteredQgraph``, ``saveGenericWorkflow`` and ``saveDot``, if available."""
    files: SavedGraphs = {}
    draws = configuration.flag("saveDot")
    if configuration.flag("saveClusteredQgraph"):
        files[f"{_CLUSTERED}.jsonl"] = lambda: clustered_lines(clustered)
    if draws:
        files[f"{_CLUSTERED}.dot"] = lambda: cluster_dot(clustered)
    if workflow is None:
        return files
    if configuration.flag("saveGenericWorkflow"):
        files[f"{_WORKFLOW}.jsonl"] = lambda: workflow_lines(workflow)
    if draws:
        files[f"{_WORKFLOW}.dot"] = lambda: workflow_dot(workflow)
    return files


def write_saved(folder: Path, files: SavedGraphs) -> None:
    """Write the files into an existing folder."""
    for name, lines in files.items():
        create_file(folder / name, lines(), below=folder, durable=True)


def write_graphs_only(run: ResolvedRun, files: SavedGraphs, *, exists: bool) -> bool:
    """Write the files for a command that writes nothing else; return whether there are any.

    `exists` says that the run directory exists because it holds a quantum graph. Raises `FilesError` if they cannot be
    written; all of them are removed then.
    """
    if not files:
        return False
    with (
        apply_umask(run.configuration.resolved_site.umask),
        add_to_run_folder(run.paths.root, tuple(files), exists=exists),
    ):
        write_saved(run.paths.root, files)
    return True


# Log folders: the user's template for the folders of job logs.


KEY = "subDirTemplate"
_OWN = frozenset({"jobName", "jobLabel"})


def log_folders(run: ResolvedRun, clustered: ClusteredGraph, progress: Progress) -> str:
    """Return the user's template for log folders; empty for the default folders.

    A note tells if the workload manager names logs itself. Raises `ConfigError` if the template is no text or does
    not suit the values of some job.
    """
    origin = run.configuration.origin(KEY)
    if origin is None or origin.layer in PACKAGED_LAYERS:
        return ""
    clusters = clustered.dag.nodes
    dimensions = frozenset(name for names in {tuple(cluster.tags) for cluster in clusters} for name in names)
    template = dimension_template(run.configuration, KEY, dimensions | _OWN)
    if template and not isinstance(run.service, ExecutorOwner):
        # What a service says of its keys itself was told.
        if KEY not in run.service.traits.unused_keys:
            progress.note(f"'{KEY}' has no effect: the service '{run.service.name}' names logs itself")
        return ""
    try:
        for cluster in {(cluster.label, *cluster.tags): cluster for cluster in clusters}.values():
            attempt_log_path(template, 0, cluster.name, cluster.label, 1, tags=cluster.tags)
    except ConfigError as error:
        raise ConfigError(f"'{KEY}': {error.message}", origin=origin, hint=error.hint) from error
    return template


# Stage `transform`: makes jobs of clusters, and the complete plan of the run directory.


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Complete content of a run directory.

    `payload` files are kept with the user's YAML. `directories` are folders to make. `programs` has texts of programs
    for jobs, `copies` files to copy, both per path; `executables` says which of these are executable. `kept_files`
    are already in the run directory. `saved` are the requested intermediate graphs. `hashes_inputs` says that the
    content of input files is recorded, beside their size and time.
    """

    run: ResolvedRun
    workflow: Workflow
    started: Sequence[JobProgram]
    """Programs that its jobs start."""
    payload: tuple[Path, ...] = ()
    directories: Sequence[str] = ()
    programs: Mapping[str, str] = msgspec.field(default_factory=dict)
    copies: Mapping[str, Path] = msgspec.field(default_factory=dict)
    executables: frozenset[str] = frozenset()
    kept_files: tuple[str, ...] = ()
    saved: SavedGraphs = msgspec.field(default_factory=dict)
    hashes_inputs: bool = False
    reused: ReusedJobs | None = None
    """Results of an earlier run that it begins with."""
    links: Mapping[str, Path] = msgspec.field(default_factory=dict)
    """Files to link, per path in the run directory."""
    outputs: RunOutputs | None = None
    """What it writes, once that was compared with other runs."""
    shares_outputs: bool = False
    """Whether another live run may write the same files."""
    has_sources: bool = True
    """Whether it can be planned anew from a configuration; else its jobs came from another program."""


def plan_run(clustered: ClusteredRun, progress: Progress) -> RunPlan:
    """Turn clusters into jobs, and refuse jobs that can never run.

    Raises `ConfigError` if a value is wrong, `PreparationError` if jobs have no command, request too much, or need
    something that is missing.
    """
    run, payload, graph = clustered.run, clustered.payload, clustered.graph
    for note in ignored_setup_notes(run.configuration.config):
        progress.note(note)
    named = replace(run, configuration=run.configuration.with_values(payload.values))
    note_unmatched_labels(named, graph, progress)
    profiles = ProfileCompiler(named)
    # Hundreds of thousands of jobs are made and none is dropped; garbage collection would take half of the time.
    with collection_paused():
        compiled = profiles.cluster_profiles(graph, payload.commands)
        check_commands(graph, compiled, progress)
        note_unknown_quotations(named, compiled, progress)
        special = _special_jobs(named, payload, profiles)
        _refuse_special_names(graph, special, named.configuration.config)
        orderings = parse_ordering_rules(named.configuration.config, named.configuration.scope())
        if orderings:
            raise_problems(unknown_label_notes(orderings, (cluster.label for cluster in graph.dag.nodes)), progress)
        workflow = transform(
            graph,
            compiled,
            name=named.configuration.text("uniqProcName"),
            attributes=run_attributes(named.configuration),
            special=special,
            orderings=orderings,
            log_folders=log_folders(named, graph, progress),
        )
        profiles.report_notes(progress)
        started = check_jobs(
            named,
            workflow,
            progress,
            commands=payload.commands,
            directories=payload.graph.directories,
            has_one_path_per_file=True,
        )
    final = workflow.final or workflow.get(FINAL_LABEL)
    return RunPlan(
        run=run,
        workflow=workflow,
        started=started,
        payload=payload.files,
        directories=payload.graph.directories,
        programs={**payload.graph.programs, **_final_programs(named.configuration, final)},
        kept_files=payload.kept_files,
        saved=graphs_to_save(run.configuration, graph, workflow),
    )


def _refuse_special_names(graph: ClusteredGraph, special: SpecialJobs, config: Config) -> None:
    """Refuse tasks and clusters with the label or name of a job without tasks.

    A pipeline was refused already. The graph of another program may have the name, if the run has no such job.
    """
    there = {INIT_LABEL: special.init, FINAL_LABEL: special.last or special.final}
    labels = {
        label
        for kind in set(graph.compositions)
        for label in (kind.label, *(member.label for member in kind.members()))
    }
    for name, what in SPECIAL_LABELS.items():
        cluster = config.node_at("cluster", name)
        if (name in labels or name in graph.dag.index) and (cluster or there[name]):
            place = cluster or config.node_at("pipetask", name) or config.node_at(name)
            of = "label" if name in labels else "name"
            raise PreparationError(
                f"'{name}' cannot be the {of} of a task or cluster: it is that of {what}",
                origin=place.origin if place else None,
                hint=f"Give it another {of}.",
            )


def single_job_profile(run: ResolvedRun, label: str, *, searchobj: Node, progress: Progress) -> JobProfile:
    """Return the profile of a job that has its own section and no ``runQuantumCommand``."""
    profiles = ProfileCompiler(run)
    profile = profiles.job_profile(label, searchobj=searchobj, with_command=False)
    profiles.report_notes(progress)
    return profile


def _special_jobs(run: ResolvedRun, payload: AcquiredPayload, profiles: ProfileCompiler) -> SpecialJobs:
    """Return the init job and the final job, if configured."""
    config = run.configuration.config
    init = None
    # Inputs of all tasks (a quantum graph) are inputs of these two as well.
    inputs = (RUN_GRAPH,) if RUN_GRAPH in payload.graph.files else ()
    if run.configuration.flag("runInit"):
        # The root's command of all tasks is not for a job without task.
        own = config.node_at("pipetask", INIT_LABEL, "runQuantumCommand") is not None
        init = init_job(profiles.job_profile(INIT_LABEL, with_command=own), inputs)
    when = read_when_run(config)
    if when is WhenRun.NEVER:
        return SpecialJobs(init=init)
    # Reports wrong commands before any job is made.
    _, arguments = _final_lines(run.configuration)
    final = final_job(
        profiles.job_profile(FINAL_LABEL, searchobj=config.node_at("finalJob"), with_command=False), arguments, inputs
    )
    last = when is WhenRun.SUCCESS
    return SpecialJobs(init=init, last=final if last else None, final=None if last else final)


def _final_programs(configuration: ResolvedConfiguration, final: Job | None = None) -> dict[str, str]:
    """Return the script of the final job, if there is one, per path in the run directory.

    `final` is the job if already made: it may have fewer processors than configured. Raises `ConfigError` if one of
    its commands is wrong.
    """
    if read_when_run(configuration.config) is WhenRun.NEVER:
        return {}
    commands, arguments = _final_lines(configuration, final)
    return {FINAL_SCRIPT: final_script(commands, [name for name, _ in arguments])}


def _final_lines(
    configuration: ResolvedConfiguration, final: Job | None = None
) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Return the commands of the final job, and names and values of the arguments of its script."""
    arguments = _graph_arguments(configuration)
    current = {"requestCpus": str(final.settings.request.cpus)} if final else {}
    current |= {name: f'"${{{name}}}"' for name, _ in arguments}
    scope = configuration.scope(curr_pipetask=FINAL_LABEL, curr_cluster=FINAL_LABEL, **current)
    commands = read_final_commands(configuration.config, scope)
    if any(f"${{{ATTEMPT_NAME}}}" in line for line in commands):
        arguments = (*arguments, (ATTEMPT_NAME, ATTEMPT_MARK))
    return commands, arguments


def _graph_arguments(configuration: ResolvedConfiguration) -> tuple[tuple[str, str], ...]:
    """Return names and values of the final job's arguments for a quantum graph, as in BPS."""
    graph = configuration.text("qgraphFile")
    if not graph.startswith("<FILE:"):
        return ()
    return ("qgraphFile", graph), ("butlerConfig", configuration.text("butlerConfig"))
