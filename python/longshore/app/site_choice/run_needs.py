"""What a run needs of a site, before it has one: the requests that its configuration has for each label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from longshore.app.configure.configuration import Configuration
from longshore.app.configure.payload_names import find_payload_names
from longshore.app.site_choice.settings import ChoiceSettings
from longshore.config.merge import LayerRank, make_layer, map_items
from longshore.config.profile import compile_profile
from longshore.errors import ConfigError
from longshore.model.workflow import Request
from longshore.plan.transform import PER_JOB
from longshore.sites.match import JobNeed, RunNeeds

_DEFAULTED: Final = {"requestMemory": "memory_b", "requestDisk": "disk_b", "requestWalltime": "walltime_s"}


def derive_needs(configuration: Configuration, settings: ChoiceSettings) -> RunNeeds:
    """Derive what a run needs: the given job specification, else what the jobs of each label ask for.

    Requests that only defaults have are left out: they are lowered to what a site has. So are requests that differ
    from job to job, which are checked when the jobs are made.
    """
    if settings.specification is not None:
        return RunNeeds(specification=settings.specification, requires=settings.requires)
    # No site is chosen yet, and candidates are no name of a site.
    without_site = configuration.with_top_layer(
        make_layer({"computeSite": None, "bps_cmdline": {"computeSite": None}}, "computed", LayerRank.COMMAND_LINE)
    )
    return RunNeeds(jobs=tuple(_job_needs(without_site)), requires=settings.requires)


def _job_needs(configuration: Configuration) -> Iterator[JobNeed]:
    config = configuration.config
    labels = find_payload_names(configuration, files=True).labels
    if labels is None:
        labels = frozenset(map_items(config.node_at("pipetask")))
    clusters = [name for name, node in map_items(config.node_at("cluster")).items() if isinstance(node.value, dict)]
    for label in [*sorted(labels), *clusters]:
        try:
            profile = compile_profile(
                config,
                label,
                replace(configuration.scope(), free=frozenset(PER_JOB)),
                cluster=label,
                with_command=False,
            )
        except ConfigError:
            # It is reported with its place when the jobs are made.
            continue
        settings = profile.settings
        queue = settings.attributes.get("queue")
        yield JobNeed(
            label=label,
            request=_chosen_request(settings.request, settings.defaulted),
            partitions=(str(queue),) if queue else (),
        )


def _chosen_request(request: Request, defaulted: tuple[str, ...]) -> Request:
    amounts = {name: None for key, name in _DEFAULTED.items() if key in defaulted}
    cpus = 1 if "requestCpus" in defaulted else request.cpus
    return Request(
        cpus=cpus,
        memory_b=amounts.get("memory_b", request.memory_b),
        disk_b=amounts.get("disk_b", request.disk_b),
        walltime_s=amounts.get("walltime_s", request.walltime_s),
        resources=request.resources,
    )
