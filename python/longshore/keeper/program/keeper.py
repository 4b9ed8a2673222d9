"""Keeper program: starts the jobs of a run on this machine, records how they end, and outlives the engine.

It is a program of its own, copied into the run directory with the modules beside it. The guard starts it, which is run
as ``python -I -S -B guard.py RECORDS TMP NEXT WHERE [BOUND | UNITS]``. Nothing is started once NEXT is there, the
journal of a newer engine. It knows nothing of Longshore: orders come as lines of JSON on its standard input, records go
as lines of JSON to the file RECORDS, and a byte on its standard output tells the engine that there are new records.
Attempts get their ``TMPDIR``, named JOB.ATTEMPT, in the folder TMP. When its input closes it starts nothing more, waits
for the jobs that run, removes TMP, and ends. With the word ``bound`` it kills them then, and so does the guard when the
keeper dies.
UNITS is the file of what attempts hold of the machine; see `units`.

Orders, by ``o``::

    {"o": "env", "id": 1, "on": 0, "env": {...}}        an environment for later orders; extends environment `on`
    {"o": "run", "b": TAG, "m": [{"j": JOB, "a": ATTEMPT, "argv": [...], "e": ID, "v": {more environment},
                                  "cwd": ..., "log": ..., "lim": {limits, see the watchdog},
                                  "out": [paths of its outputs], "u": [[INDEX, AMOUNT, MOST]]}],
     "l": LANE, "n": SLOTS}                             lane: see below; without one all start at once
    {"o": "kill", "m": [[JOB, ATTEMPT]], "sig": NUMBER}                 a signal to the whole process group

Attempts of one lane start in the order in which they came, at most SLOTS of them at once, a number that each order
sets anew. So the engine can send attempts ahead of their slots, and no slot waits for its answer when one ends.
An attempt never starts if it waits longer than a moment, is killed meanwhile, or still waits when the input closes.

Records, by ``r``::

    {"r": "keeper", "v": 2, "pid", "guard", "host", "boot", "tmp"}     first
    {"r": "got", "b": TAG, "m": [[j, a]]}       written before any of these members is started
    {"r": "never", "m": [[j, a]]}               they waited in a lane, or another run has their units: not started
    {"r": "start", "j", "a", "pid", "t", "up",  t: epoch seconds; up: seconds since boot, to recognise the process
     "lim", "log",                              as ordered, where it has limits
     "u": [[FIRST, AFTER]]}                     the units that it holds
    {"r": "exit", "j", "a", "t", "s": wait status}   written before the process is reaped; the end follows
    {"r": "end", "j", "a", "t", "s": wait status, "run": seconds, "cpu": seconds, "rss": bytes or null,
     "why": "OOM", "WALLTIME" or "OUTPUT", "say": text,    where a limit ended it
     "tmp": path,                                          where its temporary directory was kept
     "out": [[number, "missing", "stale" or "empty"]]}     outputs that are not as they should be
    {"r": "end", "j", "a", "t", "err": text, "no": errno, "own": bool}     it could not be started; own: for want of
                                                                         its log or temporary directory
    {"r": "closed"}                             the input is closed and every order read: nothing more will start
"""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "keeper":
    from longshore.keeper.program.attempt_files import remove_empty
    from longshore.keeper.program.attempts import AttemptRunner, Records
    from longshore.keeper.program.cgroups import make_attempt_cgroups
    from longshore.keeper.program.kernel import become_subreaper, boot_id, system
    from longshore.keeper.program.processes import Processes
    from longshore.keeper.program.units import HeldUnits, UnitFile
    from longshore.keeper.program.watchdog import Watchdog
else:
    # The copy finds only the standard library and the modules beside it.
    from attempt_files import remove_empty
    from attempts import AttemptRunner, Records
    from cgroups import make_attempt_cgroups
    from kernel import become_subreaper, boot_id, system
    from processes import Processes
    from units import HeldUnits, UnitFile
    from watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_PIPE_B = 1 << 16
"""Size of a pipe: no read returns more, and the interpreter would ask the kernel for the memory of a larger one."""


def main() -> None:
    """Carry out orders until the input closes, then wait for running jobs."""
    try:
        loop = begin(sys.argv[1:])
    except OSError as error:
        sys.exit("longshore: the keeper cannot start: %s" % error)
    while not loop.is_over():
        loop.serve(system.select(loop.inputs, [], [], loop.attempts.compute_timeout())[0])
    loop.clean_up()


def begin(words: Sequence[str]) -> KeeperLoop:
    """Prepare the process, lock the record file, write the first record, and return the loop."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        # Jobs are ended by orders that name them; the keeper itself stays to record their ends.
        system.set_signal(number, signal.SIG_IGN)
    wake_input, wake_output = system.pipe()
    system.set_blocking(wake_input, False)
    system.set_blocking(wake_output, False)
    system.set_blocking(0, False)
    system.set_blocking(1, False)
    system.set_signal(signal.SIGCHLD, lambda *_: None)
    system.set_wakeup_fd(wake_output, warn_on_full_buffer=False)
    become_subreaper()
    records = Records(words[0])
    tmp = words[1]
    host = system.uname().nodename
    pids = {"pid": system.getpid(), "guard": system.getppid()}
    records.add({"r": "keeper", "v": 2, **pids, "host": host, "boot": boot_id(), "tmp": tmp})
    records.flush()
    records.wake()
    # The spawner's results must not wait until the keeper is done with a long loop.
    system.set_switch_interval(0.0005)
    successor_file, disk_kind, last_word = (*words[2:5], *("", "near", "")[len(words[2:5]) :])
    attempts = AttemptRunner(
        records,
        tmp,
        Watchdog(Processes(), make_attempt_cgroups()),
        wake=lambda: write_wake_byte(wake_output),
        successor_file=successor_file,
        is_local_disk=disk_kind == "near",
        # The guard has opened the file, and shares it.
        units=HeldUnits(UnitFile(int(last_word))) if last_word.isdigit() else None,
    )
    return KeeperLoop(attempts, wake_input, is_bound=last_word == "bound")


def write_wake_byte(pipe: int) -> None:
    """Write a byte to a pipe; a full pipe wakes its reader as well."""
    try:
        system.write(pipe, b"\n")
    except BlockingIOError:
        pass


class KeeperLoop:
    """The keeper's loop: orders come on descriptor 0, and `wake_input` tells of processes that started or ended.

    Jobs of a bound keeper are killed when its input closes.
    """

    def __init__(self, attempts: AttemptRunner, wake_input: int, *, is_bound: bool = False) -> None:
        self.attempts = attempts
        self.is_bound = is_bound
        self.wake_input = wake_input
        self.inputs = [0, wake_input]
        """Descriptors to wait for; without the first once it is closed."""
        self.partial_line = b""

    def is_over(self) -> bool:
        """Return whether the input is closed and nothing runs."""
        return self.inputs[0] != 0 and not self.attempts.is_busy() and not self.attempts.records.unwritten

    def serve(self, readable: Collection[int]) -> None:
        """Process the descriptors that became readable, and check limits."""
        attempts = self.attempts
        attempts.watchdog.check_limits()
        if not readable:
            attempts.is_urgent = True
            if not attempts.is_busy():
                # Before that, running jobs may be followed by others that need the spare folders.
                attempts.scratch.remove_spares()
        if self.wake_input in readable:
            try:
                system.read(self.wake_input, 65536)
            except BlockingIOError:
                pass
            attempts.record_started()
            attempts.reap()
        if 0 in readable:
            self.read_orders()
        attempts.start_chosen()

    def read_orders(self) -> None:
        """Read the orders that came; an end of the input is the last."""
        text = system.read(0, _PIPE_B)
        *lines, self.partial_line = (self.partial_line + text).split(b"\n")
        for line in lines:
            self.attempts.carry_out(line)
        if not text:
            if self.is_bound:
                self.attempts.kill_all()
            self.attempts.cancel_waiting(lambda _since, _member: True)
            self.attempts.records.add({"r": "closed"})
            self.inputs = [self.wake_input]

    def clean_up(self) -> None:
        """Remove the temporary directories that are left, and their folder."""
        self.attempts.scratch.remove_spares()
        remove_empty(self.attempts.scratch.root)
