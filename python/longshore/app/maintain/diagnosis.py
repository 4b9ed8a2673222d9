"""Results of the checks of ``longshore doctor``, and the limit in time under which checks run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from longshore.app.runs.open_run import describe_read_error
from longshore.errors import LongshoreError
from longshore.world.processes.background_call import BackgroundCall


class DiagnosisState(StrEnum):
    """How serious a diagnosis is, from the least to the most."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """One result of a check: a sentence, and the way out where one is needed."""

    area: str
    state: DiagnosisState
    message: str
    hint: str = ""


Check: TypeAlias = Callable[[], Iterable[Diagnosis]]


def run_checks(checks: Mapping[str, Check], *, limit_s: float) -> Iterator[Diagnosis]:
    """Run checks side by side, and yield their results in the order of the checks.

    A check that fails or takes longer than `limit_s` yields one diagnosis that says so. Its name is its area, up to a
    colon.
    """
    calls: dict[str, BackgroundCall[list[Diagnosis]]] = {}
    for name, check in checks.items():
        calls[name] = BackgroundCall()
        calls[name].start(lambda check=check: list(check()))  # type: ignore[misc]
    deadline = time.monotonic() + limit_s
    for name, call in calls.items():
        area, _, what = name.partition(":")
        try:
            taken = call.take_result(timeout_s=max(0.001, deadline - time.monotonic()))
        except Exception as error:  # noqa: BLE001 - one check that fails must not hide the results of the others
            yield _failed_check(area, what, error)
            continue
        if taken:
            yield from taken[0]
            continue
        subject = f"'{what}' does" if what else "the check does"
        yield Diagnosis(
            area=area,
            state=DiagnosisState.WARNING,
            message=f"{subject} not answer within {limit_s:g} s",
            hint="A file server or a workload manager may hang: run the command again later.",
        )


def _failed_check(area: str, what: str, error: Exception) -> Diagnosis:
    hint = error.hint if isinstance(error, LongshoreError) else ""
    subject = f"the check of '{what}'" if what else "the check"
    message = f"{subject} failed: {describe_read_error(error)}"
    return Diagnosis(area=area, state=DiagnosisState.WARNING, message=message, hint=hint)
