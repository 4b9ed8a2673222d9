"""Notices of a run: its rules, the events that are due, the records of what was sent, and the process that sends."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Final

import msgspec

from longshore.contract.capabilities import NoticeHost
from longshore.contract.service import RunPaths, WmsService
from longshore.errors import DECODE_ERRORS
from longshore.model.notice import NoticeEvent, NoticeRecord, NoticeRule
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.rundir.journal import lives
from longshore.rundir.submissions import submission_paths
from longshore.system.atomic import open_to_append
from longshore.system.detached import start_detached
from longshore.system.files import files
from longshore.system.host import host_name
from longshore.system.reading import read_record
from longshore.system.sharing import Lock, is_locked

# Rules and records, as files of the run.


class NotifierLife(msgspec.Struct, frozen=True):
    """The newest notifier of a run, as it wrote into its lock's file.

    Attributes
    ----------
    host
        Host whose locks show whether it is at work.
    life
        Number of what drove the run when it last looked.
    """

    host: str
    life: int


def write_notifier(lock: Lock, life: int) -> None:
    """Write the notifier of this process into its lock."""
    holder = msgspec.json.encode(NotifierLife(host=host_name(), life=life))
    # Only a note in reports needs it: notices are also sent where the disk is full.
    with suppress(OSError):
        files.ftruncate(lock.file, 0)
        files.pwrite(lock.file, holder, 0)


def read_notifier(run: RunPaths) -> NotifierLife | None:
    """Return the newest notifier of a run; ``None`` if there was none, or its file does not tell."""
    return read_record(run.notice_lock, NotifierLife)


def encode_notice_rules(rules: Sequence[NoticeRule]) -> bytes:
    """Return the content of ``notify.json``."""
    return msgspec.json.format(msgspec.json.encode(rules), indent=2) + b"\n"


def read_notice_rules(run: RunPaths) -> Sequence[NoticeRule]:
    """Return the rules of a run's newest submission; none where there is no file of them, or it cannot be read."""
    for path in dict.fromkeys((submission_paths(run).notice_rules, run.notice_rules)):
        try:
            return msgspec.json.decode(path.read_bytes(), type=tuple[NoticeRule, ...])
        except FileNotFoundError:
            # A submission that changed nothing has no file of its own.
            continue
        except (OSError, *DECODE_ERRORS):
            return ()
    return ()


def read_notice_records(run: RunPaths) -> Sequence[NoticeRecord]:
    """Return what the notifiers of a run recorded; a line that was cut or damaged counts as not written."""
    try:
        lines = run.notices.read_bytes().splitlines()
    except OSError:
        return ()
    found = []
    decoder = msgspec.json.Decoder(NoticeRecord)
    for line in lines:
        with suppress(*DECODE_ERRORS):
            found.append(decoder.decode(line))
    return found


def _ends_in_line(run: RunPaths) -> bool:
    try:
        return not run.notices.read_bytes().endswith(b"\n")
    except OSError:
        return False


class NoticeLog:
    """Records of one notifier: those in the file, and its own, which it appends."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self.records = list(read_notice_records(run))
        # A line that a crash cut must not take the next one with it.
        self._break = b"\n" if _ends_in_line(run) else b""

    def add(self, record: NoticeRecord) -> None:
        """Append a record; on a full disk it is kept in memory, and the next notifier may send the notice again."""
        self.records.append(record)
        with suppress(OSError), open_to_append(self._run.notices, below=self._run.root) as file:
            file.write(self._break + msgspec.json.encode(record) + b"\n")
            self._break = b""


def describe_failed_notices(run: RunPaths) -> Iterator[str]:
    """Return a sentence for each rule whose newest notice was not sent."""
    newest: dict[str, NoticeRecord] = {record.rule: record for record in read_notice_records(run) if record.rule}
    for name, record in sorted(newest.items()):
        if not record.is_sent:
            yield f"the notice '{name}' of {record.event.value} was not sent: {record.why}"


# Events that are due; pure.


class RunPhase(Enum):
    """Whether anything drives a run."""

    LIVE = auto()
    OVER = auto()
    STOPPED = auto()
    """Nothing drives it, and it is not over."""


def due_events(report: RunReport, phase: RunPhase, records: Iterable[NoticeRecord], life: int) -> list[NoticeEvent]:
    """Return the events that are due by a report, and have no record yet, in their order.

    `life` numbers what drives the run: it grows with each restart and resume.
    """
    seen: set[NoticeEvent] = set()
    for record in records:
        if record.rule:
            continue
        if record.event is not NoticeEvent.STOPPED or record.life == life:
            seen.add(record.event)
        if record.event is NoticeEvent.END:
            if record.life == life:
                # The run was over, and was not restarted since.
                return []
            seen.clear()
    return [event for event in NoticeEvent if event not in seen and _has_come(event, report, phase)]


def _has_come(event: NoticeEvent, report: RunReport, phase: RunPhase) -> bool:
    match event:
        case NoticeEvent.START:
            return True
        case NoticeEvent.FIRST_FAILURE:
            return report.counts.get(JobState.FAILED, 0) > 0
        case NoticeEvent.HOLD:
            return phase is RunPhase.LIVE and (report.paused or report.counts.get(JobState.HELD, 0) > 0)
        case NoticeEvent.STOPPED:
            return phase is RunPhase.STOPPED
        case NoticeEvent.END:
            return phase is RunPhase.OVER


def unsent(rules: Iterable[NoticeRule], records: Iterable[NoticeRecord]) -> Iterator[tuple[NoticeRule, NoticeEvent]]:
    """Return the rules without a result for an event that was seen: a notifier died in between.

    A rule that was written later does not tell what was before.
    """
    left: dict[tuple[NoticeEvent, str], int] = {}
    for record in records:
        # A result may come after the run was restarted.
        if record.life >= left.get((record.event, record.rule), math.inf):
            del left[record.event, record.rule]
        for name in record.rules:
            # An event that came again, after a restart, counts once, and as the newer one.
            left.pop((record.event, name), None)
            left[record.event, name] = record.life
    known = {rule.name: rule for rule in rules}
    yield from ((known[name], event) for event, name in left if name in known)


_LAST_LOOK_S: Final = 30.0
"""Time in which a notifier sees the end of a run: it pauses between two looks."""
_START_S: Final = 30.0
"""Time in which a notifier that was started takes its lock: a short run may be over before."""
_POLL_S: Final = 0.2


def notifier_command(run: RunPaths) -> list[str]:
    """Return the command of a run's notifier."""
    # -P: files in the run directory must not pass for modules.
    return [sys.executable, "-P", "-m", "longshore", "--long-log", "notify", str(run.root)]


def start_missing_notifier(service: WmsService, run: RunPaths) -> str:
    """Start the notifier of a run whose service does not start it; return why it cannot be started."""
    if isinstance(service, NoticeHost) and service.hosts_notices(run):
        return ""
    return start_notifier(run)


def start_notifier(run: RunPaths) -> str:
    """Start the notifier of a run that has rules of notices; return why it cannot be started, empty if it was.

    A run goes on without its notifier.
    """
    if not read_notice_rules(run):
        return ""
    try:
        process, _ = start_detached(notifier_command(run), log=run.notifier_log)
    except OSError as error:
        return f"no notices are sent: the notifier cannot be started: {error.strerror}"
    # It goes on without this process, as it should; `Popen` would complain about that.
    process.returncode = 0
    return ""


def wait_for_notifier(run: RunPaths) -> None:
    """Wait for the last notices of a run whose engine may be a job: the end of the job would kill the notifier.

    At most as long as the notices of one rule may take.
    """
    longest_s = longest_notices_s(run)
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < longest_s:
        if not is_notifier_at_work(run) and (waited_s > _START_S or _has_begun(run)):
            return
        time.sleep(_POLL_S)


def _has_begun(run: RunPaths) -> bool:
    """Return whether a notifier has looked at the newest life of a run."""
    notifier = read_notifier(run)
    known = lives(run.journal)
    return notifier is not None and (not known or notifier.life >= known[-1][0])


def longest_notices_s(run: RunPaths) -> float:
    """Return the seconds that the last notices of a run that is over may take; 0 if it has no rules."""
    rules = read_notice_rules(run)
    # Rules are side by side; the notices of one rule are not.
    return _LAST_LOOK_S + max(rule.timeout_s * len(rule.events) for rule in rules) if rules else 0.0


def is_notifier_at_work(run: RunPaths) -> bool:
    """Return whether a notifier of this host, or of one whose locks are visible here, looks at the run."""
    try:
        return is_locked(run.notice_lock)
    except OSError:
        return False
