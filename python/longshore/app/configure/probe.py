"""Probe of a workload manager before a run: bounded in time, and shared by the submissions of a minute."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any, Final

import msgspec

from longshore.contract.context import Context, PingReport
from longshore.contract.service import WmsService
from longshore.engine.run.engine_service import EngineService
from longshore.errors import SubmissionRefusedError
from longshore.world.processes.background_call import BackgroundCall
from longshore.world.processes.query_cache import cached_answer
from longshore.world.runs.registry import state_folder

PROBE_LIMIT_S: Final = 5.0
"""Seconds that a submission waits for the answer."""
_FRESH_S: Final = 60.0


def probe(service: WmsService, context: Context, *, limit_s: float = PROBE_LIMIT_S) -> PingReport | None:
    """Return the answer of a workload manager; ``None`` if it does not come in time.

    Good answers are shared by all submissions of a user on this host for a minute.
    """
    if service.traits.runs_on_submit_host:
        return service.ping(context)
    call: BackgroundCall[PingReport] = BackgroundCall()
    call.start(lambda: _ask(service, context))
    return next(iter(call.take_result(timeout_s=limit_s)), None)


def refuse_by_probe(service: WmsService, report: PingReport | None) -> None:
    """Raise `SubmissionRefusedError` if a workload manager does not take runs of the site.

    One that gets the whole graph at the submission refuses it then by itself.
    """
    if isinstance(service, EngineService) and report is not None and not report.ok:
        raise SubmissionRefusedError(
            f"the workload manager '{report.service}' does not take this run: {report.message}",
            hint="'longshore ping FILE' shows what it answers; --no-probe submits all the same.",
        )


def _ask(service: WmsService, context: Context) -> PingReport:
    found: list[PingReport] = []

    def query() -> tuple[str | None, str]:
        found.append(report := service.ping(context))
        # A bad answer is told at once, and asked for anew: somebody may mend its cause meanwhile.
        return (msgspec.json.encode(report).decode(), "") if report.ok else (None, report.message)

    path = state_folder() / "probes" / f"{_key(service, context)}.json"
    answer = cached_answer(path, max_age_s=_FRESH_S, query=query)
    if found:
        return found[0]
    if answer is None or answer.text is None:
        return service.ping(context)
    return msgspec.json.decode(answer.text, type=PingReport)


def _key(service: WmsService, context: Context) -> str:
    """Return what tells apart the answers of clusters and sites; variables of the environment choose a cluster."""
    variables = sorted(os.environ.items())
    asked: list[Any] = [type(service).__module__, service.name, context.settings, context.site.settings, variables]
    return sha256(repr(asked).encode(errors="surrogateescape")).hexdigest()[:32]
