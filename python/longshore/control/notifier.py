"""When notices are due: the notifier, which looks at a run as `report` does, and trials of the rules.

The reason is in decision 0176.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from longshore.config.hidden_secrets import hidden_secrets, hide_read_secrets, note_secrets
from longshore.config.layers import Overrides
from longshore.config.notices import SECTION, no_rules_error, read_notices
from longshore.contract.service import RunPaths
from longshore.control.notices import Deliveries, Delivery, compose_notice, trial_notice
from longshore.errors import RunNotFoundError, RunNotMeantError
from longshore.model.notice import NoticeEvent, NoticeRecord, NoticeRule
from longshore.model.report import RunReport
from longshore.plan.configuration import read_draft
from longshore.reports.report import ReportBuilder, find_life, find_phase
from longshore.rundir.archive_names import is_archive
from longshore.rundir.journal import lives
from longshore.rundir.notices import NoticeLog, RunPhase, due_events, read_notice_rules, unsent, write_notifier
from longshore.rundir.run_directory import Access, read_snapshot, require_access
from longshore.rundir.submissions import refuse_changed_files
from longshore.runstate.open_run import READ_ERRORS, OpenRun, describe_read_error, is_missing, open_run
from longshore.system.sharing import Lock, take_lock

# The notifier: a process of its own that looks at a run as `report` does, and sends the notices that are due. Neither
# the engine nor a workload manager waits for it. If it dies, the notifier of the next engine sends what it did not; a
# notice may then come twice, and none is missing.


_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 10.0
_PAUSE_RATIO: Final = 20.0
"""Pause in multiples of a look's duration: of a large run, a look may take a second."""
_FIRST_SNAPSHOT_S: Final = 60.0
"""Longest wait for what a new engine writes first; until then the run looks as its last engine left it."""


def watch_run(opened: OpenRun, say: Callable[[str], None]) -> None:
    """Send the notices of a run as they fall due, until nothing drives it.

    Only one notifier of a host does; another waits until it has ended. `say` takes a line for the log. Raises
    `LongshoreError` if the run has no rules, a file of it changed, or it belongs to another user.
    """
    run = opened.run
    require_access(run, Access.ACT)
    rules = _read_rules(run)
    if not rules:
        raise no_rules_error(opened.reference)
    lock = _take_lock(run, say)
    with lock, Deliveries() as deliveries:
        notifier = _Notifier(opened, rules, lock, deliveries, say)
        while not (is_last := notifier.try_to_look()) or deliveries.open_number:
            notifier.pause(is_last=is_last)


def _take_lock(run: RunPaths, say: Callable[[str], None]) -> Lock:
    """Take the lock of a run's notifier; that of the engine before may still wait for a slow webhook."""
    try:
        return take_lock(run.notice_lock, below=run.root)
    except BlockingIOError:
        say("another notifier of the run is at work, and this one waits until it has ended")
        return take_lock(run.notice_lock, below=run.root, wait_s=math.inf)


def _read_rules(run: RunPaths) -> Sequence[NoticeRule]:
    refuse_changed_files(run, with_workflow=False)
    return read_notice_rules(run)


class _Notifier:
    """Looks at one run, again and again."""

    def __init__(
        self,
        opened: OpenRun,
        rules: Sequence[NoticeRule],
        lock: Lock,
        deliveries: Deliveries,
        say: Callable[[str], None],
    ) -> None:
        self.opened = opened
        self.rules = rules
        self.log = NoticeLog(opened.run)
        self.deliveries = deliveries
        self.say = say
        self._pause_s = _PAUSE_S
        self._builder = ReportBuilder(opened)
        self._lock = lock
        self._life = find_life(opened)
        write_notifier(lock, self._life)
        self._began = time.monotonic()
        self._has_sent_unsent = False
        self._problem = ""

    def pause(self, *, is_last: bool) -> None:
        """Wait until the next look, and record the results of notices meanwhile; after the last look only for these."""
        deadline = time.monotonic() + self._pause_s
        while (left_s := deadline - time.monotonic()) > 0.0:
            if not self.deliveries.open_number:
                time.sleep(0.0 if is_last else left_s)
                return
            for delivery in self.deliveries.take_ended(left_s):
                self._record(delivery)

    def try_to_look(self) -> bool:
        """Send due notices; return whether nothing drives the run any more, or its directory is gone.

        A run that cannot be read now, such as while a file server is away, is looked at again.
        """
        try:
            is_last = self._look()
        except READ_ERRORS as error:
            if is_missing(self.opened.run.root):
                return True
            if (problem := describe_read_error(error)) != self._problem:
                self.say(f"the run cannot be read, and is looked at again: {problem}")
            self._problem, self._pause_s = problem, _MAX_PAUSE_S
            self._builder = ReportBuilder(self.opened)
            return False
        self._problem = ""
        return is_last

    def _look(self) -> bool:
        began = time.monotonic()
        self._follow_life()
        self._send_unsent()
        if self._is_too_early():
            return False
        # Queried before the report, so that it has the last events of an engine that ended.
        alive = self.opened.is_alive()
        report = self._builder.build(time.time())
        phase = find_phase(self.opened, report, alive=alive)
        for event in due_events(report, phase, self.log.records, self._life):
            due = [rule for rule in self.rules if event in rule.events]
            names = tuple(rule.name for rule in due)
            self.log.add(NoticeRecord(at=time.time(), event=event, life=self._life, rules=names))
            for rule in due:
                self._send(rule, event, report)
        self._pause_s = min(_MAX_PAUSE_S, max(_PAUSE_S, _PAUSE_RATIO * (time.monotonic() - began)))
        return phase is not RunPhase.LIVE

    def _follow_life(self) -> None:
        """Read the rules again if the run was restarted or resumed while notices of its end were being sent."""
        life = find_life(self.opened)
        if life == self._life:
            return
        self.rules = _read_rules(self.opened.run)
        self._life, self._began = life, time.monotonic()
        write_notifier(self._lock, life)

    def _send_unsent(self) -> None:
        """Send, once, what a notifier that died had not sent yet."""
        if self._has_sent_unsent:
            return
        left = list(unsent(self.rules, self.log.records))
        report = self._builder.build(time.time()) if left else None
        self._has_sent_unsent = True
        for rule, event in left:
            assert report is not None
            self._send(rule, event, report)

    def _send(self, rule: NoticeRule, event: NoticeEvent, report: RunReport) -> None:
        notice = compose_notice(event, report, self.opened.card.id)
        folder = _existing_folder(self.opened.run.root)
        self.deliveries.add(Delivery(rule=rule, notice=notice, folder=folder, life=self._life))

    def _record(self, delivery: Delivery) -> None:
        rule, event, why = delivery.rule.name, delivery.notice.event, delivery.why
        self.say(f"notice '{rule}' of {event.value}: {why or 'sent'}")
        record = NoticeRecord(at=time.time(), event=event, life=delivery.life, rule=rule, is_sent=not why, why=why)
        self.log.add(record)

    def _is_too_early(self) -> bool:
        """Tell whether a new engine has begun that has not written a snapshot yet."""
        known = lives(self.opened.run.journal)
        if not known or time.monotonic() - self._began > _FIRST_SNAPSHOT_S:
            return False
        snapshot = read_snapshot(self.opened.run)
        is_written = snapshot is not None and snapshot.life >= known[-1][0]
        return not is_written and self.opened.is_alive() is True


def _existing_folder(folder: Path) -> Path:
    return folder if folder.is_dir() else Path("/")


# Tries the rules of notices of a configuration or of a run.


class NoticeTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one rule: `why` it was not sent, empty if it was."""

    rule: NoticeRule
    why: str


@hidden_secrets()
def try_notices(
    name: str, overrides: Overrides, *, now: float, show: Callable[[NoticeTrial], None]
) -> Sequence[NoticeTrial]:
    """Send a test notice by each rule of a configuration file or a run; `show` receives each result as it comes.

    The rules are tried side by side. Commands start in the directory of the run; for a file, in an empty one.

    Raises
    ------
    ConfigError
        There are no rules, or they are wrong.
    RunNotFoundError
        `name` is no file, and no such run is known.
    """
    path = Path(name)
    # Unlike that of `Path`, it gives an answer for names that are too long.
    if os.path.isfile(name) and not is_archive(path):  # noqa: PTH113
        rules = read_notices(read_draft(path, overrides, now=now).config.node_at(SECTION))
        # As in the directory of a new run, relative paths lead nowhere.
        with TemporaryDirectory(prefix="longshore-notify-") as folder:
            return _try_rules(name, path.name, rules, Path(folder), show)
    try:
        opened = open_run(name, acts=True)
    except RunNotMeantError:
        raise
    except RunNotFoundError as error:
        if os.path.lexists(name):
            raise
        raise RunNotFoundError(f"there is no file '{name}', and {error.message}", hint=error.hint) from error
    require_access(opened.run, Access.ACT)
    note_secrets(lambda: opened.secrets)
    return _try_rules(name, path.name or name, tuple(read_notice_rules(opened.run)), opened.run.root, show)


def _try_rules(
    name: str, title: str, rules: Sequence[NoticeRule], folder: Path, show: Callable[[NoticeTrial], None]
) -> Sequence[NoticeTrial]:
    if not rules:
        raise no_rules_error(name)
    trials: dict[str, NoticeTrial] = {}
    with Deliveries() as deliveries:
        for rule in rules:
            deliveries.add(Delivery(rule=rule, notice=trial_notice(title), folder=folder))
        while deliveries.open_number:
            for ended in deliveries.take_ended():
                trials[ended.rule.name] = NoticeTrial(rule=ended.rule, why=hide_read_secrets(ended.why))
                show(trials[ended.rule.name])
    return [trials[rule.name] for rule in rules]
