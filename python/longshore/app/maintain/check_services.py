"""Checks of workload managers: what each answers that is chosen, or that is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from longshore.app.configure.layers import configured_service
from longshore.app.configure.service_lookup import (
    SERVICE_VARIABLE,
    default_service,
    environment_service,
    service_names,
    short_name,
)
from longshore.app.maintain.diagnosis import Check, Diagnosis, DiagnosisState
from longshore.app.site.ping import ping
from longshore.errors import LongshoreError

_AREA: Final = "services"


def service_checks(used: Iterable[str], is_used: Callable[[str], bool]) -> dict[str, Check]:
    """Return a check per service, by name.

    `used` are services that runs may use; `is_used` looks at the runs themselves, when a service cannot be used.
    """
    chosen = {short_name(name) for name in (_configured_service(), environment_service()) if name}
    installed = service_names()
    names = dict.fromkeys([*sorted(chosen | {short_name(name) for name in used}), *installed])
    return {
        f"{_AREA}:{name}": partial(
            _check_service, name, is_installed=name in installed, is_used=_always if name in chosen else is_used
        )
        for name in names
    }


def _always(_: str) -> bool:
    return True


def _configured_service() -> str:
    """Return the service of runs that name none; the default where that cannot be read."""
    try:
        return configured_service(os.environ)
    except LongshoreError:
        return default_service()


def _check_service(name: str, *, is_installed: bool, is_used: Callable[[str], bool]) -> Iterator[Diagnosis]:
    try:
        report = ping(name)
    except LongshoreError as error:
        message, hint, is_ok = error.message, error.hint, False
    else:
        message, hint, is_ok = report.message, "", report.ok
    if is_ok:
        yield Diagnosis(area=_AREA, state=DiagnosisState.OK, message=f"'{name}': {message}")
    elif is_used(name):
        state = DiagnosisState.ERROR
        hint = hint or (
            f"To see more: longshore ping --wms-service-class {name}, or, in the environment that a site sets: "
            "longshore ping --compute-site SITE"
        )
        if environment_service() == name:
            hint += f". ${SERVICE_VARIABLE} names it."
        yield Diagnosis(area=_AREA, state=state, message=f"'{name}' cannot be used: {message}", hint=hint)
    elif is_installed:
        why = message.partition(". ")[0].partition("; ")[0]
        message = f"'{name}' is not available here, and nothing uses it: {why}"
        yield Diagnosis(area=_AREA, state=DiagnosisState.NOTE, message=message)
