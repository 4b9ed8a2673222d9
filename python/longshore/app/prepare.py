"""From a configuration to a run directory, ready to be handed over: acquire, cluster, transform, prepare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from longshore import __version__
from longshore.app.configuration import Configuration, load_configuration
from longshore.app.fill import Plan, fill
from longshore.app.programs import check_programs
from longshore.app.services import find_service
from longshore.app.sources import acquire
from longshore.app.teller import Teller
from longshore.config.merge import plain
from longshore.config.profile import JobProfile, compile_profile
from longshore.config.settings import count, parse_pool, walltime
from longshore.contract.context import Context, PingReport, Problem, RunPaths, Site
from longshore.contract.service import WmsService
from longshore.errors import ConfigError, RequestError
from longshore.model.cluster import ClusteredGraph
from longshore.model.submission import RunCard
from longshore.plan.cluster import single_task
from longshore.plan.fit import fitted
from longshore.plan.transform import free_names, transform
from longshore.world.etc import shipped, template_texts
from longshore.world.rundir import FORMAT, new_run_directory, write_card

_RUN_ATTRIBUTES = {
    "operator": "bps_operator",
    "project": "bps_project",
    "campaign": "bps_campaign",
    "payloadName": "bps_payload",
}


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that only waits to be handed over."""

    run: RunPaths
    card: RunCard
    service: WmsService
    site: str
    configuration: Configuration


def prepare(
    path: Path, *, options: Mapping[str, str], sets: tuple[str, ...], run_id: str, now: float, tell: Teller
) -> Prepared:
    """Do everything up to handing over.

    Parameters
    ----------
    path
        The user's file.
    options, sets, now
        As for `load_configuration`.
    run_id
        The run's id.
    tell
        Takes notes and progress.

    Raises
    ------
    LongshoreError
        Something is wrong; nothing is left behind.
    """
    configuration, warnings = load_configuration(path, options=options, sets=sets, now=now)
    for warning in warnings:
        tell.note(f"{warning.origin}: {warning.message}" + (f" {warning.hint}" if warning.hint else ""))
    configuration = name_run(configuration)
    service = find_service(configuration.service, origin=configuration.service_origin)
    tell.stage("reading the payload")
    graph, payload = acquire(configuration)
    clustered = single_task(graph, {})
    run = RunPaths(Path(configuration.text("submitPath")).absolute())
    ctx = service_context(configuration, service, run)
    tell.stage(f"making jobs of {len(clustered.dag)} tasks")
    profiles = compile_profiles(configuration, clustered, ctx.probe, tell)
    workflow = transform(
        clustered, profiles, name=configuration.text("uniqProcName"), attributes=run_attributes(configuration)
    )
    plan = Plan(configuration=configuration, graph=graph, payload=payload, workflow=workflow, service=service, ctx=ctx)
    refuse(service.check(workflow, ctx), tell)
    if service.runs_here:
        check_programs(workflow, configuration.env)
    tell.stage(f"writing {len(workflow)} jobs to '{run.root}'")
    card = RunCard(
        format=FORMAT,
        id=run_id,
        name=workflow.name,
        service=configuration.service,
        longshore=__version__,
        created_at=now,
        expected=len(workflow),
        labels=workflow.counts(),
        attributes=dict(workflow.attributes),
    )
    with new_run_directory(run.root) as draft:
        fill(draft, plan)
        write_card(draft, card)
    return Prepared(run=run, card=card, service=service, site=configuration.site, configuration=configuration)


def name_run(configuration: Configuration) -> Configuration:
    """Fix the run's name and directory, as BPS does, from ``outputRun`` and ``submitPath``."""
    if configuration.config.at("payload", "outCollection") or configuration.config.at("outCollection"):
        raise ConfigError("'outCollection' is deprecated. Replace all references to it with 'outputRun'")
    output_run = configuration.text("outputRun")
    if not output_run or not configuration.text("submitPath"):
        raise ConfigError("'outputRun' and 'submitPath' must have a value", hint="They have defaults; leave them out.")
    return configuration.with_defined(uniqProcName=output_run.replace("/", "_"))


def service_context(configuration: Configuration, service: WmsService, run: RunPaths) -> Context:
    """What the service may know, with what its probe found."""
    site = configuration.config.at("site", configuration.site)
    ctx = Context(
        settings=service_settings(configuration),
        site=Site(name=configuration.site, settings=plain(site) if site else {}, origin=site.origin if site else None),
        paths=run,
        templates=template_texts(service.name) | {"longshore-job": shipped("bin", "longshore-job").read_text("utf-8")},
    )
    return msgspec.structs.replace(ctx, probe=service.ping(ctx))


def service_settings(configuration: Configuration) -> dict[str, Any]:
    """The service's own settings: how an engine treats jobs, and what its executor has to know."""
    lost = configuration.search("retryOnLost")
    grace = configuration.search("killGrace")
    written = configuration.config.search("resources", current={"curr_site": configuration.site}).written
    return {
        "retries_on_lost": count(lost, "retryOnLost", configuration.origin("retryOnLost")) if lost != "" else 1,
        "grace_s": walltime(grace, "killGrace", configuration.origin("killGrace")) if grace != "" else 10.0,
        "executor": {"pool": parse_pool(written)} if written else {},
    }


def compile_profiles(
    configuration: Configuration, clustered: ClusteredGraph, probe: PingReport | None, tell: Teller
) -> dict[str, JobProfile]:
    """Search the configuration once per label, and lower what nobody asked for to what there is."""
    capacity = (probe.capacity if probe else None) or {}
    profiles: dict[str, JobProfile] = {}
    notes: dict[str, None] = {}
    for label, free in free_names(clustered).items():
        profile = compile_profile(
            configuration.config, label, site=configuration.site or None, free=free, env=configuration.env
        )
        settings, lowered = fitted(profile.settings, capacity)
        notes |= dict.fromkeys(lowered)
        profiles[label] = JobProfile(
            settings=settings, command=profile.command, environment=profile.environment, request=profile.request
        )
    for note in notes:
        tell.note(note)
    return profiles


def run_attributes(configuration: Configuration) -> dict[str, str]:
    """What reports show of the run as a whole, under BPS's names."""
    attributes = {name: configuration.text(key) for key, name in _RUN_ATTRIBUTES.items()}
    return {
        "bps_isjob": "True",
        **attributes,
        "bps_run": configuration.text("uniqProcName"),
        "bps_runsite": configuration.site,
    }


def refuse(problems: list[Problem], tell: Teller) -> None:
    """Raise the first fatal problem, with the number of others; tell the rest."""
    fatal = [problem for problem in problems if problem.fatal]
    for problem in problems:
        if not problem.fatal:
            tell.note(problem.message)
    if fatal:
        others = f" (and {len(fatal) - 1} more like it)" if fatal[1:] else ""
        raise RequestError(fatal[0].message + others, origin=fatal[0].origin, hint=fatal[0].hint)
