"""Stage `transform`: makes jobs of clusters, and the complete plan of the run directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from longshore.app.configure.configuration import ResolvedConfiguration
from longshore.app.configure.resolved_run import ResolvedRun
from longshore.app.configure.run_identity import run_attributes
from longshore.app.payload.payload import AcquiredPayload
from longshore.app.plan.checks import check_commands, check_jobs, note_unknown_quotations, note_unmatched_labels
from longshore.app.plan.clustering import ClusteredRun
from longshore.app.plan.log_folders import log_folders
from longshore.app.plan.problems import raise_problems
from longshore.app.plan.profiles import ProfileCompiler
from longshore.app.plan.programs import JobProgram
from longshore.app.progress import Progress
from longshore.app.submit.saved_graphs import SavedGraphs, graphs_to_save
from longshore.config.final_job import WhenRun, ignored_setup_notes, read_final_commands, read_when_run
from longshore.config.merge import Node
from longshore.config.profile import JobProfile
from longshore.config.search import INIT_LABEL, SPECIAL_LABELS, Config
from longshore.config.select import parse_ordering_rules
from longshore.config.templates import ATTEMPT_MARK, ATTEMPT_NAME
from longshore.errors import PreparationError
from longshore.graphs.quantum_graph import RUN_GRAPH
from longshore.model.report import FINAL_LABEL
from longshore.model.submission import ReusedJobs
from longshore.model.tasks import ClusteredGraph, collection_paused
from longshore.model.workflow import Job, Workflow
from longshore.plan.job_groups import unknown_label_notes
from longshore.plan.transform import FINAL_SCRIPT, SpecialJobs, final_job, final_script, init_job, transform
from longshore.rundir.output_claims import RunOutputs


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
        started = check_jobs(named, workflow, progress, commands=payload.commands, has_one_path_per_file=True)
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
