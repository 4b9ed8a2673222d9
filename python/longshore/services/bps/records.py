"""State of a run of a BPS plug-in: its process, the records of its jobs, and its end, which leaves no process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import CancelOutcome, JobStatus, RunPaths
from longshore.errors import DECODE_ERRORS, SubmissionRefusedError
from longshore.keeper.protocol import RUN_VARIABLE, run_token
from longshore.model.states import JobState
from longshore.rundir.job_table import JobTable
from longshore.services.bps.workflow import ATTEMPT_WORD, RECORDS
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.host import host_name, processes_with_variable
from longshore.system.processes import signal_group, signal_process
from longshore.system.reading import read_file
from longshore.system.sharing import is_locked

RECORD_SCRIPT: Final = """\
#!/bin/sh
# Records the start and the end of a job below a folder, and runs its command in between: the plug-in that runs the job
# reports nothing itself.
#
#     record-job RECORDS NUMBER FOLDER LOG COMMAND...
records=$1 number=$2 log=$4
cd "$3" || exit 1
shift 4
[ -d "$records" ] || exec "$@"
attempt=1
while ! mkdir "$records/$number.$attempt" 2>/dev/null; do
    attempt=$((attempt + 1))
    [ "$attempt" -lt 1000 ] || exec "$@"
done
LONGSHORE_JOB_ATTEMPT=$attempt
export LONGSHORE_JOB_ATTEMPT
# Puts the number of the attempt, from 0, in the place of its mark.
mark=MARK
fill() {
    text=
    while :; do
        case $word in
        *"$mark"*) text=$text${word%%"$mark"*}$((attempt - 1)) ;;
        *) break ;;
        esac
        word=${word#*"$mark"}
    done
    text=$text$word
}
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    fill
    set -- "$@" "$text"
    left=$((left - 1))
done
for name in $(env | sed -n "s/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*$mark.*/\\1/p"); do
    eval "word=\\$$name"
    fill
    export "$name=$text"
done
at=$records/$number.$attempt
mkdir -p "${log%/*}" && exec >"$log.$attempt.log" 2>&1
printf '%s %s\\n' "$(date +%s)" "$(uname -n)" >"$at/new" && mv "$at/new" "$at/start"
"$@"
status=$?
printf '%s %s\\n' "$(date +%s)" "$status" >"$at/new" && mv "$at/new" "$at/end"
exit "$status"
""".replace("MARK", ATTEMPT_WORD)
_STATE: Final = "wms/plugin.json"
_LOCK: Final = "wms/plugin.lock"
LOG: Final = "wms/plugin.log"


class Phase(StrEnum):
    """How far a plug-in is with a submission."""

    STARTING = "starting"
    RUNNING = "running"
    """It is prepared, and its process runs the jobs."""
    SUBMITTED = "submitted"
    """Its workload manager has the run."""
    ENDED = "ended"
    """Its process ran the jobs to their end."""
    REFUSED = "refused"
    CANCELLED = "cancelled"


class PluginState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``wms/plugin.json``: the newest submission to the plug-in.

    `number` counts the submissions, from 1. `id` is the id that the plug-in gave the run.
    """

    number: int
    phase: Phase
    id: str = ""
    message: str = ""
    pid: int = 0
    host: str = ""


def read_state(run: RunPaths) -> PluginState | None:
    """Read the state; ``None`` without one, or with one that cannot be read."""
    try:
        return msgspec.json.decode(read_file(run.root / _STATE), type=PluginState)
    except (OSError, *DECODE_ERRORS):
        return None


def write_state(run: RunPaths, state: PluginState) -> None:
    """Write the state."""
    make_folders(run.wms, below=run.root)
    write_atomically(run.root / _STATE, msgspec.json.encode(state) + b"\n", below=run.root, durable=True)


def lock_path(run: RunPaths) -> Path:
    """Return the file that the process of the plug-in keeps locked."""
    return run.root / _LOCK


def is_process_alive(run: RunPaths) -> bool:
    """Whether the process of the plug-in lives."""
    return is_locked(lock_path(run)) if lock_path(run).exists() else False


def recorded_jobs(run: RunPaths) -> Iterator[JobStatus]:
    """Yield the state of each job that started, by its records."""
    attempts: dict[int, int] = {}
    folder = run.root / RECORDS
    for name in os.listdir(folder) if folder.is_dir() else ():
        number, _, attempt = name.partition(".")
        if number.isdigit() and attempt.isdigit():
            attempts[int(number)] = max(int(attempt), attempts.get(int(number), 0))
    if not attempts:
        return
    names = JobTable(run, "names").names
    for job, newest in sorted(attempts.items()):
        if job < len(names):
            yield _read_record(folder / f"{job}.{newest}", names[job], newest)


def _read_record(folder: Path, name: str, attempt: int) -> JobStatus:
    start, host = _read_line(folder / "start")
    end, status = _read_line(folder / "end")
    if end is None:
        return JobStatus(name=name, state=JobState.RUNNING, attempt=attempt, start=start, host=host)
    code = int(status) if status.isdigit() else None
    state = JobState.SUCCEEDED if code == 0 else JobState.FAILED
    return JobStatus(name=name, state=state, attempt=attempt, exit=code, start=start, end=end, host=host)


def _read_line(path: Path) -> tuple[float | None, str]:
    """Return the time and the word of a record; no time where there is none yet."""
    try:
        words = read_file(path).decode("utf-8", "replace").split()
        return float(words[0]), words[1]
    except (OSError, ValueError, IndexError):
        return None, ""


# The end: no process of the run is left on this host.


_END_S: Final = 30.0
"""Seconds for the process of a plug-in to end its jobs before it is killed."""
_KILL_S: Final = 30.0
"""Seconds for killed processes to be gone."""
_POLL_S: Final = 0.1
_MAX_PIDS: Final = 10
"""Process ids listed in a message."""


def end_plugin(run: RunPaths, state: PluginState, name: str) -> CancelOutcome:
    """End the process that runs the jobs, then each process that carries the run token.

    Workers have sessions of their own, and outlive a plug-in that was killed: they are ended in any state of the run.
    """
    is_live = is_process_alive(run)
    if state.host and state.host != host_name():
        if not is_live:
            return CancelOutcome(ended=0)
        raise SubmissionRefusedError(f"'{name}' runs on '{state.host}'", hint="Cancel the run there.")
    notes = []
    if is_live:
        write_state(run, PluginState(number=state.number, phase=Phase.CANCELLED, pid=state.pid, host=state.host))
        signal_process(state.pid, signal.SIGTERM)
        latest = time.monotonic() + _END_S
        while is_process_alive(run) and time.monotonic() < latest:
            time.sleep(_POLL_S)
        if is_process_alive(run):
            notes.append(
                f"'{name}' did not end within {_END_S:.0f} s and was killed: its batch jobs may still wait or run"
            )
        # Its session may have processes without the variable.
        signal_group(state.pid, signal.SIGKILL)
    found, left = _kill_processes(run)
    if found and not is_live:
        notes.append(f"the process of '{name}' was over; processes that it left are ended now: {len(found - left)}")
    if left:
        which = ", ".join(map(str, sorted(left)[:_MAX_PIDS]))
        more = f" and {len(left) - _MAX_PIDS} more" if len(left) > _MAX_PIDS else ""
        notes.append(f"processes of the run are still there after SIGKILL: {which}{more}")
    return CancelOutcome(ended=1 if is_live or found else 0, alive=tuple(notes))


def _kill_processes(run: RunPaths) -> tuple[set[int], set[int]]:
    """Kill the run's processes until none is left; return the ids of those found and of those left."""
    token, latest = run_token(run), time.monotonic() + _KILL_S
    found: set[int] = set()
    while True:
        # Processes may start others meanwhile.
        left = {pid for pid, _ in processes_with_variable(RUN_VARIABLE, token)} - {os.getpid()}
        if not left or time.monotonic() >= latest:
            return found, left
        found |= left
        for pid in left:
            signal_process(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
