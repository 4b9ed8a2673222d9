"""Chooses the site of a run once, by its candidates, needs, loads and waits, and resolves the run there."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from longshore.config.hidden_secrets import hidden_secrets
from longshore.config.interpolate import Scope
from longshore.config.layers import Layers, Overrides, read_layers
from longshore.config.merge import LayerRank, make_layer, map_items
from longshore.config.profile import compile_profile
from longshore.config.search import Config
from longshore.config.service_lookup import short_name
from longshore.contract.algorithms import SelectionSettings, SiteCandidate, SiteSelection
from longshore.contract.capabilities import LOAD_NAMES, LoadReporter
from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import (
    CodeRefusedError,
    ConfigError,
    FilesError,
    LongshoreError,
    SubmissionRefusedError,
    UnknownServiceError,
    UsageError,
)
from longshore.graphs.declarations import PER_JOB
from longshore.model.event import Ended, Submitting
from longshore.model.sites import CandidateRecord, SiteClaim, SiteDecision, SiteState, SiteValue, UnmetRecord
from longshore.model.workflow import Request
from longshore.plan.configuration import CONVERT_FROM, Configuration, Draft, read_draft
from longshore.plan.judgement import judge_site
from longshore.plan.lint import find_payload_names
from longshore.plan.probe import probe
from longshore.plan.resolved_run import ResolvedRun, resolve_configuration, resolve_run, service_context
from longshore.progress import OnceProgress, Progress, QuietProgress, inform, warn
from longshore.rundir.histories import changing_states, claim_site, read_site_states, set_site_values, withdraw_claims
from longshore.rundir.registry import newest_entries
from longshore.rundir.run_directory import read_card
from longshore.runstate.open_run import OpenRun, open_run
from longshore.sites.candidates import (
    ChoiceSettings,
    KnownCandidate,
    read_candidate,
    read_choice_settings,
    withdraw_ended_runs,
)
from longshore.sites.match import JobNeed, RunNeeds, find_unmet, needed_totals
from longshore.sites.profile_files import SitePath
from longshore.sites.site import candidate_sites, candidates_of, require_site, site_folders
from longshore.system.programs import BackgroundCall
from longshore.system.reading import current_directory

# What a run needs of a site, before it has one: the requests that its configuration has for each label.


_DEFAULTED: Final = {"requestMemory": "memory_b", "requestDisk": "disk_b", "requestWalltime": "walltime_s"}


def derive_needs(configuration: Configuration, settings: ChoiceSettings) -> RunNeeds:
    """Derive what a run needs: the given job specification, else what the jobs of each label ask for.

    Requests that only defaults have are left out: they are lowered to what a site has. So are requests that differ
    from job to job, which are checked when the jobs are made.
    """
    if settings.specification is not None:
        return RunNeeds(specification=settings.specification, requires=settings.requires)
    # No site is chosen yet, and candidates are no name of a site.
    without_site = configuration.with_top_layer(
        make_layer({"computeSite": None, "bps_cmdline": {"computeSite": None}}, "computed", LayerRank.COMMAND_LINE)
    )
    return RunNeeds(jobs=tuple(_job_needs(without_site)), requires=settings.requires)


def _job_needs(configuration: Configuration) -> Iterator[JobNeed]:
    config = configuration.config
    labels = find_payload_names(configuration, files=True).labels
    if labels is None:
        labels = frozenset(map_items(config.node_at("pipetask")))
    clusters = [name for name, node in map_items(config.node_at("cluster")).items() if isinstance(node.value, dict)]
    for label in [*sorted(labels), *clusters]:
        try:
            profile = compile_profile(
                config,
                label,
                replace(configuration.scope(), free=frozenset(PER_JOB)),
                cluster=label,
                with_command=False,
            )
        except ConfigError:
            # It is reported with its place when the jobs are made.
            continue
        settings = profile.settings
        queue = settings.attributes.get("queue")
        yield JobNeed(
            label=label,
            request=_chosen_request(settings.request, settings.defaulted),
            partitions=(str(queue),) if queue else (),
        )


def _chosen_request(request: Request, defaulted: tuple[str, ...]) -> Request:
    amounts = {name: None for key, name in _DEFAULTED.items() if key in defaulted}
    cpus = 1 if "requestCpus" in defaulted else request.cpus
    return Request(
        cpus=cpus,
        memory_b=amounts.get("memory_b", request.memory_b),
        disk_b=amounts.get("disk_b", request.disk_b),
        walltime_s=amounts.get("walltime_s", request.walltime_s),
        resources=request.resources,
    )


# The question at which site a run is to be: its candidates, what it needs, and how one of them is chosen.


class SiteQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates of a run, what it needs, and the settings of the choice."""

    draft: Draft
    wished: tuple[str, ...]
    candidates: tuple[KnownCandidate, ...]
    needs: RunNeeds
    settings: ChoiceSettings

    def without(self, site: str, why: str) -> SiteQuestion:
        """Return the question with a candidate that is passed over."""
        passed = KnownCandidate(name=site, left_out=why)
        return replace(self, candidates=tuple(passed if each.name == site else each for each in self.candidates))


def ask_for_site(layers: Layers, *, default: str = "") -> SiteQuestion | None:
    """Return the question of a configuration that names candidates; ``None`` if it names a site, or none.

    With a `default`, a site that is named is the only candidate, and the default stands for none.

    Raises `ConfigError` if a candidate is unknown or a setting of the choice is wrong.
    """
    base, env = Config(layers.stack.root()), layers.env
    written = base.search("computeSite", Scope(env=env))
    value = written.as_written or default
    if not isinstance(value, str | list) or not value:
        return None
    sites = SitePath(site_folders(base, env), env)
    names = candidates_of(value, base, sites, written.origin)
    if names is None and default:
        names = candidate_sites([str(value)], base, sites, written.origin)
    if names is None:
        return None
    draft = Draft(layers=layers, base=base, sites=sites, config=base, site="", service="", service_origin=None)
    settings = read_choice_settings(base, layers.path.parent)
    wished = value if isinstance(value, list) else [value]
    return SiteQuestion(
        draft=draft,
        wished=tuple(map(str, wished)),
        candidates=tuple(read_candidate(name, base, sites) for name in names),
        needs=derive_needs(draft, settings),
        settings=settings,
    )


# Asks the workload managers of several sites how busy they are, side by side, and stores what they answer.


NAMES: Final = LOAD_NAMES | {"load"}
"""Values of a site that a workload manager may know, and the share that they give."""
_ASKING: Final = frozenset({"least_loaded", "fastest_start"})


def needs_loads(question: SiteQuestion) -> bool:
    """Whether the selection may use what a workload manager knows."""
    if question.settings.name in _ASKING:
        return True
    written = str(question.settings.options.get("priorities", question.settings.options.get("options", "")))
    return question.settings.name == "constraint" and any(name in written for name in NAMES)


class SiteLoads(NamedTuple):
    """Answers of sites by name, and a note on each site whose plug-in failed."""

    answers: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...] = ()


def query_loads(question: SiteQuestion, names: Sequence[str]) -> SiteLoads:
    """Ask these sites at once, and wait for the time-out at most; fresh answers are not asked for again."""
    now = time.time()
    stale = [name for name, state in read_site_states(names).items() if not _is_fresh(state, now, question)]
    calls: dict[str, BackgroundCall[dict[str, float] | str]] = {name: BackgroundCall() for name in stale}
    for name, call in calls.items():
        call.start(lambda name=name: _query(question, name))  # type: ignore[misc]
    deadline = time.monotonic() + question.settings.timeout_s
    answers: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    for name, call in calls.items():
        for answer in call.take_result(timeout_s=max(0.001, deadline - time.monotonic())):
            if isinstance(answer, str):
                notes.append(answer)
            elif answer:
                answers[name] = answer
                set_site_values(name, lambda state, answer=answer: _with_answers(state, answer))  # type: ignore[misc]
    return SiteLoads(answers, tuple(notes))


def _is_fresh(state: SiteState, now: float, question: SiteQuestion) -> bool:
    times = [value.at for value in state.values.values() if value.by == "probe" and value.at is not None]
    return bool(times) and now - max(times) <= question.settings.stale_s


def _with_answers(state: SiteState, answer: Mapping[str, float]) -> SiteState:
    now = time.time()
    return state.newer({name: SiteValue(value=value, at=now, by="probe") for name, value in answer.items()})


def _query(question: SiteQuestion, name: str) -> dict[str, float] | str:
    """Ask one site; nothing where its service does not know, cannot be asked, or its profile is wrong.

    A text is a note: a plug-in of others may fail in any way, and that concerns its site only.
    """
    try:
        configuration = resolve_configuration(question.draft.at_site(name), is_static=True)
        service = configuration.load_service()
        if not isinstance(service, LoadReporter):
            return {}
        context = service_context(configuration, service, RunPaths(Path(current_directory())), is_static=True)
        return {key: float(value) for key, value in service.query_load(context).items()}
    except LongshoreError:
        return {}
    except Exception as error:  # noqa: BLE001 - the code of a plug-in
        return f"the load of the site '{name}' is not known: its service failed with {type(error).__name__}: {error}"


# Times that the user's earlier jobs waited at each site, from the journals of the newest runs.


_MOST_RUNS: Final = 50
"""Newest runs that are looked at."""
_MOST_WAITS: Final = 200
"""Waits of one run."""


def read_waits(sites: Collection[str]) -> dict[str, list[float]]:
    """Return the seconds that jobs waited in queues, by site; runs that cannot be read are left out."""
    found: dict[str, list[float]] = {}
    for entry in islice(newest_entries(), _MOST_RUNS):
        with suppress(LongshoreError, OSError):
            site = read_card(RunPaths(Path(entry.path))).attributes.get("bps_runsite", "")
            if site in sites:
                found.setdefault(site, []).extend(islice(_waits(open_run(entry.path)), _MOST_WAITS))
    return found


def _waits(opened: OpenRun) -> Iterator[float]:
    """Yield the wait of each attempt that ended: by the workload manager, else between submission and start."""
    read = opened.events()
    if isinstance(read, Unreachable):
        return
    submitted: dict[tuple[int, int], float] = {}
    for event in read[0]:
        if isinstance(event, Submitting):
            submitted |= dict.fromkeys(event.jobs, event.t)
        elif isinstance(event, Ended):
            began = submitted.pop((event.j, event.a), None)
            if event.queue_s is not None:
                yield event.queue_s
            elif began is not None and event.start is not None:
                yield max(0.0, event.start - began)


# Chooses the site of a run, once: matches the candidates, selects by their state, and records both (decision 0160).


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


# Resolves a run at the site that is chosen for it, or on this machine instead. A site whose workload manager does not
# answer is passed over. Where no site is left, ``fallback: local`` lets the run go to this machine; ``--local`` does so
# at once.


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
    probed = replace(run, context=msgspec.structs.replace(run.context, probe=report))
    if run.service.traits.runs_on_submit_host:
        return probed
    why = f"'{run.configuration.service}' does not answer" if report is None else _refusal(probed)
    if not why:
        return probed
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
    run = replace(run, context=msgspec.structs.replace(run.context, probe=report))
    why = _refusal(run)
    return (None, why) if why else (run, "")


def _refusal(run: ResolvedRun) -> str:
    """Return why a workload manager that was asked takes no job of a site; empty if it may."""
    found = judge_site(run.configuration, run.service, run.context)
    # Amounts are matched with each job's own.
    return "; ".join(each.message for each in found if each.fatal and not each.key.startswith("request"))


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


# ``longshore site match`` and ``site set-state``: a choice without a run, and states from outside.


_PAIR: Final = re.compile(r"([A-Za-z_]\w{0,99})=(.{0,1000})", re.ASCII | re.DOTALL)
_MOST_VALUES: Final = 200


@hidden_secrets()
def match_sites(
    path: Path, overrides: Overrides | None = None, *, seed: int | None = None, with_probe: bool = True
) -> SiteDecision:
    """Match the candidates of a configuration, and select one, without a run; ``computeSite`` is ``auto`` by default.

    With a probe, a candidate whose workload manager cannot be used now is passed over, as by a submission.

    Raises `ConfigError` if a value is wrong, `UsageError` for a malformed ``--set``.
    """
    now = time.time()
    # A command that only looks at a configuration imports none of its code.
    given = replace(overrides or Overrides(), imports_code=False)
    if seed is not None:
        given = replace(given, sets=(*given.sets, f"siteSelection.select.seed={seed}"))
    layers = read_layers(path, given, now=now)
    if read_fallback(layers) == ALWAYS:
        return SiteDecision(site=LOCAL, at=now, wished=(read_draft(layers, now=now).site,), fallback=ALWAYS_REASON)
    question = ask_for_site(layers, default="auto")
    assert question is not None
    try:
        return match_candidates(layers, question, with_probe=with_probe)
    except CodeRefusedError:
        # What it generates is not known, and so no site can be asked for its run.
        return choose(question, run_id="", now=now)


def change_site_state(name: str, pairs: Sequence[str], site_path: Sequence[str] = ()) -> SiteState:
    """Set values of a site as ``NAME=VALUE``, and return its state; ``NAME=`` removes one. Without pairs, only read.

    Other values stay. Raises `ConfigError` if there is no such site, `UsageError` for a malformed pair.
    """
    require_site(name, site_path)
    changes = dict(_parse(pair) for pair in pairs)
    if not changes:
        return read_site_states([name])[name]
    now = time.time()

    def change(state: SiteState) -> SiteState:
        kept = {key: value for key, value in state.values.items() if key not in changes}
        given = {key: SiteValue(value=value, at=now, by="set") for key, value in changes.items() if value is not None}
        if len(kept | given) > _MOST_VALUES:
            raise UsageError(f"a site has at most {_MOST_VALUES} values")
        return msgspec.structs.replace(state, values=kept | given)

    return set_site_values(name, change)


def _parse(pair: str) -> tuple[str, float | str | None]:
    found = _PAIR.fullmatch(pair)
    if found is None:
        raise UsageError(
            f"'{pair}' is no value of a site", hint="Write NAME=VALUE, such as nodes_free=12, or NAME= to remove it."
        )
    name, text = found[1], found[2].strip()
    if not text:
        return name, None
    try:
        number = float(text)
    except ValueError:
        return name, text
    if not math.isfinite(number):
        raise UsageError(f"'{name}' must be a finite number or a text, not '{text}'")
    return name, number
