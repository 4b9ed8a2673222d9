"""Service check (`longshore ping`): asks whether a workload manager can be used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from longshore.app.configure.configuration import Draft, make_draft, read_draft
from longshore.app.configure.layers import (
    Overrides,
    current_directory,
    default_service,
    read_layers_without_file,
)
from longshore.app.configure.lint import check_configuration
from longshore.app.configure.resolved_run import service_context
from longshore.app.configure.service_lookup import environment_service, find_service
from longshore.contract.context import Context, PingReport, RunPaths, Site
from longshore.errors import UsageError
from longshore.world.files.presence import can_see_folder


def ping(
    name: str | None, *, path: Path | None = None, site: str = "", site_path: Sequence[str] = (), now: float = 0.0
) -> PingReport:
    """Ask a service whether it can be used.

    Without `name` the site's service is used, else the environment's choice, else the default service. `path` is a
    configuration with the service's settings; `site` and `site_path` choose a site, with or without a configuration;
    `now` is its time. Raises `UnknownServiceError` if the service does not exist.
    """
    here = RunPaths(current_directory())
    if path is not None or site:
        configuration = draft_at_site(name, path=path, site=site, site_path=site_path, now=now)
        check_configuration(configuration)
        service = find_service(configuration.service, origin=configuration.service_origin)
        return service.ping(service_context(configuration, service, here))
    if site_path:
        raise UsageError("'--site-path' without a site has no effect", hint="Name the site with '--compute-site'.")
    service = find_service(name or environment_service() or default_service())
    return service.ping(Context(settings={}, site=Site(name=""), paths=here, templates={}))


def draft_at_site(service: str | None, *, path: Path | None, site: str, site_path: Sequence[str], now: float) -> Draft:
    """Read a configuration at a site, or the site alone where there is no file; parameters are those of `ping`.

    Raises `ConfigError` if a file cannot be read or the site is wrong, `UsageError` if a folder is missing.
    """
    overrides = site_overrides(service, site, site_path)
    if path is not None:
        return read_draft(path, overrides, now=now)
    draft = make_draft(read_layers_without_file(overrides, now=now))
    if draft.site_errors:
        raise draft.site_errors[0]
    return draft


def site_overrides(service: str | None, site: str, site_path: Sequence[str]) -> Overrides:
    """Return the options that choose a service, a site and folders; raises `UsageError` if a folder is missing."""
    for folder in site_path:
        if not can_see_folder(Path(folder)):
            raise UsageError(f"'--site-path' names '{folder}', which is no directory")
    given = {"wmsServiceClass": service, "computeSite": site, "sitePath": os.pathsep.join(site_path)}
    return Overrides({key: value for key, value in given.items() if value})
