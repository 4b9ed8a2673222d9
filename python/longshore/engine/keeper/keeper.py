"""Keeper program: starts the jobs of a run on this machine, records how they end, and outlives the engine.

It is a program of its own, copied into the run directory with the modules beside it and run as ``python -I -S -B
keeper.py RECORDS TMP NEXT WHERE``. Nothing is started once NEXT is there, the journal of a newer engine. It knows
nothing of Longshore: orders come as lines of JSON on its standard input, records go as lines of JSON to the file
RECORDS, and a byte on its standard output tells the engine that there are new records. Attempts get their
``TMPDIR``, named JOB.ATTEMPT, in the folder TMP. When its input closes it starts nothing more, waits for the jobs that
run, removes TMP, and ends.

Orders, by ``o``::

    {"o": "env", "id": 1, "on": 0, "env": {...}}        an environment for later orders; extends environment `on`
    {"o": "run", "b": TAG, "m": [{"j": JOB, "a": ATTEMPT, "argv": [...], "e": ID, "v": {more environment},
                                  "cwd": ..., "log": ..., "lim": {limits, see the watchdog}}],
     "l": LANE, "n": SLOTS}                             lane: see below; without one all start at once
    {"o": "kill", "m": [[JOB, ATTEMPT]], "sig": NUMBER}                 a signal to the whole process group

Attempts of one lane start in the order in which they came, at most SLOTS of them at once, a number that each order
sets anew. So the engine can send attempts ahead of their slots, and no slot waits for its answer when one ends.
An attempt never starts if it waits longer than a moment, is killed meanwhile, or still waits when the input closes.

Records, by ``r``::

    {"r": "keeper", "pid", "host", "boot", "tmp"}      first
    {"r": "got", "b": TAG, "m": [[j, a]]}       written before any of these members is started
    {"r": "never", "m": [[j, a]]}               they waited in a lane, and will not be started
    {"r": "start", "j", "a", "pid", "t", "up",  t: epoch seconds; up: seconds since boot, to recognise the process
     "lim", "log"}                              as ordered, where it has limits
    {"r": "end", "j", "a", "t", "s": wait status, "run": seconds, "cpu": seconds, "rss": bytes or null,
     "why": "OOM", "WALLTIME" or "OUTPUT", "say": text,    where a limit ended it
     "tmp": path}                                          where its temporary directory was kept
    {"r": "end", "j", "a", "t", "err": text, "no": errno, "own": bool}     it could not be started; own: for want of
                                                                         its log or temporary directory
    {"r": "closed"}                             the input is closed and every order read: nothing more will start
"""

from __future__ import annotations

import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "__main__":
    from longshore.engine.keeper.attempts import AttemptRunner
    from longshore.engine.keeper.kernel import become_subreaper, boot_id
    from longshore.engine.keeper.records import Records
    from longshore.engine.keeper.scratch import remove_empty
else:
    # Run as a program, it finds only the standard library and the modules that were copied beside it.
    sys.dont_write_bytecode = True
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from attempts import AttemptRunner
    from kernel import become_subreaper, boot_id
    from records import Records
    from scratch import remove_empty

if TYPE_CHECKING:
    from longshore.engine.keeper.watchdog import Watchdog


def make_watchdog() -> Watchdog:
    """Make the watchdog, from the copies of its modules beside this one."""
    watchdog, processes, cgroups = map(__import__, ("watchdog", "processes", "cgroups"))
    made: Watchdog = watchdog.Watchdog(processes.Processes(), cgroups.make_attempt_cgroups())
    return made


def main() -> None:
    """Carry out orders until the input closes, then wait for running jobs."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        # Jobs are ended by orders that name them; the keeper itself stays to record their ends.
        signal.signal(number, signal.SIG_IGN)
    wake_input, wake_output = os.pipe()
    os.set_blocking(wake_input, False)
    os.set_blocking(wake_output, False)
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_output, warn_on_full_buffer=False)
    become_subreaper()
    records = Records(sys.argv[1])
    tmp = sys.argv[2]
    records.add({"r": "keeper", "pid": os.getpid(), "host": os.uname().nodename, "boot": boot_id(), "tmp": tmp})
    records.flush()
    records.wake()
    # The spawner's results must not wait until the keeper is done with a long loop.
    sys.setswitchinterval(0.0005)
    successor_file, disk_kind = (*sys.argv[3:5], "", "near")[:2]
    attempts = AttemptRunner(
        records,
        tmp,
        make_watchdog(),
        wake=lambda: write_wake_byte(wake_output),
        successor_file=successor_file,
        is_local_disk=disk_kind == "near",
    )
    serve(attempts, wake_input)


def write_wake_byte(pipe: int) -> None:
    """Write a byte to a pipe; a full pipe wakes its reader as well."""
    try:
        os.write(pipe, b"\n")
    except BlockingIOError:
        pass


def serve(attempts: AttemptRunner, wake_input: int) -> None:
    """Carry out orders and reap processes until the input is closed and nothing runs."""
    records = attempts.records
    partial_line = b""
    inputs = [0, wake_input]
    while inputs[0] == 0 or attempts.is_busy() or records.unwritten:
        readable, _, _ = select.select(inputs, [], [], attempts.compute_timeout())
        attempts.watchdog.check_limits()
        if not readable:
            attempts.is_urgent = True
            if not attempts.is_busy():
                # Before that, running jobs may be followed by others that need the spare folders.
                attempts.scratch.remove_spares()
        if wake_input in readable:
            try:
                os.read(wake_input, 65536)
            except BlockingIOError:
                pass
            attempts.record_started()
            attempts.reap()
        if 0 in readable:
            text = os.read(0, 1 << 20)
            *lines, partial_line = (partial_line + text).split(b"\n")
            for line in lines:
                attempts.carry_out(line)
            if not text:
                attempts.cancel_waiting(lambda _since, _member: True)
                records.add({"r": "closed"})
                inputs = [wake_input]
        attempts.start_chosen()
    attempts.scratch.remove_spares()
    remove_empty(attempts.scratch.root)


if __name__ == "__main__":
    main()
