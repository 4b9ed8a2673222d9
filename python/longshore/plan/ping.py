"""Asks whether a workload manager can be used (`longshore ping`); apart, because it is to answer at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from longshore.config.hidden_secrets import hidden_secrets, hide_read_secrets
from longshore.config.service_lookup import default_service, environment_service, find_service
from longshore.contract.service import Context, PingReport, Problem, RunPaths, Site
from longshore.errors import UsageError
from longshore.system.host import system_folders, user_folder
from longshore.system.reading import current_directory


@hidden_secrets()
def ping(
    name: str | None, *, path: Path | None = None, site: str = "", site_path: Sequence[str] = (), now: float = 0.0
) -> PingReport:
    """Ask a service whether it can be used.

    With a configuration or a site, the job that has no other settings is judged, too. Without `name` the site's service
    is used, else that of runs that name none: by the environment, the configuration of user or machine, or the default.
    `path` is a configuration with the service's settings; `site` and `site_path` choose a site, with or without a
    configuration; `now` is its time.

    Raises `UnknownServiceError` if the service does not exist.
    """
    here = RunPaths(current_directory())
    if path is not None or site:
        # Imported late: most calls read no configuration.
        from longshore.plan.configuration import draft_at_site
        from longshore.plan.judgement import judge_site
        from longshore.plan.lint import check_configuration
        from longshore.plan.resolved_run import service_context

        configuration = draft_at_site(name, path=path, site=site, site_path=site_path, now=now)
        check_configuration(configuration)
        service = configuration.load_service()
        context = service_context(configuration, service, here)
        report = service.ping(context)
        problems = judge_site(configuration, service, msgspec.structs.replace(context, probe=report))
        return hide_in_report(_with_judgement(report, problems))
    if site_path:
        raise UsageError("'--site-path' without a site has no effect", hint="Name the site with '--compute-site'.")
    service = find_service(name or _configured_service())
    return service.ping(Context(settings={}, site=Site(name=""), paths=here, templates={}))


def _with_judgement(report: PingReport, problems: Sequence[Problem]) -> PingReport:
    """Return a report that is good if the manager answers, and takes a job of the site."""
    fatal = [each for each in problems if each.fatal]
    message = "; ".join(each.message for each in fatal) or report.message
    return msgspec.structs.replace(report, ok=report.ok and not fatal, message=message, problems=tuple(problems))


def hide_in_report(report: PingReport) -> PingReport:
    """Return a report whose texts mask the secrets of what the use case has read."""
    return msgspec.structs.replace(
        report,
        message=hide_read_secrets(report.message),
        details={key: hide_read_secrets(text) for key, text in report.details.items()},
        problems=tuple(map(hide_in_problem, report.problems)),
    )


def hide_in_problem(problem: Problem) -> Problem:
    """Return a problem whose texts mask the secrets of what the use case has read."""
    return msgspec.structs.replace(
        problem, message=hide_read_secrets(problem.message), hint=hide_read_secrets(problem.hint)
    )


def _configured_service() -> str:
    """Return the service of runs that name none."""
    folders = (user_folder(os.environ), *system_folders(os.environ))
    if "LONGSHORE_WMS_SERVICE_CLASS" in os.environ or any((folder / "longshore.yaml").is_file() for folder in folders):
        # Imported late, too: most users have no such file.
        from longshore.config.layers import configured_service

        return configured_service(os.environ)
    return environment_service() or default_service()
