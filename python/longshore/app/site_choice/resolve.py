"""Resolves a run at the site that is chosen for it; a site whose workload manager does not answer is passed over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from longshore.app.configure.layers import Layers, Overrides, read_layers
from longshore.app.configure.probe import probe
from longshore.app.configure.resolved_run import ResolvedRun, resolve_run
from longshore.app.progress import Progress, inform, warn
from longshore.app.site_choice.choose import at_site, choose, no_site_error, withdraw
from longshore.app.site_choice.question import SiteQuestion, ask_for_site
from longshore.errors import UnknownServiceError


def resolve_at_chosen_site(
    path: Path,
    overrides: Overrides | None,
    *,
    now: float,
    progress: Progress,
    run_id: str = "",
    with_probe: bool = True,
) -> ResolvedRun:
    """Resolve a run; where its configuration names candidates, one of them is chosen, once.

    With an id, the run counts at its site from now on; `release_site` takes that back. Raises `LongshoreError` as
    `resolve_run`, and `SubmissionRefusedError` if no candidate passes.
    """
    layers = read_layers(path, overrides, now=now)
    question = ask_for_site(layers)
    if question is None:
        return resolve_run(layers, now=now, progress=progress, run_id=run_id, with_probe=with_probe)
    decision = choose(question, run_id=run_id, now=now)
    while decision.site:
        try:
            run, why_not = _try_site(layers, decision.site, question, progress, run_id, with_probe=with_probe)
        except BaseException:
            withdraw(decision, run_id)
            raise
        if run is not None:
            for warning in decision.warnings:
                warn(progress, f"choice of the site: {warning}")
            inform(progress, decision.summary())
            return replace(run, decision=decision)
        withdraw(decision, run_id)
        warn(progress, f"the site '{decision.site}' is passed over: {why_not}")
        question = question.without(decision.site, why_not)
        decision = choose(question, run_id=run_id, now=now)
    raise no_site_error(decision, path)


def release_site(run: ResolvedRun) -> None:
    """Count a run that is not submitted at its site no more."""
    withdraw(run.decision, run.id)


def _try_site(
    layers: Layers, site: str, question: SiteQuestion, progress: Progress, run_id: str, *, with_probe: bool
) -> tuple[ResolvedRun | None, str]:
    """Resolve a run at a site; ``None`` and why, if its service cannot be used now."""
    try:
        run = resolve_run(at_site(layers, site), now=layers.now, progress=progress, run_id=run_id, with_probe=False)
    except UnknownServiceError as error:
        return None, error.message
    if not with_probe:
        return run, ""
    report = probe(run.service, run.context, limit_s=question.settings.timeout_s)
    if report is None:
        return None, f"'{run.configuration.service}' does not answer within {question.settings.timeout_s:g} s"
    if not report.ok:
        return None, report.message
    return replace(run, context=msgspec.structs.replace(run.context, probe=report)), ""
