"""Processes of a run's engine: its command line, standby, the start of a life, and the first report after the end."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import LongshoreError, SubmissionRefusedError
from longshore.model.event import Life
from longshore.model.report import Snapshot
from longshore.model.states import TERMINAL_STATES, JobState
from longshore.rundir.find_run import hint_reference
from longshore.rundir.journal import first_event, life_path, lives, newest_life
from longshore.rundir.liveness import find_stall_start, has_local_engine, read_holder
from longshore.rundir.run_directory import read_snapshot, user_name_of
from longshore.system.detached import begin_standby, start_detached, start_from_standby
from longshore.system.host import host_name
from longshore.system.reading import open_stream
from longshore.system.room import FULL_ERRORS, describe_failed_write, describe_full_disk

# Command line and standby: a process that imports the engine before there is a run.


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


# Start of a life, or which other engine has the run, or why none began.


_START_TIMEOUT_S: Final = 60.0
"""Time that an engine may take to begin: reading a million jobs takes a while."""
_END_TIMEOUT_S: Final = 10.0
"""Time that an engine may take to end once its run is over, before it is called alive."""
_POLL_S: Final = 0.02
_LOG_WORDS_B: Final = 1 << 16


def start_life(run: RunPaths, command: Sequence[str]) -> str:
    """Start an engine by its command, wait until it has begun its life, and return where it runs.

    Raises
    ------
    SubmissionRefusedError
        It did not begin, or another engine has the run.
    """
    known_lives = len(lives(run.journal))
    log_size = run.engine_log.stat().st_size if run.engine_log.exists() else 0
    try:
        started = start_from_standby(command, log=run.engine_log)
        process, detached = started or start_detached(command, log=run.engine_log)
    except OSError as error:
        raise SubmissionRefusedError(
            f"the engine of '{run.root}' cannot be started: {describe_failed_write(error, run.root)}",
            hint=f"{'Make room there' if error.errno in FULL_ERRORS else 'Remove the cause'}, then: "
            f"longshore resume {hint_reference(run)}",
        ) from error
    wait_for_life(run, process, known_lives, log_size)
    return f"the engine runs {detached.description}"


def wait_for_life(run: RunPaths, process: subprocess.Popen[bytes], known_lives: int, log_size: int) -> None:
    """Wait until the engine that was started as `process` has begun its life.

    `known_lives` and `log_size` are the number of lives and the size of the engine's log before it was started.

    Raises
    ------
    SubmissionRefusedError
        Another engine began meanwhile and has the run, or none began.
    """
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        # Polled before its life is looked for: that of a small run may be over in between.
        over = process.poll() is not None
        new = _new_lives(run, known_lives)
        if any(life.pid == process.pid and life.host == host_name() for life in new):
            # The engine goes on without this process, as it should; `Popen` would complain about that.
            process.returncode = 0
            return
        if over or time.monotonic() > deadline:
            process.kill()
            process.wait()
            if new or (over and has_local_engine(run)):
                engine = describe_engine(run, new[-1]) if new else describe_owner(run)
                raise SubmissionRefusedError(
                    f"{engine} has just taken '{run.root}' over, and this command did not",
                    hint="There is nothing to do: that engine runs it.",
                )
            raise _not_begun_error(run, log_size)
        time.sleep(_POLL_S)


def describe_engine(run: RunPaths, life: Life) -> str:
    """Return which engine began a life: its number, process, user and host."""
    try:
        user = user_name_of(life_path(run.journal, life.life).stat().st_uid)
    except OSError:
        user = "?"
    return f"engine {life.life} (process {life.pid} of '{user}' on '{life.host}')"


def describe_owner(run: RunPaths) -> str:
    """Return which engine has the run: that of the newest life, or the one that has taken the lock since."""
    holder, life = read_holder(run), newest_life(run.journal)
    if life and (holder is None or (holder.pid, holder.host) == (life.pid, life.host)):
        return describe_engine(run, life)
    process = f" (process {holder.pid} of '{user_name_of(holder.uid)}' on '{holder.host}')" if holder else ""
    return f"a new engine{process}"


def refuse_if_alive(run: RunPaths, is_alive: Callable[[RunPaths], bool | Unreachable]) -> None:
    """Refuse a new life while an engine is alive; one of this host whose run is over gets the time to end.

    Raises
    ------
    SubmissionRefusedError
        An engine is alive, or nothing tells whether one is.
    """
    deadline = time.monotonic() + _END_TIMEOUT_S
    while alive := is_alive(run):
        if isinstance(alive, Unreachable):
            raise SubmissionRefusedError(
                f"nothing tells whether an engine of '{run.root}' is alive: {alive.why}",
                hint=f"Run the command again when the workload manager answers. If that engine is gone for good: "
                f"longshore resume {hint_reference(run)} --take-over",
            )
        snapshot, life = read_snapshot(run), newest_life(run.journal)
        state = snapshot.state if snapshot else JobState.RUNNING
        if snapshot and snapshot.host != host_name():
            raise SubmissionRefusedError(
                f"'{run.root}' is {state}: its engine on '{snapshot.host}' wrote a snapshot a moment ago",
                hint="Wait for it, or cancel the run. If that host is gone for good: longshore resume "
                f"{hint_reference(run)} --take-over",
            )
        has_ended = state in TERMINAL_STATES and snapshot and life and snapshot.life == life.life
        if not has_ended or time.monotonic() > deadline:
            raise _alive_error(run, snapshot, state)
        time.sleep(_POLL_S)


def _alive_error(run: RunPaths, snapshot: Snapshot | None, state: JobState) -> SubmissionRefusedError:
    hint = "Wait for it, or cancel the run first."
    if find_stall_start(run, snapshot, time.time()):
        hint = f"It has written nothing for a while. If it hangs: longshore resume {hint_reference(run)} --take-over"
    return SubmissionRefusedError(f"'{run.root}' is {state}: its engine is alive: {describe_owner(run)}", hint=hint)


def _new_lives(run: RunPaths, known_lives: int) -> list[Life]:
    try:
        return [first_event(path) for _, path in lives(run.journal)[known_lives:]]
    except (LongshoreError, OSError):
        # What cannot be read is not ours.
        return []


def _not_begun_error(run: RunPaths, log_size: int) -> SubmissionRefusedError:
    words: list[str] = []
    try:
        with open_stream(run.engine_log) as log:
            log.seek(log_size)
            words = log.read(_LOG_WORDS_B).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        # Its log may be what the full disk does not take.
        words = []
    full = describe_full_disk(run.root)
    said = words[-1] if words else "" if full else "it wrote nothing"
    why = f"{said} ({full})" if said and full else full or said
    again = f"longshore resume {hint_reference(run)}"
    where = f"Its words are in '{run.engine_log}'. " if words[1:] else ""
    hint = f"Make room there, then: {again}" if full else f"{where}To try once more: {again}"
    return SubmissionRefusedError(f"the engine of '{run.root}' did not begin: {why}", hint=hint)


# The first report: another process reads the events of a large run when it is over.


_LEAST_B: Final = 16 * 2**20
"""Size of a journal of 30,000 to 50,000 jobs, of which a first report takes 0.6 s."""
_MOST_B: Final = 128 * 2**20
"""Size of a journal of 230,000 to 400,000 jobs. A report of these takes up to 240 MB of memory; more is not taken
unasked."""


def start_first_report(run: RunPaths) -> None:
    """Start a report of all jobs if the journal is large: it stores what later reports go on from.

    The run is over, and needs nothing of it: nobody waits for that process, and its failure has no effect. Where the
    engine is itself a job, a workload manager may end it with the job; the first report then takes its time as ever.
    """
    try:
        size = sum(path.stat().st_size for _, path in lives(run.journal))
        if not _LEAST_B <= size <= _MOST_B:
            return
        process = subprocess.Popen(
            # -P: files in the run directory must not pass for modules.
            [sys.executable, "-P", "-m", "longshore", "report", "--id", str(run.root), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return
    # It goes on without this process, as it should; `Popen` would complain about that.
    process.returncode = 0
