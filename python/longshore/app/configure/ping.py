"""Service check (`longshore ping`): asks whether a workload manager can be used."""

from __future__ import annotations

import os
from pathlib import Path

from longshore.app.configure.configuration import read_draft
from longshore.app.configure.layers import Overrides, current_directory, default_service
from longshore.app.configure.lint import check_configuration
from longshore.app.configure.resolved_run import service_context
from longshore.app.configure.service_lookup import SERVICE_VARIABLE, find_service
from longshore.contract.context import Context, PingReport, RunPaths, Site


def ping(name: str | None, *, path: Path | None = None, now: float = 0.0) -> PingReport:
    """Ask a service whether it can be used.

    Without `name` the environment's choice is used, else the default service. `path` is a configuration with the
    service's settings; `now` is its time. Raises `UnknownServiceError` if the service does not exist.
    """
    here = RunPaths(current_directory())
    if path is not None:
        options = {"wmsServiceClass": name} if name else {}
        configuration = read_draft(path, Overrides(options), now=now)
        check_configuration(configuration)
        service = find_service(configuration.service, origin=configuration.service_origin)
        return service.ping(service_context(configuration, service, here))
    service = find_service(name or os.environ.get(SERVICE_VARIABLE) or default_service())
    return service.ping(Context(settings={}, site=Site(name=""), paths=here, templates={}))
