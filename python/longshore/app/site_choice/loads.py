"""Asks the workload managers of several sites how busy they are, side by side, and stores what they answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from longshore.app.configure.layers import current_directory
from longshore.app.configure.resolved_run import resolve_configuration, service_context
from longshore.app.configure.service_lookup import find_service
from longshore.contract.capabilities import LOAD_NAMES, LoadReporter
from longshore.contract.context import RunPaths
from longshore.errors import LongshoreError
from longshore.model.sites.site_state import SiteState, SiteValue
from longshore.world.processes.background_call import BackgroundCall
from longshore.world.runs.site_states import read_site_states, set_site_values

if TYPE_CHECKING:
    from longshore.app.site_choice.question import SiteQuestion

NAMES: Final = LOAD_NAMES | {"load"}
"""Values of a site that a workload manager may know, and the share that they give."""
_ASKING: Final = frozenset({"least_loaded", "fastest_start"})


def needs_loads(question: SiteQuestion) -> bool:
    """Whether the selection may use what a workload manager knows."""
    if question.settings.name in _ASKING:
        return True
    written = str(question.settings.options.get("priorities", question.settings.options.get("options", "")))
    return question.settings.name == "constraint" and any(name in written for name in NAMES)


def query_loads(question: SiteQuestion, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Ask these sites at once, and wait for the time-out at most; fresh answers are not asked for again."""
    now = time.time()
    stale = [name for name, state in read_site_states(names).items() if not _is_fresh(state, now, question)]
    calls: dict[str, BackgroundCall[dict[str, float]]] = {name: BackgroundCall() for name in stale}
    for name, call in calls.items():
        call.start(lambda name=name: _query(question, name))  # type: ignore[misc]
    deadline = time.monotonic() + question.settings.timeout_s
    answers: dict[str, dict[str, float]] = {}
    for name, call in calls.items():
        for answer in call.take_result(timeout_s=max(0.001, deadline - time.monotonic())):
            if answer:
                answers[name] = answer
                set_site_values(name, lambda state, answer=answer: _with_answers(state, answer))  # type: ignore[misc]
    return answers


def _is_fresh(state: SiteState, now: float, question: SiteQuestion) -> bool:
    times = [value.at for value in state.values.values() if value.by == "probe" and value.at is not None]
    return bool(times) and now - max(times) <= question.settings.stale_s


def _with_answers(state: SiteState, answer: Mapping[str, float]) -> SiteState:
    now = time.time()
    return state.newer({name: SiteValue(value=value, at=now, by="probe") for name, value in answer.items()})


def _query(question: SiteQuestion, name: str) -> dict[str, float]:
    """Ask one site; nothing where its service does not know, cannot be asked, or its profile is wrong."""
    try:
        configuration = resolve_configuration(question.draft.at_site(name), is_static=True)
        service = find_service(configuration.service, origin=configuration.service_origin)
        if not isinstance(service, LoadReporter):
            return {}
        context = service_context(configuration, service, RunPaths(Path(current_directory())), is_static=True)
        return dict(service.query_load(context))
    except LongshoreError:
        return {}
