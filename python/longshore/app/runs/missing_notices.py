"""Finds notices that nothing sends: their notifier was killed, or never started."""

from __future__ import annotations

from typing import Final

from longshore.app.runs.open_run import OpenRun
from longshore.app.runs.run_phase import find_life, find_phase
from longshore.engine.policy.due_notices import RunPhase, due_events, unsent
from longshore.engine.run.notifier_process import is_notifier_at_work, longest_notices_s
from longshore.engine.rundir.notice_log import read_notice_records, read_notice_rules, read_notifier
from longshore.model.notice import NoticeEvent
from longshore.model.run.report import RunReport
from longshore.model.wording import count_noun
from longshore.world.host import host_name
from longshore.world.runs.archived_runs import archive_of

_START_S: Final = 60.0
"""Time after the end of a run in which its notifier may still start, such as on a host that is busy."""


def describe_missing_notices(opened: OpenRun, report: RunReport, now: float) -> str:
    """Return a sentence on notices that nothing sends, with the command that does; empty if there are none.

    Only for runs with rules, it reads more than one small file.
    """
    run = opened.run
    rules = read_notice_rules(run)
    # Looked at before the records: a notifier that ends meanwhile has written them all.
    if not rules or is_notifier_at_work(run) or archive_of(run):
        return ""
    life = find_life(opened)
    notifier = read_notifier(run)
    # The locks of other hosts may not be visible here.
    is_dead = notifier is not None and notifier.life == life and notifier.host == host_name()
    latest = (report.finished_at or now) + longest_notices_s(run) + _START_S
    if not is_dead and now < latest:
        return ""
    records = read_notice_records(run)
    missing = len(list(unsent(rules, records)))
    phase = RunPhase.OVER
    # All that was due is recorded with the end; else it may cost a question to the workload manager.
    if due_events(report, phase, records, life):
        phase = find_phase(opened, report, alive=opened.is_alive())
        if not is_dead and phase is not RunPhase.OVER:
            return ""
        due = due_events(report, phase, records, life)
        missing += sum(event in rule.events for event in due for rule in rules)
    command = f"longshore notify {opened.reference}"
    if missing:
        verb = "was" if missing == 1 else "were"
        return f"{count_noun(missing, 'notice')} {verb} not sent, because no notifier is at work: {command}"
    if phase is RunPhase.LIVE and any(rule.events != (NoticeEvent.START,) for rule in rules):
        return f"no notifier is at work, so later notices are not sent: {command}"
    return ""
