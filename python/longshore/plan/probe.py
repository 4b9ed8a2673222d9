"""Probe of a workload manager before a run: bounded in time, and shared by the submissions of a minute."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any, Final

import msgspec

from longshore.contract.capabilities import JobProbe
from longshore.contract.service import Context, PingReport, Problem, WmsService
from longshore.errors import UnreachableError
from longshore.model.workflow import Job
from longshore.plan.problems import raise_problems
from longshore.progress import Progress, warn
from longshore.rundir.registry import state_folder
from longshore.system.folder import remove_file
from longshore.system.programs import BackgroundCall
from longshore.system.room import bound_cache
from longshore.system.sharing import cached_answer

PROBE_LIMIT_S: Final = 3.5
"""Seconds that a submission waits for the answer on a site."""
_JOBS_LIMIT_S: Final = 1.5
"""Seconds that it then waits for an answer on its jobs."""
SITE_LIMIT_S: Final = 30.0
"""Seconds that a command waits for either that only looks at a site."""
_ASK_AGAIN: Final = (
    "'longshore ping' with the same options, and the file as --config, shows what it answers. --no-probe submits all "
    "the same."
)
_FRESH_S: Final = 60.0
_MOST_ANSWERS: Final = 200
"""Files of shared answers that are kept, each with its lock."""
_OF_SESSION: Final = re.compile(
    r"_|PWD|OLDPWD|SHLVL|SHELL|PS\d|HIST\w+|TERM|TERM_\w+|COLORTERM|COLUMNS|LINES|LS_COLORS|LESS\w*|PAGER|EDITOR|VISUAL"
    r"|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|WINDOW|WINDOWID|STY|TMUX|TMUX_\w+|VTE_\w+|GPG_TTY|SSH_\w+|DBUS_\w+|XDG_SESSION\w*"
    r"|XDG_RUNTIME_DIR|TMPDIR|MAIL|NO_COLOR|FORCE_COLOR|PYTEST_CURRENT_TEST"
)
"""Variables that differ between terminals of one user and choose no cluster."""


def probe(service: WmsService, context: Context, *, limit_s: float = PROBE_LIMIT_S) -> PingReport | None:
    """Return the answer of a workload manager; ``None`` if it does not come in time.

    Good answers are shared by all submissions of a user on this host for a minute.
    """
    if service.traits.runs_on_submit_host:
        return service.ping(context)
    call: BackgroundCall[PingReport] = BackgroundCall()
    call.start(lambda: _ask(service, context))
    return next(iter(call.take_result(timeout_s=limit_s)), None)


def find_answer_problems(report: PingReport | None) -> list[Problem]:
    """Return why a workload manager takes no run of a site at all: it does not answer, or has nothing for any.

    What concerns only some jobs is found by the checks of jobs.
    """
    if report is None:
        return []
    if fatal := [each for each in report.problems if each.fatal]:
        return fatal
    return [] if report.ok else [Problem(message=report.message, code=UnreachableError.code)]


def refuse_by_probe(report: PingReport | None) -> None:
    """Raise the error of a workload manager that takes no run of the site at all, before its payload is read.

    Raises `LongshoreError`, of the type that `longshore.errors.error_type` has for what is wrong.
    """
    if report is None:
        return
    raise_problems(
        msgspec.structs.replace(
            each,
            message=f"the workload manager '{report.service}' does not take this run: {each.message}",
            hint=f"{each.hint} {_ASK_AGAIN}".strip(),
        )
        for each in find_answer_problems(report)
    )


def note_unanswered_probe(service: str, file: str, progress: Progress) -> None:
    """Warn that a workload manager does not answer in time."""
    warn(
        progress,
        f"'{service}' does not answer within {PROBE_LIMIT_S + _JOBS_LIMIT_S:.0f} s: what it offers is not checked, and "
        f"jobs wait until it answers. 'longshore ping --config {quote(file)}' asks again, and waits longer",
    )


def probe_jobs(
    service: WmsService, jobs: Iterable[Job], context: Context, *, limit_s: float | None = None
) -> list[Problem]:
    """Return what the workload manager does not have for some jobs; nothing if it does not answer in time.

    An answer by which a job is refused is discarded: the next submission asks whether that was mended.
    """
    if not isinstance(service, JobProbe) or context.probe is None:
        return []
    chosen, probed = list(jobs), service
    call: BackgroundCall[list[Problem]] = BackgroundCall()
    call.start(lambda: [*probed.probe_jobs(chosen, context)])
    found = next(iter(call.take_result(timeout_s=_JOBS_LIMIT_S if limit_s is None else limit_s)), [])
    if any(each.fatal for each in found):
        _forget_probe(service, context)
    return found


def _forget_probe(service: WmsService, context: Context) -> None:
    """Discard the shared answer on a site."""
    with suppress(OSError):
        remove_file(_cache_file(service, context))


def _ask(service: WmsService, context: Context) -> PingReport:
    found: list[PingReport] = []

    def query() -> tuple[str | None, str]:
        found.append(report := service.ping(context))
        # A bad answer is told at once, and asked for anew: somebody may mend its cause meanwhile.
        return (msgspec.json.encode(report).decode(), "") if report.ok else (None, report.message)

    path = _cache_file(service, context)
    bound_cache(path.parent, most=_MOST_ANSWERS)
    answer = cached_answer(path, max_age_s=_FRESH_S, query=query)
    if found:
        return found[0]
    if answer is None or answer.text is None:
        return service.ping(context)
    return msgspec.json.decode(answer.text, type=PingReport)


def _cache_file(service: WmsService, context: Context) -> Path:
    return state_folder() / "probes" / f"{_key(service, context)}.json"


def _key(service: WmsService, context: Context) -> str:
    """Return what tells apart the answers of clusters and sites; variables of the environment choose a cluster.

    Any variable may be read by a service, except those that describe a terminal, a session or a shell.
    """
    variables = sorted((name, value) for name, value in os.environ.items() if not _OF_SESSION.fullmatch(name))
    asked: list[Any] = [type(service).__module__, service.name, context.settings, context.site.settings, variables]
    return sha256(repr(asked).encode(errors="surrogateescape")).hexdigest()[:32]
