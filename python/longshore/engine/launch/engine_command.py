"""Command line of an engine, and an engine on standby: a process that imports the engine before there is a run."""

from __future__ import annotations

import logging
import sys

from longshore.contract.service import RunPaths
from longshore.system.detached import begin_standby


def engine_command(run: RunPaths) -> list[str]:
    """Return the command of a run's engine, with this process's log levels, without the reason why it begins."""
    return [*_drive_command(), str(run.root)]


def begin_engine_standby(service: str) -> None:
    """Keep an engine of a service on standby for the next start of an engine in this thread."""
    begin_standby(_drive_command(), ["--standby", service])


def _drive_command() -> list[str]:
    # -P: files in the run directory must not pass for modules.
    return [sys.executable, "-P", "-m", "longshore", *_log_options(), "drive"]


def _log_options() -> list[str]:
    """Return log options for the loggers that this process logs in more detail than usual."""
    levels = [
        (name, logger.level)
        for name, logger in sorted(logging.root.manager.loggerDict.items())
        if name.partition(".")[0] == "longshore" and isinstance(logger, logging.Logger) and logger.level
    ]
    options = [f"--log-level={name}={logging.getLevelName(level)}" for name, level in levels if level < logging.INFO]
    return ["--long-log", *options] if options else []
