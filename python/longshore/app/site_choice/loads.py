"""Asks the workload managers of several sites how busy they are, side by side, and stores what they answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from longshore.app.configure.resolved_run import resolve_configuration, service_context
from longshore.contract.capabilities import LOAD_NAMES, LoadReporter
from longshore.contract.service import RunPaths
from longshore.errors import LongshoreError
from longshore.model.sites import SiteState, SiteValue
from longshore.rundir.histories import read_site_states, set_site_values
from longshore.system.programs import BackgroundCall
from longshore.system.reading import current_directory

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
