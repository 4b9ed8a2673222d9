"""Starts the notifier of a run: a detached process that sends its notices (``longshore notify``)."""

from __future__ import annotations

import sys
import time
from typing import Final

from longshore.contract.capabilities import NoticeHost
from longshore.contract.service import RunPaths, WmsService
from longshore.engine.journal.chain import lives
from longshore.engine.rundir.notice_log import read_notice_rules, read_notifier
from longshore.system.detached import start_detached
from longshore.system.sharing import is_locked

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
