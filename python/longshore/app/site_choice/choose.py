"""Chooses the site of a run, once: matches the candidates, selects by their state, and records both (decision 0160)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.configure.layers import Layers, read_layers
from longshore.app.site_choice.ended_runs import withdraw_ended_runs
from longshore.app.site_choice.loads import SiteLoads, needs_loads, query_loads
from longshore.app.site_choice.question import SiteQuestion, ask_for_site
from longshore.app.site_choice.site_facts import KnownCandidate
from longshore.app.site_choice.site_waits import read_waits
from longshore.config.interpolate import Scope
from longshore.contract.algorithms import SelectionSettings, SiteCandidate, SiteSelection
from longshore.errors import ConfigError, FilesError, SubmissionRefusedError
from longshore.model.sites import CandidateRecord, SiteClaim, SiteDecision, SiteState, SiteValue, UnmetRecord
from longshore.rundir.histories import changing_states, claim_site, read_site_states, withdraw_claims
from longshore.sites.match import find_unmet, needed_totals

_MOST_NAMED: Final = 3
_MAX_SEED: Final = 2**31
_NO_LOADS: Final = SiteLoads({})
_BY_WAITS: Final = "fastest_start"
"""Algorithm that selects by the waits of earlier jobs."""


def decide(question: SiteQuestion, *, now: float) -> SiteDecision:
    """Match the candidates and select one by their stored states; no site is asked."""
    return _decide(question, _match_all(question), now=now)


def choose(question: SiteQuestion, *, run_id: str, now: float) -> SiteDecision:
    """Decide by what sites answer, and count the run at its site at once, if it has an id.

    No other choice comes in between: it waits, so that nothing slow is done meanwhile.
    """
    records = _match_all(question)
    matching = [record.name for record in records if record.matches]
    loads = query_loads(question, matching) if needs_loads(question) else _NO_LOADS
    withdraw_ended_runs(matching)
    waits = read_waits(matching) if question.settings.name == _BY_WAITS else {}
    if not run_id:
        return _decide(question, records, now=now, loads=loads, waits=waits)
    with changing_states():
        decision = _decide(question, records, now=now, loads=loads, waits=waits)
        if decision.site:
            claim_site(decision.site, claim_of(question, run_id, now))
    return decision


def _decide(
    question: SiteQuestion,
    records: Sequence[CandidateRecord],
    *,
    now: float,
    loads: SiteLoads = _NO_LOADS,
    waits: Mapping[str, Sequence[float]] | None = None,
) -> SiteDecision:
    """Select one of the candidates; `loads` is what sites just answered, and `waits` those of earlier jobs.

    Runs that were sent to a site count at once. Without a seed one is drawn, and recorded.
    """
    matching = [record.name for record in records if record.matches]
    states = read_site_states(matching)
    counted = {name: _state_of(question, name, states[name], loads.answers.get(name, {}), now) for name in matching}
    records = [
        msgspec.structs.replace(record, state=counted[record.name]) if record.matches else record for record in records
    ]
    seed = question.settings.seed
    seed = random.randrange(_MAX_SEED) if seed is None else seed  # noqa: S311
    found = _select(question, records, seed, waits or {})
    return SiteDecision(
        site=found.site or "",
        at=now,
        wished=question.wished,
        algorithm=question.settings.name,
        seed=seed,
        candidates=tuple(records),
        steps=found.steps,
        warnings=(*loads.notes, *found.warnings),
    )


def at_first_match(layers: Layers) -> Layers:
    """Return the layers at the first candidate that matches, for a check that asks nothing and no site.

    Raises `ConfigError` if a setting of the choice is wrong or no candidate matches; layers without candidates are
    returned as they are.
    """
    question = ask_for_site(layers)
    if question is None:
        return layers
    records = _match_all(question)
    found = next((record.name for record in records if record.matches), None)
    if found is None:
        error = no_site_error(SiteDecision(site="", at=layers.now, candidates=tuple(records)), layers.path)
        origin = question.draft.base.search("computeSite", Scope(env=layers.env)).origin
        raise ConfigError(error.message, origin=origin, hint=error.hint)
    return at_site(layers, found)


def claim_of(question: SiteQuestion, run_id: str, now: float) -> SiteClaim:
    """Return what a run takes of a site: the nodes and processors of its job specification, else of one job."""
    specification = question.needs.specification
    if specification is None:
        cpus = max((job.request.cpus for job in question.needs.jobs), default=1)
        return SiteClaim(run=run_id, at=now, nodes=1, cpus=cpus)
    totals = needed_totals(specification)
    return SiteClaim(run=run_id, at=now, nodes=totals.get("node", 1), cpus=totals.get("core", 1))


def withdraw(decision: SiteDecision | None, run_id: str) -> None:
    """Count a run at its site no more."""
    if decision is not None and decision.site:
        # The error for which the run is not submitted matters more; a claim ends by itself.
        with suppress(FilesError):
            withdraw_claims(decision.site, [run_id])


def _match_all(question: SiteQuestion) -> list[CandidateRecord]:
    return [_match(candidate, question) for candidate in question.candidates]


def _match(candidate: KnownCandidate, question: SiteQuestion) -> CandidateRecord:
    if candidate.facts is None:
        return CandidateRecord(name=candidate.name, matches=False, left_out=candidate.left_out)
    unmet = find_unmet(candidate.facts, question.needs, question.settings.backend, question.settings.algorithms)
    records = tuple(UnmetRecord(what=each.what, asked=each.asked, nearest=each.nearest) for each in unmet)
    return CandidateRecord(name=candidate.name, matches=not unmet, unmet=records)


def _state_of(
    question: SiteQuestion, name: str, stored: SiteState, probed: Mapping[str, float], now: float
) -> dict[str, SiteValue]:
    """Return the values of a site: its answer over stored values over its profile."""
    profile = next(each.state for each in question.candidates if each.name == name)
    answers = {key: SiteValue(value=value, at=now, by="probe") for key, value in probed.items()}
    merged = SiteState(values=profile).newer(stored.values).newer(answers)
    return msgspec.structs.replace(merged, claims=stored.claims).counted_values(now)


def _select(
    question: SiteQuestion, records: Sequence[CandidateRecord], seed: int, waits: Mapping[str, Sequence[float]]
) -> SiteSelection:
    settings = question.settings
    among = [
        SiteCandidate(
            name=each.name,
            state={name: value.value for name, value in each.state.items()},
            waits_s=waits.get(each.name, ()),
        )
        for each in records
        if each.matches and not each.left_out
    ]
    if not among:
        return SiteSelection(site=None, steps=("no site matches",))
    specification = question.needs.specification
    parameters = specification.parameters if specification is not None else {}
    return settings.select(among, SelectionSettings(options=settings.options, seed=seed, parameters=parameters))


def no_site_error(decision: SiteDecision, path: Path) -> SubmissionRefusedError:
    """Return the refusal of a run without a site, with the reasons of the first candidates."""
    reasons = []
    for each in decision.candidates[:_MOST_NAMED]:
        lacks = [f"{unmet.what}: asked {unmet.asked}, nearest {unmet.nearest}" for unmet in each.unmet[:1]]
        reasons.append(f"{each.name} ({each.left_out or next(iter(lacks), 'did not pass the selection')})")
    more = len(decision.candidates) - _MOST_NAMED
    others = f" and {more} more" if more > 0 else ""
    return SubmissionRefusedError(
        f"no site of {len(decision.candidates)} passes: {', '.join(reasons)}{others}",
        hint=f"'longshore site match {quote(str(path))} --explain' shows what each lacks.",
    )


def at_site(layers: Layers, site: str, more: Mapping[str, object] | None = None) -> Layers:
    """Return the layers with the site, and more values, as if ``--set`` named them; a later ``--set`` still wins."""
    given = layers.overrides
    values = {"computeSite": site, **(more or {})}
    options = {key: value for key, value in given.options.items() if key not in values}
    chosen = [f"{key}={msgspec.json.encode(value).decode()}" for key, value in values.items()]
    return read_layers(layers.path, replace(given, options=options, sets=(*given.sets, *chosen)), now=layers.now)
