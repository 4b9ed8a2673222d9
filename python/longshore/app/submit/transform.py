"""Makes jobs of clusters: the stage `transform`, which ends in all that the run directory is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from longshore.app.configure.configuration import ResolvedConfiguration
from longshore.app.configure.resolved_run import ResolvedRun, run_attributes
from longshore.app.payload.payload import AcquiredPayload
from longshore.app.plan.checks import check, check_commands, tell_of_labels
from longshore.app.plan.clustering import ClusteredRun
from longshore.app.plan.job_groups import wanted_orderings
from longshore.app.plan.log_folders import log_folders
from longshore.app.plan.profiles import Profiles
from longshore.app.progress import Teller
from longshore.app.submit.saved_graphs import SavedGraphs, graphs_to_save
from longshore.config.profile.final_job import WhenRun, final_commands, vain_setup, when_run
from longshore.config.profile.profile import JobProfile
from longshore.config.values.merge import Node
from longshore.graph.formats.quantum_graph import RUN_GRAPH
from longshore.model.workflow.collection_pause import collection_paused
from longshore.model.workflow.job import Job
from longshore.model.workflow.workflow import Workflow
from longshore.plan.special_jobs import (
    FINAL_LABEL,
    FINAL_SCRIPT,
    INIT_LABEL,
    SpecialJobs,
    final_job,
    final_script,
    init_job,
)
from longshore.plan.transform import transform


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """All that a run directory is made from.

    Attributes
    ----------
    workflow
        The jobs.
    payload
        The files of the payload, kept with the user's YAML.
    directories
        Folders to make.
    programs
        Text of programs that jobs run, per path.
    copies
        Files that are copied as they are, per path.
    executables
        Which of these paths are to be executable.
    made
        Names of files that are in the run directory already.
    saved
        The graphs between the stages, as far as they are wanted.
    """

    run: ResolvedRun
    workflow: Workflow
    payload: tuple[Path, ...] = ()
    directories: Sequence[str] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, Path] = field(default_factory=dict)
    executables: frozenset[str] = frozenset()
    made: tuple[str, ...] = ()
    saved: SavedGraphs = field(default_factory=dict)


def plan_run(clustered: ClusteredRun, tell: Teller) -> RunPlan:
    """Turn clusters into jobs, and refuse what can never run.

    Raises
    ------
    ConfigError
        A value is wrong.
    PreparationError
        Jobs have no command, ask for more than there is, or something they need is missing.
    """
    run, payload, graph = clustered.run, clustered.payload, clustered.graph
    for note in vain_setup(run.configuration.config):
        tell.note(note)
    named = replace(run, configuration=run.configuration.with_values(payload.values))
    tell_of_labels(named, graph, tell)
    profiles = Profiles(named)
    # Hundreds of thousands of jobs are made and none is dropped; looking for garbage would take half of the time.
    with collection_paused():
        compiled = profiles.of_clusters(graph, payload.commands)
        check_commands(graph, compiled, tell)
        workflow = transform(
            graph,
            compiled,
            name=named.configuration.text("uniqProcName"),
            attributes=run_attributes(named.configuration),
            special=_special_jobs(named, payload, profiles),
            orderings=wanted_orderings(named.configuration, graph, tell),
            log_folders=log_folders(named, graph, tell),
        )
        profiles.tell(tell)
        check(named, workflow, tell, commands=payload.commands)
    final = workflow.final or workflow.get(FINAL_LABEL)
    return RunPlan(
        run=run,
        workflow=workflow,
        payload=payload.files,
        directories=payload.graph.directories,
        programs={**payload.graph.programs, **_final_programs(named.configuration, final)},
        made=payload.made,
        saved=graphs_to_save(run.configuration, graph, workflow),
    )


def fitted_profile(run: ResolvedRun, label: str, *, searchobj: Node, tell: Teller) -> JobProfile:
    """The profile of a job that has a section of its own and no ``runQuantumCommand``."""
    profiles = Profiles(run)
    profile = profiles.of(label, searchobj=searchobj, with_command=False)
    profiles.tell(tell)
    return profile


def _special_jobs(run: ResolvedRun, payload: AcquiredPayload, profiles: Profiles) -> SpecialJobs:
    """The init job and the final job, as far as the configuration wants them."""
    config = run.configuration.config
    init = None
    # What all tasks read (a quantum graph), these two read as well.
    inputs = (RUN_GRAPH,) if RUN_GRAPH in payload.graph.files else ()
    if run.configuration.flag("runInit"):
        # The command of all tasks, at the root, is none for a job that belongs to no task.
        own = config.at("pipetask", INIT_LABEL, "runQuantumCommand") is not None
        init = init_job(profiles.of(INIT_LABEL, with_command=own), inputs)
    when = when_run(config)
    if when is WhenRun.NEVER:
        return SpecialJobs(init=init)
    _final_programs(run.configuration)  # what is wrong with its commands is wrong before any job is made
    arguments = _final_arguments(run.configuration) if inputs else ()
    final = final_job(profiles.of(FINAL_LABEL, searchobj=config.at("finalJob"), with_command=False), arguments, inputs)
    last = when is WhenRun.SUCCESS
    return SpecialJobs(init=init, last=final if last else None, final=None if last else final)


def _final_programs(configuration: ResolvedConfiguration, final: Job | None = None) -> dict[str, str]:
    """The script of the final job, if there is one, per path in the run directory.

    Parameters
    ----------
    configuration
        The configuration.
    final
        The job, where it was made already: it may get fewer processors than the configuration asks for.

    Raises
    ------
    ConfigError
        One of its commands is wrong.
    """
    if when_run(configuration.config) is WhenRun.NEVER:
        return {}
    arguments = _final_arguments(configuration)
    current = {"requestCpus": str(final.settings.request.cpus)} if final else {}
    current |= {name: f'"${{{name}}}"' for name, _ in arguments}
    scope = configuration.scope(curr_pipetask=FINAL_LABEL, curr_cluster=FINAL_LABEL, **current)
    commands = final_commands(configuration.config, scope)
    return {FINAL_SCRIPT: final_script(commands, [name for name, _ in arguments])}


def _final_arguments(configuration: ResolvedConfiguration) -> tuple[tuple[str, str], ...]:
    """What the script of the final job is called with for a quantum graph, as in BPS: name and value of each."""
    graph = configuration.text("qgraphFile")
    if not graph.startswith("<FILE:"):
        return ()
    return ("qgraphFile", graph), ("butlerConfig", configuration.text("butlerConfig"))
