"""Composes notices from the report of a run (pure functions)."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

import msgspec
from msgspec import structs

from longshore.model.notice import Notice, NoticeEvent, NoticeRule
from longshore.model.run.report import Failure, RunReport, count_failed_jobs
from longshore.model.run.states import JobState
from longshore.model.wording import count_noun

_MAX_GROUPS: Final = 5
"""Groups of failures in one notice."""
_MAX_LINE: Final = 300
_SUBJECTS: Final = {
    NoticeEvent.START: "started",
    NoticeEvent.FIRST_FAILURE: "first failure",
    NoticeEvent.HOLD: "on hold",
    NoticeEvent.STOPPED: "stopped: nothing drives it any more",
}


def compose_notice(event: NoticeEvent, report: RunReport, run_id: str) -> Notice:
    """Compose the notice of an event; `run_id` is the id that the run keeps over restarts."""
    title = report.state.value if event is NoticeEvent.END else _SUBJECTS[event]
    return Notice(
        event=event,
        run=run_id,
        name=_one_line(report.name),
        directory=report.path,
        service=report.service,
        state=report.state,
        counts={state: number for state, number in report.counts.items() if number},
        subject=_one_line(f"longshore: {report.name} ({run_id}) {title}{_share_done(event, report)}"),
        text="\n".join(_lines(event, report, run_id)) + "\n",
    )


def trial_notice(name: str) -> Notice:
    """Return a notice that tells no event, for a user who tries the rules of a configuration of that name."""
    return Notice(
        event=NoticeEvent.END,
        run="test",
        name=_one_line(name),
        directory="",
        service="",
        state=JobState.UNKNOWN,
        counts={},
        subject=_one_line(f"longshore: test of the notices of {name}"),
        text=f"This is a test of the notices of {_one_line(name)}. No run is concerned.\n",
    )


def webhook_body(notice: Notice, rule: NoticeRule) -> bytes:
    """Return the JSON that a webhook gets."""
    if rule.format == "slack":
        # In Slack's language, foreign text between angle brackets would call a whole channel or show another link.
        return msgspec.json.encode({"text": escape(f"{notice.subject}\n{notice.text}", quote=False)})
    # A path may have bytes that are no UTF-8.
    directory = notice.directory.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return msgspec.json.encode(structs.replace(notice, directory=directory))


def command_variables(notice: Notice) -> dict[str, str]:
    """Return the environment variables that a command gets; none has a null character."""
    return {
        "LONGSHORE_EVENT": notice.event.value,
        "LONGSHORE_SUBJECT": notice.subject,
        "LONGSHORE_RUN": notice.run,
        "LONGSHORE_RUN_NAME": notice.name,
        "LONGSHORE_RUN_DIRECTORY": notice.directory.replace("\0", ""),
        "LONGSHORE_STATE": notice.state.value,
    }


def _share_done(event: NoticeEvent, report: RunReport) -> str:
    done = report.counts.get(JobState.SUCCEEDED, 0)
    return "" if event is NoticeEvent.START else f", {done} of {count_noun(report.expected, 'job')} succeeded"


def _lines(event: NoticeEvent, report: RunReport, reference: str) -> Iterator[str]:
    counts = ", ".join(f"{number} {state.value}" for state, number in report.counts.items() if number)
    yield _one_line(f"{report.name} is {report.state.value}: {counts or 'no job yet'}")
    yield _one_line(f"Directory: {report.path}")
    yield from (_one_line(note) for note in report.notes)
    if report.summary is not None and event is not NoticeEvent.START:
        failures = report.summary.failures
        yield from map(_failure_line, failures[:_MAX_GROUPS])
        if len(failures) > _MAX_GROUPS:
            rest = count_failed_jobs(failures) - count_failed_jobs(failures[:_MAX_GROUPS])
            yield f"and {count_noun(len(failures) - _MAX_GROUPS, 'more group')} of {count_noun(rest, 'failed job')}"
    yield ""
    yield f"More: longshore report --id {reference}"
    if event is NoticeEvent.STOPPED:
        yield f"To go on: longshore resume {reference}"
    elif event is NoticeEvent.HOLD and report.paused:
        yield f"To go on: longshore unpause {reference}"
    elif event is NoticeEvent.HOLD:
        yield f"To go on: longshore release {reference}"
    elif event is NoticeEvent.END and report.state is not JobState.SUCCEEDED:
        yield f"To run again what did not succeed: longshore restart {reference}"


def _failure_line(group: Failure) -> str:
    how = group.cause.value if group.cause else "failed"
    if group.exit_code is not None:
        how += f", exit code {group.exit_code}"
    message = group.message or group.reason or "no message"
    if group.unread:
        how += f", and perhaps more of {group.unread} whose logs were not read"
    return _one_line(f"{count_noun(group.count, 'job')} of '{group.label}' ({how}), such as {group.job}: {message}")


def _one_line(text: str) -> str:
    """Return a text without line breaks and other control characters, and not too long for a subject."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain if len(plain) <= _MAX_LINE else plain[: _MAX_LINE - 3] + "..."
