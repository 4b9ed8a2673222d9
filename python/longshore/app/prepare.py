"""From a configuration to a run directory, ready to be handed over: acquire, cluster, transform, prepare."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from longshore import __version__
from longshore.app.acquired import Acquired, tell_of_graph
from longshore.app.checks import check, check_commands, tell_of_labels
from longshore.app.fill import Plan, fill, final_arguments, final_programs
from longshore.app.handover import Ready
from longshore.app.logfolders import log_folders
from longshore.app.made_from import made_from
from longshore.app.ordering import wanted_orderings
from longshore.app.packing import pack
from longshore.app.profiles import Profiles
from longshore.app.resolved_run import ResolvedRun, resolve_run, run_attributes
from longshore.app.saved import saved_stages
from longshore.app.sources import acquire
from longshore.app.teller import Teller
from longshore.config.finaljob import WhenRun, vain_setup, when_run
from longshore.config.merge import Node
from longshore.config.profile import JobProfile
from longshore.contract.context import RunPaths
from longshore.graph.quantumgraph import RUN_GRAPH
from longshore.model.cluster import ClusteredGraph
from longshore.model.garbage import collection_paused
from longshore.model.job import Job
from longshore.model.submission import RunCard
from longshore.model.workflow import Workflow
from longshore.plan.special import FINAL, INIT, SpecialJobs, final_job, init_job
from longshore.plan.transform import transform
from longshore.world.rundir import FORMAT, new_run_directory, write_card, write_made_from
from longshore.world.share import give_to_group, permissions


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that only waits to be handed over."""

    resolved: ResolvedRun
    card: RunCard
    made: tuple[str, ...] = ()
    """Names of files in the run directory that stay if it is not handed over."""

    @property
    def run(self) -> RunPaths:
        """Its directory."""
        return self.resolved.paths

    @property
    def ready(self) -> Ready:
        """What hands it over."""
        configuration = self.resolved.configuration
        return Ready(
            run=self.run,
            card=self.card,
            service=self.resolved.service,
            site=configuration.site,
            umask=configuration.resolved_site.umask,
            made=self.made,
        )


def prepare(
    path: Path, *, options: Mapping[str, str], sets: tuple[str, ...], run_id: str, now: float, tell: Teller
) -> Prepared:
    """Do everything up to handing over.

    Parameters
    ----------
    path, options, sets, now, tell
        As for `resolve_run`.
    run_id
        The run's id.

    Raises
    ------
    LongshoreError
        Something is wrong; nothing is left behind.
    """
    run = resolve_run(path, options=options, sets=sets, now=now, tell=tell)
    tell.stage("reading the payload")
    acquired = acquire(run, tell)
    with keeping(run, acquired, tell):
        tell.stage(f"making jobs of {_counted(len(acquired.graph.dag), 'task')}")
        clustered = pack(run.configuration, acquired.graph)
        workflow = make_workflow(run, clustered, acquired, tell)
        tell.stage(f"writing {_counted(len(workflow), 'job')} to '{run.paths.root}'")
        return write(plan_of(run, acquired, clustered, workflow), run_id=run_id, now=now)


@contextmanager
def keeping(run: ResolvedRun, acquired: Acquired, tell: Teller) -> Iterator[None]:
    """Say, when the body fails, what is left of the payload: a graph may have taken hours."""
    try:
        yield
    except BaseException:
        if acquired.made:
            tell_of_graph(run.paths.root / acquired.made[0], tell)
        raise


def make_workflow(run: ResolvedRun, clustered: ClusteredGraph, acquired: Acquired, tell: Teller) -> Workflow:
    """Turn clusters into jobs, and refuse what can never run.

    Parameters
    ----------
    run, tell
        As for `resolve_run`.
    clustered
        The clusters.
    acquired
        The payload.

    Raises
    ------
    ConfigError
        A value is wrong.
    PreparationError
        Jobs have no command, ask for more than there is, or something they need is missing.
    """
    for note in vain_setup(run.configuration.config):
        tell.note(note)
    run = replace(run, configuration=run.configuration.with_values(acquired.values))
    tell_of_labels(run, clustered, tell)
    profiles = Profiles(run)
    # Hundreds of thousands of jobs are made and none is dropped; looking for garbage would take half of the time.
    with collection_paused():
        compiled = profiles.of_clusters(clustered, acquired.commands)
        check_commands(clustered, compiled, tell)
        workflow = transform(
            clustered,
            compiled,
            name=run.configuration.text("uniqProcName"),
            attributes=run_attributes(run.configuration),
            special=_special_jobs(run, acquired, profiles),
            orderings=wanted_orderings(run.configuration, clustered, tell),
            log_folders=log_folders(run, clustered, tell),
        )
        profiles.tell(tell)
        check(run, workflow, tell, commands=acquired.commands)
    return workflow


def fitted_profile(run: ResolvedRun, label: str, *, searchobj: Node, tell: Teller) -> JobProfile:
    """The profile of a job that has a section of its own and no ``runQuantumCommand``."""
    profiles = Profiles(run)
    profile = profiles.of(label, searchobj=searchobj, with_command=False)
    profiles.tell(tell)
    return profile


def _special_jobs(run: ResolvedRun, acquired: Acquired, profiles: Profiles) -> SpecialJobs:
    """The init job and the final job, as far as the configuration wants them."""
    config = run.configuration.config
    init = None
    # What all tasks read (a quantum graph), these two read as well.
    inputs = (RUN_GRAPH,) if RUN_GRAPH in acquired.graph.files else ()
    if run.configuration.flag("runInit"):
        # The command of all tasks, at the root, is none for a job that belongs to no task.
        own = config.at("pipetask", INIT, "runQuantumCommand") is not None
        init = init_job(profiles.of(INIT, with_command=own), inputs)
    when = when_run(config)
    if when is WhenRun.NEVER:
        return SpecialJobs(init=init)
    final_programs(run.configuration)  # what is wrong with its commands is wrong now, not when they are written
    arguments = final_arguments(run.configuration) if inputs else ()
    final = final_job(profiles.of(FINAL, searchobj=config.at("finalJob"), with_command=False), arguments, inputs)
    last = when is WhenRun.SUCCESS
    return SpecialJobs(init=init, last=final if last else None, final=None if last else final)


def plan_of(run: ResolvedRun, acquired: Acquired, clustered: ClusteredGraph, workflow: Workflow) -> Plan:
    """What the run directory of a payload is made from."""
    named = run.configuration.with_values(acquired.values)
    return Plan(
        run=run,
        workflow=workflow,
        payload=acquired.files,
        directories=acquired.graph.directories,
        programs={**acquired.graph.programs, **final_programs(named, _final_of(workflow))},
        made=acquired.made,
        saved=saved_stages(run, clustered, workflow),
    )


def _final_of(workflow: Workflow) -> Job | None:
    return workflow.final or workflow.get(FINAL)


def write(plan: Plan, *, run_id: str, now: float) -> Prepared:
    """Write the run directory.

    Raises
    ------
    FilesError
        It cannot be written; nothing is left behind.
    """
    run, workflow = plan.run, plan.workflow
    card = RunCard(
        format=FORMAT,
        id=run_id,
        name=workflow.name,
        service=run.configuration.service,
        longshore=__version__,
        created_at=now,
        key=secrets.token_hex(4),
        expected=len(workflow),
        labels=workflow.counts(),
        attributes=dict(workflow.attributes),
        id_links=run.configuration.text("idLinkPath") if run.configuration.flag("makeIdLink") else None,
    )
    place = run.configuration.resolved_site
    with permissions(place.umask), new_run_directory(run.paths.root, made=plan.made) as draft:
        if group := place.settings.get("group"):
            give_to_group(draft.root, group)
        fill(draft, plan, card.mark)
        write_made_from(draft, made_from(plan, draft))
        write_card(draft, card)
    return Prepared(resolved=run, card=card, made=plan.made)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
