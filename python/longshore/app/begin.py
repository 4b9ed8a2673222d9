"""Fixes what a run needs before anything is built: configuration, name, directory, service and what that can give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.app.configuration import Configuration, load_configuration
from longshore.app.services import find_service
from longshore.app.teller import Teller
from longshore.config.merge import plain
from longshore.config.settings import count, parse_pool, walltime
from longshore.contract.context import Context, RunPaths, Site
from longshore.contract.service import WmsService
from longshore.errors import ConfigError
from longshore.world.etc import shipped, template_texts

_RUN_ATTRIBUTES: Final = {
    "operator": "bps_operator",
    "project": "bps_project",
    "campaign": "bps_campaign",
    "payloadName": "bps_payload",
}


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What every stage of a run goes by.

    Attributes
    ----------
    run
        Where the run directory will be.
    ctx
        What the service may know, with what its probe found.
    """

    configuration: Configuration
    service: WmsService
    run: RunPaths
    ctx: Context


def begin(path: Path, *, options: Mapping[str, str], sets: tuple[str, ...], now: float, tell: Teller) -> Begun:
    """Begin a run.

    Parameters
    ----------
    path
        The user's file.
    options, sets, now
        As for `load_configuration`.
    tell
        Takes notes and progress.

    Raises
    ------
    LongshoreError
        The configuration is wrong, or the service cannot be used.
    """
    configuration, warnings = load_configuration(path, options=options, sets=sets, now=now)
    for warning in warnings:
        tell.note(f"{warning.origin}: {warning.message}" + (f". {warning.hint}" if warning.hint else ""))
    configuration = name_run(configuration)
    service = find_service(configuration.service, origin=configuration.service_origin)
    run = RunPaths(Path(configuration.text("submitPath")).absolute())
    return Begun(
        configuration=configuration, service=service, run=run, ctx=service_context(configuration, service, run)
    )


def name_run(configuration: Configuration) -> Configuration:
    """Fix the run's name and directory, as BPS does, from ``outputRun`` and ``submitPath``."""
    for key in ("outputRun", "submitPath"):
        if not configuration.text(key):
            raise ConfigError(
                f"'{key}' must have a value", origin=configuration.origin(key), hint="It has a default: leave it out."
            )
    left = re.search(r"\$\{?[A-Za-z_]\w*\}?", configuration.text("submitPath"))
    if left:
        raise ConfigError(
            f"'submitPath' uses '{left[0]}', which is not in the environment",
            origin=configuration.origin("submitPath"),
            hint="Set the variable, or write the path out.",
        )
    return configuration.with_defined(uniqProcName=configuration.text("outputRun").replace("/", "_"))


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


def run_attributes(configuration: Configuration) -> dict[str, str]:
    """What reports show of the run as a whole, under BPS's names."""
    attributes = {name: configuration.text(key) for key, name in _RUN_ATTRIBUTES.items()}
    return {
        "bps_isjob": "True",
        **attributes,
        "bps_run": configuration.text("uniqProcName"),
        "bps_runsite": configuration.site,
    }
