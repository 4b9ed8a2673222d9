"""Results of the checks of ``longshore doctor``, and the limit in time under which checks run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import TypeAlias

import msgspec

from longshore.app.runs.open_run import describe_read_error
from longshore.errors import LongshoreError
from longshore.world.processes.background_call import BackgroundCall


class DiagnosisState(StrEnum):
    """How serious a diagnosis is, from the least to the most."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a check: a sentence, and the way out where one is needed."""

    area: str
    state: DiagnosisState
    message: str
    hint: str = ""


Check: TypeAlias = Callable[[], Iterable[Diagnosis]]


def run_checks(checks: Mapping[str, Check], *, limit_s: float) -> Iterator[Diagnosis]:
    """Run checks side by side, and yield their results in the order of the checks.

    A check that fails or takes longer than `limit_s` yields what it found until then, and one diagnosis that says so.
    Its name is its area, up to a colon.
    """
    calls: dict[str, BackgroundCall[None]] = {}
    found: dict[str, list[Diagnosis]] = {name: [] for name in checks}
    for name, check in checks.items():
        calls[name] = BackgroundCall()
        calls[name].start(partial(_collect, check, found[name]))
    deadline = time.monotonic() + limit_s
    for name, call in calls.items():
        area, _, what = name.partition(":")
        failure: Exception | None = None
        is_over = False
        try:
            is_over = bool(call.take_result(timeout_s=max(0.001, deadline - time.monotonic())))
        except Exception as error:  # noqa: BLE001 - one check that fails must not hide the results of the others
            failure = error
        # A check that is not over may find more at any time.
        results = tuple(found[name])
        yield from results
        if failure is not None:
            yield _failed_check(area, what, failure)
        elif not is_over:
            yield _late_check(area, what, limit_s, has_results=bool(results))


def _collect(check: Check, found: list[Diagnosis]) -> None:
    """Add the results of a check to a list, each as soon as it is known."""
    for diagnosis in check():
        found.append(diagnosis)  # noqa: PERF402 - `extend` does not promise to show results at once


def _late_check(area: str, what: str, limit_s: float, *, has_results: bool) -> Diagnosis:
    subject = f"'{what}'" if what else "the check"
    verb = "is not over after" if has_results else "does not answer within"
    return Diagnosis(
        area=area,
        state=DiagnosisState.WARNING,
        message=f"{subject} {verb} {limit_s:g} s",
        hint="A file server or a workload manager may hang: run the command again later.",
    )


def _failed_check(area: str, what: str, error: Exception) -> Diagnosis:
    hint = error.hint if isinstance(error, LongshoreError) else ""
    subject = f"the check of '{what}'" if what else "the check"
    message = f"{subject} failed: {describe_read_error(error)}"
    return Diagnosis(area=area, state=DiagnosisState.WARNING, message=message, hint=hint)
