"""Starts the notifier of a run: a detached process that sends its notices (``longshore notify``)."""

from __future__ import annotations

import sys

from longshore.contract.capabilities import NoticeHost
from longshore.contract.context import RunPaths
from longshore.contract.service import WmsService
from longshore.world.processes.detach import start_detached


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
    if not run.notice_rules.exists():
        return ""
    try:
        process, _ = start_detached(notifier_command(run), log=run.notifier_log)
    except OSError as error:
        return f"no notices are sent: the notifier cannot be started: {error.strerror}"
    # It goes on without this process, as it should; `Popen` would complain about that.
    process.returncode = 0
    return ""
