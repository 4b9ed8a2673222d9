"""End of a run whose jobs are processes of a plug-in of BPS: no process of the run is left on this host."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from longshore.bps.plugin_records import Phase, PluginState, is_process_alive, write_state
from longshore.contract.service import CancelOutcome, RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.keeper.protocol import RUN_VARIABLE, run_token
from longshore.system.host import host_name, processes_with_variable
from longshore.system.processes import signal_group, signal_process

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
