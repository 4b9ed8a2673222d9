"""Profile of a site from what its workload manager answers (`longshore site init`)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.config.plugins import template_texts
from longshore.config.service_lookup import find_service, service_names
from longshore.contract.capabilities import JobProbe, SiteAccess
from longshore.contract.service import Context, PingReport, RunPaths, Site, WmsService
from longshore.errors import FilesError, UnknownServiceError, UnreachableError, UsageError
from longshore.model.workflow import MIB, Job, JobSettings, Request
from longshore.sites.profile import profile_text
from longshore.sites.site import AUTO
from longshore.system.atomic import create_file
from longshore.system.folder import make_folders
from longshore.system.host import host_name, user_folder
from longshore.system.reading import current_directory

_SMALL: Final = "longshore-small"
_SMALLEST: Final = Request(memory_b=MIB)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


class NewProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Profile that was written; `path` is ``None`` where only its text is wanted."""

    name: str
    service: str
    path: Path | None
    text: str


def write_profile(
    name: str, service: str | None = None, *, folder: Path | None = None, is_written: bool = True, now: float
) -> NewProfile:
    """Write a profile from the answers of a workload manager; without `service`, of the one that answers here.

    `folder` is the directory for it, by default that of the user. Raises `UnreachableError` if none answers,
    `UsageError` if several do, `FilesError` if the file exists.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is no name of a site", hint="Use letters, digits, '.', '_' and '-': it becomes a file's name."
        )
    if name == AUTO:
        raise UsageError(
            f"'{AUTO}' is no name of a site: 'computeSite: {AUTO}' stands for all of them", hint="Choose another name."
        )
    path = (folder or user_folder(os.environ) / "sites") / f"{name}.yaml"
    if is_written and os.path.lexists(path):
        raise FilesError(f"'{path}' exists already", hint="Choose another name, or remove it first.")
    manager, report = _ask(service)
    own = manager.site_access(report.inventory) if isinstance(manager, SiteAccess) else {}
    if own:
        # How large jobs can be depends on these settings, such as the resource that counts their memory.
        report = _ping(manager, own)
    report = _without_closed_partitions(manager, report, own)
    text = profile_text(name, report, own=own, hosts=[host_name()], date=time.strftime("%Y-%m-%d", time.gmtime(now)))
    if is_written:
        try:
            make_folders(path.parent)
            create_file(path, [text.encode()])
        except OSError as error:
            raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error
    return NewProfile(name=name, service=report.service, path=path if is_written else None, text=text)


def _ask(name: str | None) -> tuple[WmsService, PingReport]:
    """Return the service and its answer."""
    if name is not None:
        service = find_service(name)
        report = _ping(service)
        if not report.ok:
            raise UnreachableError(
                f"'{name}' does not answer: {report.message}", hint=f"See: longshore ping --wms-service-class {name}"
            )
        return service, report
    services = list(_other_services())
    with ThreadPoolExecutor(max(1, len(services))) as pool:
        reports = list(pool.map(_ping, services))
    answers = [pair for pair in zip(services, reports, strict=True) if pair[1].ok]
    if not answers:
        why = "; ".join(f"{each.service}: {each.message.rstrip('.')}" for each in reports)
        raise UnreachableError(
            f"no workload manager answers on this host ({why})",
            hint="Try it on a host that submits jobs. 'longshore ping --wms-service-class NAME' asks one again.",
        )
    if len(answers) > 1:
        names = ", ".join(f"'{service.name}'" for service, _ in answers)
        raise UsageError(f"several workload managers answer: {names}", hint="Name one with '--wms-service-class'.")
    return answers[0]


def _other_services() -> Iterator[WmsService]:
    """Iterate over the services whose jobs run on other machines."""
    seen: set[type] = set()
    for name in service_names():
        try:
            service = find_service(name)
        except UnknownServiceError:
            # A plug-in that cannot be imported; no cluster of it answers.
            continue
        if type(service) not in seen and not service.traits.runs_on_submit_host:
            seen.add(type(service))
            yield service


def _ping(service: WmsService, own: Mapping[str, Any] | None = None) -> PingReport:
    if own is None:
        own = service.site_access() if isinstance(service, SiteAccess) else {}
    return service.ping(_context(service, own))


def _context(service: WmsService, own: Mapping[str, Any]) -> Context:
    settings = {service.traits.settings_key: dict(own)} if own else {}
    return Context(
        settings={"executor": settings},
        site=Site(name="", settings=settings),
        paths=RunPaths(current_directory()),
        templates=template_texts(type(service)),
    )


def _without_closed_partitions(service: WmsService, report: PingReport, own: Mapping[str, Any]) -> PingReport:
    """Return an answer without the partitions that take no job of this user, however small."""
    inventory = report.inventory
    if inventory is None or not inventory.partitions or not isinstance(service, JobProbe):
        return report
    context = msgspec.structs.replace(_context(service, own), probe=report)
    kept = []
    for partition in inventory.partitions:
        settings = JobSettings(label=_SMALL, request=_SMALLEST, attributes={"queue": partition.name})
        job = Job(name=_SMALL, label=_SMALL, command="true", settings=settings)
        if not any(each.fatal for each in service.probe_jobs([job], context)):
            kept.append(partition)
    # Where none takes it, the reason is another one, which the check of the profile tells.
    partitions = tuple(kept) or inventory.partitions
    return msgspec.structs.replace(report, inventory=msgspec.structs.replace(inventory, partitions=partitions))
