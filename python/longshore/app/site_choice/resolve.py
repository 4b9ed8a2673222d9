"""Resolves a run at the site that is chosen for it, or on this machine instead.

A site whose workload manager does not answer is passed over. Where no site is left, ``fallback: local`` lets the run go
to this machine; ``--local`` does so at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.configure.configuration import CONVERT_FROM, read_draft
from longshore.app.configure.layers import Layers, Overrides, read_layers
from longshore.app.configure.probe import probe
from longshore.app.configure.resolved_run import ResolvedRun, resolve_run
from longshore.app.configure.service_lookup import short_name
from longshore.app.progress import OnceProgress, Progress, QuietProgress, inform, warn
from longshore.app.site_choice.choose import at_site, choose, no_site_error, withdraw
from longshore.app.site_choice.question import SiteQuestion, ask_for_site
from longshore.config.interpolate import Scope
from longshore.config.search import Config
from longshore.errors import ConfigError, UnknownServiceError
from longshore.model.sites import SiteDecision

FALLBACK: Final = "fallback"
LOCAL: Final = "local"
"""Site and service of this machine, and the value of ``fallback`` if no workload manager can be used."""
ALWAYS: Final = "always"
"""Value of ``fallback`` for this machine in any case (``--local``)."""
ALWAYS_REASON: Final = "'--local' or 'fallback: always' asks for this machine"


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a resolution."""

    layers: Layers
    run_id: str
    progress: Progress
    with_probe: bool

    def resolve(self, layers: Layers, *, with_probe: bool) -> ResolvedRun:
        """Resolve the run from these layers."""
        return resolve_run(layers, now=layers.now, progress=self.progress, run_id=self.run_id, with_probe=with_probe)


def resolve_at_chosen_site(
    path: Path | Layers,
    overrides: Overrides | None = None,
    *,
    now: float,
    progress: Progress,
    run_id: str = "",
    with_probe: bool = True,
) -> ResolvedRun:
    """Resolve a run; where its configuration names candidates, one of them is chosen, once.

    `path` is the configuration, or its layers, which include `overrides`. With an id, the run counts at its site from
    now on; `release_site` takes that back. Raises `LongshoreError` as `resolve_run`, and `SubmissionRefusedError` if
    no candidate passes.
    """
    layers = path if isinstance(path, Layers) else read_layers(path, overrides, now=now)
    request = _Request(layers=layers, run_id=run_id, progress=OnceProgress(progress), with_probe=with_probe)
    fallback = read_fallback(layers)
    if fallback == ALWAYS:
        draft = read_draft(layers, now=now)
        return _fall_back(request, draft.site, draft.service, ALWAYS_REASON)
    question = ask_for_site(layers)
    if question is None:
        return _resolve_named(request, may_fall_back=fallback == LOCAL)
    decision, run = _resolve_chosen(request, question)
    if run is not None:
        return run
    error = no_site_error(decision, layers.path)
    if fallback != LOCAL:
        raise error
    return _fall_back(request, LOCAL, LOCAL, error.message, decision)


def match_candidates(layers: Layers, question: SiteQuestion, *, with_probe: bool) -> SiteDecision:
    """Choose a site as a submission does, without a run: candidates that cannot be used now are passed over."""
    request = _Request(layers=layers, run_id="", progress=QuietProgress(), with_probe=with_probe)
    decision, _ = _resolve_chosen(request, question)
    return decision


def release_site(run: ResolvedRun) -> None:
    """Count a run that is not submitted at its site no more."""
    if run.decision is not None and not run.decision.fallback:
        withdraw(run.decision, run.id)


@contextmanager
def releasing_site(run: ResolvedRun) -> Iterator[None]:
    """Count a run at its site no more if the body fails: then it is not submitted."""
    try:
        yield
    except BaseException:
        release_site(run)
        raise


def read_fallback(layers: Layers) -> str:
    """Return ``fallback``; empty without one. Raises `ConfigError` for an unknown value."""
    found = Config(layers.stack.root()).search(FALLBACK, Scope(env=layers.env))
    if found.value in {None, "", LOCAL, ALWAYS}:
        return str(found.value or "")
    raise ConfigError(
        f"'{FALLBACK}' must be '{LOCAL}' or '{ALWAYS}', not '{found.value}'",
        origin=found.origin,
        hint=f"'{LOCAL}' is for a workload manager that cannot be used, '{ALWAYS}' for this machine in any case.",
    )


def _resolve_named(request: _Request, *, may_fall_back: bool) -> ResolvedRun:
    """Resolve a run at the site that it names, or on this machine if its workload manager cannot be used."""
    try:
        # With a fallback the probe comes below: without an answer, no job waits for one.
        run = request.resolve(request.layers, with_probe=request.with_probe and not may_fall_back)
    except UnknownServiceError as error:
        if not may_fall_back:
            raise
        return _fall_back(request, LOCAL, LOCAL, error.message)
    if not may_fall_back or not request.with_probe:
        return run
    report = probe(run.service, run.context)
    if run.service.traits.runs_on_submit_host or (report is not None and report.ok):
        return replace(run, context=msgspec.structs.replace(run.context, probe=report))
    why = f"'{run.configuration.service}' does not answer" if report is None else report.message
    return _fall_back(request, run.configuration.site, run.configuration.service, why)


def _resolve_chosen(request: _Request, question: SiteQuestion) -> tuple[SiteDecision, ResolvedRun | None]:
    """Resolve a run at the site that is chosen; ``None`` if no candidate is left."""
    now = request.layers.now
    decision = choose(question, run_id=request.run_id, now=now)
    while decision.site:
        try:
            run, why_not = _try_site(request, decision.site, question.settings.timeout_s)
        except BaseException:
            withdraw(decision, request.run_id)
            raise
        if run is not None:
            for warning in decision.warnings:
                warn(request.progress, f"choice of the site: {warning}")
            inform(request.progress, decision.summary())
            return decision, replace(run, decision=decision)
        withdraw(decision, request.run_id)
        warn(request.progress, f"the site '{decision.site}' is passed over: {why_not}")
        question = question.without(decision.site, why_not)
        decision = choose(question, run_id=request.run_id, now=now)
    return decision, None


def _try_site(request: _Request, site: str, timeout_s: float) -> tuple[ResolvedRun | None, str]:
    """Resolve a run at a site; ``None`` and why, if its service cannot be used now."""
    try:
        run = request.resolve(at_site(request.layers, site), with_probe=False)
    except UnknownServiceError as error:
        return None, error.message
    if not request.with_probe:
        return run, ""
    report = probe(run.service, run.context, limit_s=timeout_s)
    if report is None:
        return None, f"'{run.configuration.service}' does not answer within {timeout_s:g} s"
    if not report.ok:
        return None, report.message
    return replace(run, context=msgspec.structs.replace(run.context, probe=report)), ""


def _fall_back(
    request: _Request, site: str, service: str, why: str, decision: SiteDecision | None = None
) -> ResolvedRun:
    """Resolve a run on this machine, with the requests that it has at its original site and service."""
    values = {"wmsServiceClass": LOCAL, CONVERT_FROM: {"site": site, "service": short_name(service)}}
    run = request.resolve(at_site(request.layers, LOCAL, values), with_probe=True)
    made = decision or SiteDecision(site=LOCAL, at=request.layers.now, wished=(site,))
    made = msgspec.structs.replace(made, site=LOCAL, fallback=why)
    warn(request.progress, f"{made.summary()}. All jobs run on this machine")
    return replace(run, decision=made)
