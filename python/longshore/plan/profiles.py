"""Compiles job profiles per label and cluster at the job's site, within the site's limits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from longshore.config.combine import ClusterProfile
from longshore.config.interpolate import Scope
from longshore.config.merge import DEFAULT_LAYERS, Node, map_items
from longshore.config.profile import CONTAINER, REQUEST_KEYS, JobProfile, ServiceKeys, compile_profile, varies_per_job
from longshore.config.schemas import configuration_schema
from longshore.config.service_lookup import short_name
from longshore.config.staging import read_staging
from longshore.contract.capabilities import AllocationReader, Amendable, launcher_line
from longshore.contract.executor import ExecutorOwner
from longshore.contract.service import Problem, WmsService
from longshore.engine.policy.retry import lowered_first_memory
from longshore.errors import ConfigError
from longshore.graphs.declarations import PER_JOB
from longshore.model.tasks import ClusteredGraph, ClusterMember, Composition
from longshore.model.workflow import MIB, Allocation, JobSettings, Request, StagingRules, Workflow, total_request
from longshore.plan.configuration import (
    CONVERT_FROM,
    Configuration,
    payload_identity,
    read_original_site,
)
from longshore.plan.jobs import compile_profiles, lower_to_capacity
from longshore.plan.resolved_run import ResolvedRun, refuse_late_functions, service_context
from longshore.progress import Progress
from longshore.rundir.histories import read_history
from longshore.sites.limits import EXECUTOR_FIELDS, PER_USER, SiteLimits, executor_limits, lower_to_limits, user_limit
from longshore.sites.pilots import SHORT_JOB_S
from longshore.sites.profile import launch_line, setup_lines, site_description
from longshore.sites.requests import PartitionRow, at_site, choose_partition, convert_to_local, find_node_size

LAUNCH_KEYS: Final = ("launcher", CONTAINER)
"""Keys of a service's own map that determine how commands of a label are started."""
_MODULE_VARIABLES: Final = ("LMOD_PKG", "MODULESHOME")
"""Variables with the folders of Lmod and Environment Modules."""


_RUN_WIDE_SETTINGS: Final = (
    "inheritEnvironment",
    "scratch",
    "fileSystem",
    "transferCommand",
    "templates",
    "umask",
    "group",
    "resources",
)
"""Site settings that hold for the whole run, also where some jobs run at other sites."""


_UNSHARED: Final = frozenset({"scratch", "transfer"})
"""Values of ``fileSystem`` with which jobs do not use their files where these lie."""


class ProfileCompiler:
    """Compiles profiles and records values that were lowered to a limit."""

    def __init__(self, run: ResolvedRun) -> None:
        self._run = run
        self._capacity = (run.context.probe.capacity if run.context.probe else None) or {}
        self._sites = {run.configuration.site}
        self.notes: dict[str, None] = {}
        service = run.service
        self._service_keys = service_keys(service)
        self._original = read_original_site(run.configuration)

    def job_profile(
        self,
        label: str,
        *,
        searchobj: Node | None = None,
        with_command: bool = True,
        command: Node | None = None,
    ) -> JobProfile:
        """Return the profile of a job outside of clusters; see `compile_profile`.

        Raises `ConfigError` if a value is wrong, or its site belongs to another workload manager.
        """
        configuration = self._configuration(label, label, searchobj)
        profile = compile_profile(
            configuration.config,
            label,
            replace(configuration.scope(), searchobj=searchobj),
            with_command=with_command,
            command=command,
            service_keys=self._service_keys,
        )
        return replace(profile, settings=self._limit_settings(profile.settings, configuration, [profile]))

    def cluster_profiles(
        self, clustered: ClusteredGraph, commands: Mapping[str, Node]
    ) -> dict[Composition, ClusterProfile]:
        """Return the profile of each kind of cluster.

        `commands` are the payload's commands per label. Raises `ConfigError` if a value is wrong, labels of a cluster
        disagree, or a site belongs to another workload manager.
        """

        def compiled(member: ClusterMember, free: frozenset[str]) -> JobProfile:
            configuration = self._configuration(member.label, member.section)
            return compile_profile(
                configuration.config,
                member.label,
                replace(configuration.scope(), free=free),
                cluster=member.section,
                command=commands.get(member.label),
                service_keys=self._service_keys,
            )

        found = compile_profiles(clustered, compiled)
        return {
            kind: replace(
                profile,
                settings=self._limit_settings(
                    profile.settings, self._run.at_site(profile.settings.site or ""), list(profile.parts.values())
                ),
            )
            for kind, profile in found.items()
        }

    def _limit_settings(
        self, settings: JobSettings, configuration: Configuration, profiles: Sequence[JobProfile]
    ) -> JobSettings:
        """Return settings within the limits of machine and site, with the site's setup lines."""
        settings = self._choose_packing(settings)
        if self._original is not None:
            settings = self._convert(settings, *self._original)
        settings, capacity_notes = lower_to_capacity(settings, self._capacity)
        site = configuration.resolved_site
        not_chosen = [key for key in REQUEST_KEYS if not any(_is_chosen(key, profile) for profile in profiles)]
        settings, limit_notes = lower_to_limits(settings, site.limits, not_chosen, site.name)
        settings = self._hold_growth(settings, site.limits)
        setup = self._setup(configuration)
        staging = self._staging(configuration)
        if site.settings.get("fileSystem") in _UNSHARED:
            # Files, and records that a job wrote about its tasks, stay where it ran until it succeeds.
            rules = msgspec.structs.replace(settings.rules, resume_tasks=False, staging=staging)
            settings = msgspec.structs.replace(settings, rules=rules)
        self.notes |= dict.fromkeys([*capacity_notes, *limit_notes])
        settings = self._count_for_user(settings)
        launcher = self._launcher(profiles[0]) if self._service_keys else ""
        return msgspec.structs.replace(settings, setup=setup, launcher=launcher) if setup or launcher else settings

    def _hold_growth(self, settings: JobSettings, limits: SiteLimits) -> JobSettings:
        """Return settings whose memory grows no further than the limit allows on all nodes of a job together."""
        most, request = limits.get("memory"), settings.request
        largest = settings.attributes.get("requestMemoryMax")
        if most is None or request.memory_b is None or not isinstance(largest, int):
            return settings
        if not isinstance(self._run.service, AllocationReader):
            return settings
        service, executor = self._run.service, self._run.context.settings.get("executor", {})

        def total(memory_b: int) -> int:
            asked = msgspec.structs.replace(settings, request=msgspec.structs.replace(request, memory_b=memory_b))
            return total_asked(self._run, service.allocations(asked, executor)).memory_b or 0

        while largest > request.memory_b and (beyond := total(largest)) > most.amount:
            # It is a sum of what each node has.
            largest = max(request.memory_b, min(largest - MIB, int(largest * most.amount / beyond)))
        return msgspec.structs.replace(settings, attributes={**settings.attributes, "requestMemoryMax": largest})

    def _count_for_user(self, settings: JobSettings) -> JobSettings:
        """Return settings with what the jobs take of the limits over all runs of a user, if an engine keeps these."""
        run = self._run
        amounts = {"perUser.jobs": 1, "perUser.cpus": settings.request.cpus}
        limits = run.configuration.resolved_site.limits
        names = [name for name in amounts if name in limits]
        if not names or not isinstance(run.service, ExecutorOwner):
            # Where no service has an engine, lint tells that the limits have no effect.
            return settings
        if isinstance(run.service, Amendable) and (why := run.service.why_not_reused(run.context)):
            self.notes[f"'limits.{PER_USER}' of the site '{run.configuration.site}' has no effect: {why}"] = None
            return settings
        if isinstance(run.service, AllocationReader):
            components = run.service.allocations(settings, run.context.settings.get("executor", {}))
            amounts["perUser.cpus"] = total_asked(run, components).cpus
        taken = [f"{user_limit(run.configuration.site, name)}:{amounts[name]}" for name in names]
        own = str(settings.attributes.get("concurrencyLimit") or "")
        attributes = {**settings.attributes, "concurrencyLimit": ", ".join(filter(None, (own, *taken)))}
        return msgspec.structs.replace(settings, attributes=attributes)

    def _staging(self, configuration: Configuration) -> StagingRules | None:
        """Return how the site stages files; raises `ConfigError` if its settings are wrong."""
        found = site_description(configuration.config, configuration.site, ("fileSystem", "transferCommand"))
        keys = map_items(found)
        rules = read_staging(keys.get("fileSystem"), keys.get("transferCommand"))
        # A service that transfers files itself has other places for them.
        return None if self._run.service.traits.transfers_files else rules

    def _convert(self, settings: JobSettings, site: str, service_name: str) -> JobSettings:
        """Return settings with what the job asks for at its original site, as well as this machine has it."""
        original = self._run.at_site(site)
        service = original.load_service(service_name, self._run.configuration.origin(CONVERT_FROM))
        label = settings.label
        theirs = compile_profile(
            original.config,
            label,
            replace(original.scope(), free=frozenset(PER_JOB)),
            cluster=label,
            with_command=False,
            service_keys=service_keys(service),
        ).settings
        asked: Sequence[Allocation] = (Allocation.of_request(settings.request),)
        if isinstance(service, AllocationReader):
            context = service_context(original, service, self._run.paths, is_static=True)
            asked = service.allocations(theirs, context.settings.get("executor", {}))
        converted, alone = convert_to_local(settings, asked, self._capacity)
        if alone:
            self.notes[f"jobs of '{label}' run one at a time on this machine: {'; '.join(alone)}"] = None
        return converted

    def _choose_packing(self, settings: JobSettings) -> JobSettings:
        """Return settings in which ``packing: auto`` is decided by the run times of earlier jobs of the label."""
        if settings.attributes.get("packing") != "auto":
            return settings
        attributes = {key: value for key, value in settings.attributes.items() if key != "packing"}
        history = read_history(payload_identity(self._run.configuration), [settings.label]).get(settings.label)
        executor = self._run.context.settings.get("executor", {})
        short_s = executor.get("pilot", {}).get("short_job_s", SHORT_JOB_S)
        if history is not None and history.weight and history.run_s < short_s:
            attributes["packing"] = "pilot"
        return msgspec.structs.replace(settings, attributes=attributes)

    def _launcher(self, profile: JobProfile) -> str:
        """Return the launcher of each command, and its container."""
        own = {**profile.settings.service_settings, **profile.service_settings}
        for key in LAUNCH_KEYS:
            if varies_per_job({key: own.get(key)}):
                raise ConfigError(
                    f"'{key}' must be the same for all jobs of a label", origin=profile.origins[f"own.{key}"]
                )
        try:
            return launch_line(launcher_line(self._run.service, own), own.get(CONTAINER))
        except ConfigError as error:
            origin = error.origin or profile.origins.get("own.launcher")
            raise ConfigError(error.message, origin=origin, hint=error.hint) from error

    def report_notes(self, progress: Progress) -> None:
        """Print notes about lowered and ignored values."""
        for note in self.notes:
            progress.note(note)

    def _configuration(self, label: str, cluster: str, searchobj: Node | None = None) -> Configuration:
        """Return the configuration at the site of a label in a cluster."""
        run = self._run.configuration
        scope = Scope(current={"curr_pipetask": label, "curr_cluster": cluster}, searchobj=searchobj, env=run.env)
        found = run.config.search("computeSite", scope)
        site = found.text or run.site
        there = self._run.at_site(site, found.origin)
        if site not in self._sites:
            if short_name(there.service) != short_name(run.service):
                raise ConfigError(
                    f"the site '{site}' of '{label}' belongs to '{there.service}', and this run to '{run.service}'",
                    origin=found.origin,
                    hint="All jobs of a run are handed to one workload manager.",
                )
            refuse_late_functions(run, there)
            self._sites.add(site)
            self.notes |= dict.fromkeys([*there.resolved_site.notes, *_ignored_site_settings(run, there)])
        return there

    def _setup(self, configuration: Configuration) -> tuple[str, ...]:
        site = configuration.resolved_site
        modules: list[str] = site.settings.get("modules") or []
        lines: list[str] = (site.settings.get("setup") or {}).get("job") or []
        if modules and self._run.service.traits.runs_on_submit_host and not _has_modules(configuration):
            named = ", ".join(f"'{module}'" for module in modules)
            note = (
                f"the site '{site.name}' loads {named}, but this machine has no command 'module': they are not loaded"
            )
            self.notes[note] = None
            modules = []
        return setup_lines(site.name, lines, modules)


def total_asked(run: ResolvedRun, components: Sequence[Allocation]) -> Request:
    """Return what components have together, on the nodes that they may get."""
    settings = run.context.settings.get("executor", {})
    rows = cast("Sequence[PartitionRow]", settings.get("partitions") or ())
    probe = run.context.probe
    try:
        row = choose_partition(rows, components[0])
    except ConfigError:
        row = None
    asked = at_site(components[0], settings, row)
    node = find_node_size(asked, rows, probe.inventory if probe else None, probe.capacity if probe else None)
    return total_request(components, node)


def service_keys(service: WmsService) -> ServiceKeys | None:
    """Return the keys of a service's own map; ``None`` if it has none."""
    traits = service.traits
    if not traits.settings_key:
        return None
    return ServiceKeys(
        traits.settings_key, traits.raw_option_keys, traits.job_keys, traits.job_maps, configuration_schema
    )


def capped_memory_notes(workflow: Workflow) -> Iterator[Problem]:
    """Yield a note per label whose memory request exceeds its maximum: the request is capped."""
    labels: set[str] = set()
    for settings in (job.settings for job in workflow.samples):
        first = lowered_first_memory(settings)
        if first is not None and settings.label not in labels:
            labels.add(settings.label)
            yield Problem(
                message=f"jobs of '{settings.label}' ask for {first // MIB} MiB and not for the "
                f"{(settings.request.memory_b or 0) // MIB} MiB of 'requestMemory', because 'requestMemoryMax' or "
                "'memoryLimit' allow no more",
                fatal=False,
            )


def _ignored_site_settings(run: Configuration, there: Configuration) -> Iterator[str]:
    """Yield ignored settings of a job's site: the run's own site determines these for the whole run."""
    ours, theirs = run.resolved_site, there.resolved_site
    keys = [key for key in _RUN_WIDE_SETTINGS if theirs.settings.get(key) not in (None, ours.settings.get(key))]
    held, asked = executor_limits(ours.limits), executor_limits(theirs.limits)
    keys += [
        f"limits.{name}"
        for name, field in EXECUTOR_FIELDS.items()
        if field in asked and asked[field] != held.get(field)
    ]
    if keys:
        words = ", ".join(f"'{key}'" for key in keys)
        yield f"{words} of the site '{there.site}' have no effect: the site '{run.site}' sets them for the whole run"


def _is_chosen(key: str, profile: JobProfile) -> bool:
    """Tell whether the user gave a value, rather than defaults or the site."""
    origin = profile.origins.get(key)
    return origin is not None and origin.layer not in DEFAULT_LAYERS


def _has_modules(configuration: Configuration) -> bool:
    return any(configuration.env.get(name) for name in _MODULE_VARIABLES) or shutil.which("module") is not None
