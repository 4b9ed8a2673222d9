"""Attempts: starts jobs' processes from orders, in lanes or at once, reaps them, and records their starts and ends.

Like the keeper it knows nothing of Longshore, uses the standard library alone, and is copied into the run directory.
Nothing is started before it is recorded: `AttemptRunner.choose` writes, `AttemptRunner.start_chosen` starts.

The engine reads the file of records, and a pipe wakes it. Each line ends with the member ``c``: the running CRC-32 of
all bytes of the file before it, so that damage is found.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import time
from collections import deque
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "attempts":
    from longshore.keeper.program.attempt_files import Outputs, Scratch
    from longshore.keeper.program.kernel import append_to_log, open_log, peak_memory, signal_group, system
    from longshore.keeper.program.spawner import Environments, Spawner
else:
    # The copy beside the keeper is not in a package.
    from attempt_files import Outputs, Scratch
    from kernel import append_to_log, open_log, peak_memory, signal_group, system
    from spawner import Environments, Spawner

if TYPE_CHECKING:
    import resource
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from longshore.keeper.program.units import HeldUnits
    from longshore.keeper.program.watchdog import Watchdog
    from longshore.keeper.protocol import EndNotes, MemberOrder, Order, RunOrder

    Unwanted: TypeAlias = Callable[[float, MemberOrder], bool]
    Chosen: TypeAlias = tuple[str, str, MemberOrder]

_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGXFSZ)
"""Signals that a shell or Python may have had ignored where the run was submitted."""
_CORE_DUMPED = 0x80
_WAKE_S = 0.005
"""Longest delay before the engine is woken while no slot waits for it."""
_MIN_THREADS, _MAX_THREADS = 2, 4
"""Processes that are being started at once: as many as there are processors, within these bounds."""
_IDLE_S = 0.05
"""Idle time before spare folders are removed."""
_PATIENCE_S = 0.25
"""Longest wait of an attempt in its lane; it was sent ahead because those before it should be short."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL | os.O_NOFOLLOW


class Records:
    """The record file; a full disk delays a record but never loses it."""

    def __init__(self, path: str) -> None:
        self.file = system.open(path, _FLAGS, 0o644)
        system.flock(self.file, fcntl.LOCK_EX)
        self.unwritten = bytearray()
        self.crc = 0
        """Running checksum of all lines so far, written or not."""
        self.has_news = False
        """Whether something was written since the engine was last woken."""

    def add(self, record: dict[str, object]) -> None:
        """Add a record; `flush` writes it."""
        self.take(json.dumps(record, separators=(",", ":")))

    def take(self, record: str) -> None:
        """Add a record that is JSON already."""
        payload = record[:-1].encode()
        crc = crc32(payload, self.crc)
        tail = b',"c":"%08x"}\n' % crc
        self.unwritten += payload + tail
        self.crc = crc32(tail, crc)

    def flush(self) -> bool:
        """Write all records; return false if a full disk keeps some back."""
        try:
            while self.unwritten:
                written = system.write(self.file, self.unwritten)
                del self.unwritten[:written]
                self.has_news = True
        except OSError:
            return False
        return True

    def wake(self) -> None:
        """Wake the engine to read the records."""
        self.has_news = False
        try:
            system.write(1, b"\n")
        except OSError:
            # The engine is gone, or has not read the earlier bytes yet: either way it reads the file when it looks.
            pass


# Lanes: attempts that were sent ahead of their slots, and wait for one.


class KeeperLane:
    """Attempts of one request that take each other's place as they end."""

    def __init__(self) -> None:
        self.slots = 0
        self.running = 0
        self.waiting: deque[tuple[float, str, MemberOrder]] = deque()
        """Time of arrival, tag of the batch, and attempt."""


class KeeperLanes:
    """All lanes, by name."""

    def __init__(self) -> None:
        self.lanes: dict[str, KeeperLane] = {}
        self.waiting_count = 0
        """Number of attempts that wait in all lanes."""
        self.check_at = 0.0
        """Time before which no attempt has waited too long."""

    def add(self, name: str, slots: int, tag: str, members: Sequence[MemberOrder]) -> list[Chosen]:
        """Append attempts to a lane and set its slots; return those to start at once."""
        lane = self.lanes.setdefault(name, KeeperLane())
        lane.slots = slots
        now = system.monotonic()
        if not self.waiting_count:
            self.check_at = now + _PATIENCE_S
        lane.waiting.extend((now, tag, member) for member in members)
        self.waiting_count += len(members)
        return self.fill(name, lane)

    def leave(self, name: str | None) -> tuple[list[Chosen], bool]:
        """Free a lane's slot after an end; return the attempts that take it, and whether none of the lane waits."""
        lane = self.lanes.get(name) if name is not None else None
        if lane is None or name is None:
            return [], True
        lane.running -= 1
        chosen = self.fill(name, lane)
        if not lane.waiting and not lane.running:
            del self.lanes[name]
        return chosen, not lane.waiting

    def cancel_waiting(self, unwanted: Unwanted) -> list[MemberOrder]:
        """Remove unwanted attempts from their lanes, and return them."""
        gone: list[MemberOrder] = []
        for name, lane in list(self.lanes.items()):
            found = [member for since, _, member in lane.waiting if unwanted(since, member)]
            if found:
                gone += found
                self.waiting_count -= len(found)
                lane.waiting = deque(entry for entry in lane.waiting if not unwanted(entry[0], entry[2]))
                if not lane.waiting and not lane.running:
                    del self.lanes[name]
        return gone

    def cancel_impatient(self) -> tuple[list[MemberOrder], float | None]:
        """Remove attempts that waited too long; return them, and seconds until the next check (``None``: no check)."""
        if not self.waiting_count:
            return [], None
        now = system.monotonic()
        gone: list[MemberOrder] = []
        if now >= self.check_at:
            limit = now - _PATIENCE_S
            gone = self.cancel_waiting(lambda since, _: since <= limit)
            oldest = min((lane.waiting[0][0] for lane in self.lanes.values() if lane.waiting), default=now)
            self.check_at = oldest + _PATIENCE_S
        return gone, max(self.check_at - now, 0.001)

    def fill(self, name: str, lane: KeeperLane) -> list[Chosen]:
        """Choose the next attempts of a lane while it has room."""
        chosen: list[Chosen] = []
        while lane.waiting and lane.running < lane.slots:
            lane.running += 1
            _, tag, member = lane.waiting.popleft()
            chosen.append((name, tag, member))
        self.waiting_count -= len(chosen)
        return chosen


class AttemptRunner:
    """Attempts that wait, are being started, or run.

    Nothing is started once `successor_file` exists: another engine has then replaced the one that gave these orders,
    which may have been suspended between its last check and the order. `is_local_disk` is true on a file system that
    never caches the absence of a file. `units` are what attempts hold of the machine.
    """

    def __init__(
        self,
        records: Records,
        tmp: str,
        watchdog: Watchdog,
        *,
        wake: Callable[[], None] | None = None,
        successor_file: str = "",
        is_local_disk: bool = True,
        units: HeldUnits | None = None,
    ) -> None:
        self.successor_file = successor_file
        self.is_local_disk = is_local_disk
        self.records = records
        self.units = units
        self.watchdog = watchdog
        self.environments = Environments()
        self.scratch = Scratch(tmp, lambda name: self.environments.find(name, os.environ.get("PATH", os.defpath), "/"))
        self.starting: dict[tuple[int, int], int] = {}
        """Attempts that are being started, each with the signal to send once it has started, or 0."""
        self.running: dict[int, tuple[int, int, float, str, str | None]] = {}
        """Job, attempt, start time, temporary directory and lane, by process number."""
        self.outputs = Outputs(is_local_disk=is_local_disk)
        self.lanes = KeeperLanes()
        self.chosen: list[tuple[str | None, MemberOrder]] = []
        """Lane and attempt to start once the record that says so is written."""
        self.is_preparing = False
        """Whether the keeper is making an attempt's log or temporary directory, so that an error is not the job's."""
        self.peak = 0
        self.peak_read_at = -1.0
        self.is_urgent = False
        """Whether a slot is free that only the engine can fill."""
        self.wake_below = 0
        """Number of waiting attempts down to which the engine need not be woken at once."""
        self.null_file = system.open(os.devnull, os.O_RDONLY)
        self.spawner = self.make_spawner(wake) if wake else None

    def make_spawner(self, wake: Callable[[], None]) -> Spawner | None:
        """Make the spawner, which starts processes while the keeper goes on; ``None`` if the system lacks support."""
        try:
            # Threads beyond the processors start nothing sooner, and contend with the keeper for the interpreter's
            # lock: with four on two processors a job took 9 % more processor time than with two.
            threads = min(max(_MIN_THREADS, len(system.sched_getaffinity(0))), _MAX_THREADS)
            return Spawner(threads, default_signals=_RESET_SIGNALS, null_file=self.null_file, wake=wake)
        except (OSError, RuntimeError):
            # An older C library, or a limit on threads: processes are started one after the other.
            return None

    def carry_out(self, line: bytes) -> None:
        """Read one order; `start_chosen` carries it out."""
        order: Order = json.loads(line)
        if order["o"] == "env":
            self.environments.add(order)
        elif order["o"] == "run":
            self.take(order)
        else:
            # An attempt that was ordered before, perhaps in the same read, must exist to be killed.
            self.start_chosen()
            wanted = {(job, attempt) for job, attempt in order["m"]}
            self.cancel_waiting(lambda _, member: (member["j"], member["a"]) in wanted)
            for attempt_id in wanted & self.starting.keys():
                self.starting[attempt_id] = order["sig"]
            for pid, (job, attempt, _, _, _) in self.running.items():
                if (job, attempt) in wanted:
                    signal_group(pid, order["sig"])

    def kill_all(self) -> None:
        """Kill all attempts, and start none of those that were chosen."""
        self.chosen.clear()
        self.starting = dict.fromkeys(self.starting, signal.SIGKILL)
        for pid in self.running:
            signal_group(pid, signal.SIGKILL)

    def take(self, order: RunOrder) -> None:
        """Choose the members of a run order to start at once, and put the rest into its lane."""
        tag, lane = json.dumps(order["b"]), order.get("l")
        if lane is None:
            self.choose(None, tag, order["m"])
            return
        self.choose_next(self.lanes.add(lane, order["n"], tag, order["m"]))
        self.wake_below = self.lanes.waiting_count // 2

    def choose(self, lane: str | None, tag: str, members: Sequence[MemberOrder]) -> None:
        """Record members that are about to be started."""
        these = ",".join(["[%d,%d]" % (member["j"], member["a"]) for member in members])
        self.records.take('{"r":"got","b":%s,"m":[%s]}' % (tag, these))
        self.chosen.extend((lane, member) for member in members)

    def choose_next(self, chosen: list[Chosen]) -> None:
        """Record members that waited in lanes and are about to be started."""
        for lane, tag, member in chosen:
            self.choose(lane, tag, [member])

    def leave(self, lane: str | None, member: tuple[int, int]) -> None:
        """Make room for the next member of a lane after one ended, which gets its units."""
        chosen, free = self.lanes.leave(lane)
        if self.units:
            self.units.pass_on(member, next(((each["j"], each["a"]) for _, _, each in chosen), None))
        self.choose_next(chosen)
        self.is_urgent = self.is_urgent or free

    def cancel_waiting(self, unwanted: Unwanted) -> None:
        """Remove unwanted attempts from their lanes, and record that they will never start."""
        self.record_never_started(self.lanes.cancel_waiting(unwanted))

    def record_never_started(self, gone: list[MemberOrder]) -> None:
        """Record that waiting attempts will never start."""
        if gone:
            self.records.add({"r": "never", "m": [[member["j"], member["a"]] for member in gone]})
            self.is_urgent = True

    def start_chosen(self) -> None:
        """Start the chosen attempts, once the record that says so is written."""
        while self.records.flush() and self.chosen:
            chosen, self.chosen = self.chosen, []
            # The order may have waited, in a lane, for the disk, or with an engine that was suspended.
            is_late = self.is_superseded()
            for lane, member in chosen:
                if is_late:
                    self.records.add(self.superseded_record(member))
                    self.leave(lane, (member["j"], member["a"]))
                elif self.units and not self.units.take((member["j"], member["a"]), member.get("u", ())):
                    # Another run was quicker.
                    self.record_never_started([member])
                    self.leave(lane, (member["j"], member["a"]))
                else:
                    self.start(member, lane)

    def is_superseded(self) -> bool:
        """Return whether another engine has begun since the one that gives the orders."""
        if not self.successor_file:
            return False
        if self.is_local_disk:
            return system.lexists(self.successor_file)
        try:
            # The folder is opened and listed anew, because a network file system caches absence for a while.
            return os.path.basename(self.successor_file) in system.listdir(os.path.dirname(self.successor_file))
        except OSError:
            # The engine itself has just checked.
            return False

    def superseded_record(self, member: MemberOrder) -> dict[str, object]:
        """Return the record of an attempt that was not started and is left to the next engine."""
        end = {"r": "end", "j": member["j"], "a": member["a"], "t": system.time(), "no": errno.ESTALE, "own": True}
        return dict(end, err="another engine has taken the run up")

    def wake_engine(self) -> float | None:
        """Wake the engine if it is time to, else return the seconds until then; ``None`` if nothing is due."""
        if not self.records.has_news:
            self.is_urgent = False
            return None
        if self.is_urgent or self.lanes.waiting_count <= self.wake_below:
            self.is_urgent = False
            self.records.wake()
            return None
        return _WAKE_S

    def start(self, member: MemberOrder, lane: str | None) -> None:
        """Start one attempt, with the spawner if it can."""
        attempt = member["j"], member["a"]
        tmp = self.scratch.path(*attempt)
        try:
            self.is_preparing = True
            self.scratch.make(tmp)
            self.is_preparing = False
            if "out" in member:
                self.outputs.begin(member)
            if self.spawner and (environment := self.environments.encode(member, tmp)):
                self.spawner.start(
                    (member, lane, tmp),
                    self.environments.find_program(member),
                    member["argv"],
                    environment,
                    folder=member["cwd"],
                    log=member["log"],
                )
                self.starting[attempt] = 0
                return
            self.record_start(member, lane, tmp, *self.spawn(member, tmp))
        except (OSError, ValueError) as error:
            self.records.add(self.start_failure(member, error, tmp))
            self.leave(lane, attempt)

    def spawn(self, member: MemberOrder, tmp: str) -> tuple[int, float]:
        """Start a process, wait until its program is loaded, and return its number and start (seconds since boot)."""
        self.is_preparing = True
        # Opened here and not in the new process, so that an error names the log and not the program.
        log = open_log(member["log"])
        self.is_preparing = False
        try:
            system.chdir(member["cwd"])
            # Before the start: loading the program, on a busy network disk, can take longer than the tolerance by which
            # a later keeper recognises a process.
            since_boot_s = system.clock_gettime(time.CLOCK_BOOTTIME)
            pid = system.posix_spawn(
                self.environments.find_program(member),
                member["argv"],
                {**self.environments.variables[member["e"]], **member["v"], "TMPDIR": tmp},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, self.null_file, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=_RESET_SIGNALS,
            )
        finally:
            system.close(log)
        return pid, since_boot_s

    def record_start(self, member: MemberOrder, lane: str | None, tmp: str, pid: int, since_boot_s: float) -> None:
        """Record the start of an attempt, in seconds since boot."""
        job, attempt = member["j"], member["a"]
        # The spawner's starts arrive later, and a short job may be over by then.
        late_s = system.clock_gettime(time.CLOCK_BOOTTIME) - since_boot_s
        self.running[pid] = (job, attempt, system.monotonic() - late_s, tmp, lane)
        rest = ""
        if "lim" not in member:
            self.watchdog.unlimited[pid] = member["log"]
        else:
            self.watchdog.begin(pid, member["lim"], member["log"])
            # For a later keeper, which watches it when this one is gone.
            log = os.fsencode(member["log"]).decode(errors="replace")
            rest = ',"lim":%s,"log":%s' % (json.dumps(member["lim"]), json.dumps(log))
        if self.units and "u" in member:
            # For a guard, which releases them when this keeper is gone.
            rest += ',"u":%s' % json.dumps(self.units.ranges[job, attempt])
        record = '{"r":"start","j":%d,"a":%d,"pid":%d,"t":%.6f,"up":%.6f%s}'
        self.records.take(record % (job, attempt, pid, system.time() - late_s, since_boot_s, rest))
        if number := self.starting.pop((job, attempt), 0):
            signal_group(pid, number)

    def record_started(self) -> None:
        """Record the spawner's starts, and retry its failures here, where the error is known."""
        for (member, lane, tmp), pid, since_boot_s in self.spawner.finished_starts() if self.spawner else ():
            try:
                self.record_start(member, lane, tmp, *((pid, since_boot_s) if pid else self.spawn(member, tmp)))
            except (OSError, ValueError) as error:
                self.starting.pop((member["j"], member["a"]), None)
                self.records.add(self.start_failure(member, error, tmp))
                self.leave(lane, (member["j"], member["a"]))

    def start_failure(self, member: MemberOrder, error: Exception, tmp: str) -> dict[str, object]:
        """Log why an attempt could not be started, and return the record of its end."""
        text = getattr(error, "strerror", None) or str(error)
        named = getattr(error, "filename", None) or "".join(member["argv"][:1])
        why = "cannot %s '%s': %s" % ("make" if self.is_preparing else "start", named, text)
        if getattr(error, "errno", None) == errno.ENOEXEC:
            why += " (its first line must name an interpreter, as in #!/bin/sh)"
        append_to_log(member["log"], why)
        self.outputs.attempts.pop((member["j"], member["a"]), None)
        self.scratch.clean(tmp)
        number = getattr(error, "errno", None)
        end = {"r": "end", "j": member["j"], "a": member["a"], "t": system.time(), "err": why, "no": number}
        return dict(end, own=True) if self.is_preparing else end

    def reap(self) -> None:
        """Reap and record every process that has ended, and choose its successors."""
        # A new process counts the memory of the one that made it until it runs its program, so that a peak no higher
        # than the keeper's own says nothing.
        own_peak = self.read_own_peak()
        while True:
            try:
                # Left unreaped for a moment, the process keeps its number, so that what it leaves behind in its group
                # can be ended without hitting a stranger.
                ended = system.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                break
            pid = ended.si_pid
            if pid not in self.running:
                self.record_started()
            if pid not in self.running and self.starting:
                # Perhaps one that was started this moment: its spawner thread soon reports it, and wakes the keeper.
                break
            if pid in self.running:
                self.record_exit(ended)
                signal_group(pid, signal.SIGKILL)
            try:
                _, status, usage = system.wait4(pid, 0)
            except ChildProcessError:
                # Its program could not be loaded: the C library reaps such a process itself, in the thread that started
                # it, and was quicker.
                continue
            self.scratch.removers.discard(pid)
            if pid not in self.running:
                continue
            self.record_end(pid, status, usage, own_peak)

    def record_exit(self, ended: os.waitid_result) -> None:
        """Record the exit status of a process before reaping it, which erases the status for other processes."""
        job, attempt, _, _, _ = self.running[ended.si_pid]
        status = ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status
        if ended.si_code == os.CLD_DUMPED:
            status |= _CORE_DUMPED
        self.records.take('{"r":"exit","j":%d,"a":%d,"t":%.6f,"s":%d}' % (job, attempt, system.time(), status))
        self.records.flush()

    def record_end(self, pid: int, status: int, usage: resource.struct_rusage, own_peak: int) -> None:
        """Record the end of an attempt, and choose its successor."""
        job, attempt, began, tmp, lane = self.running.pop(pid)
        cpu, run = usage.ru_utime + usage.ru_stime, system.monotonic() - began
        if own_peak < usage.ru_maxrss < 2 * own_peak:
            # The keeper may have grown since its peak was read.
            own_peak = self.peak = peak_memory()
        rss = usage.ru_maxrss * 1024 if usage.ru_maxrss > own_peak else None
        notes: EndNotes = {}
        kept_tmp = None
        if self.watchdog.needs_unwatch(pid, status):
            kept_tmp = self.scratch.retain(tmp) if self.watchdog.keeps_scratch(pid, status) else None
            if kept_tmp:
                self.watchdog.say(pid, "TMPDIR is kept: %s" % kept_tmp)
            notes = self.watchdog.unwatch(pid, status, rss)
            if kept_tmp:
                notes["tmp"] = kept_tmp
        if (job, attempt) in self.outputs.attempts:
            notes.update(self.outputs.end(job, attempt, status))
        record = '{"r":"end","j":%d,"a":%d,"t":%.6f,"s":%d,"run":%.6f,"cpu":%.6f,"rss":%s%s}'
        peak = notes.pop("rss", rss)
        rest = "," + json.dumps(notes, separators=(",", ":"))[1:-1] if notes else ""
        self.records.take(record % (job, attempt, system.time(), status, run, cpu, peak or "null", rest))
        if not kept_tmp:
            self.scratch.clean(tmp)
        self.leave(lane, (job, attempt))

    def is_busy(self) -> bool:
        """Return whether any process or chosen attempt is left to serve."""
        return bool(self.running or self.starting or self.scratch.removers or self.chosen)

    def compute_timeout(self) -> float | None:
        """Return the seconds to sleep unless there is news; ``None`` for no limit."""
        expired, patience_s = self.lanes.cancel_impatient()
        self.record_never_started(expired)
        timeouts = [patience_s, self.wake_engine(), self.watchdog.next_check_s()]
        if self.records.unwritten:
            timeouts.append(1.0)
        if self.scratch.spares and not self.is_busy():
            timeouts.append(_IDLE_S)
        return min((pause for pause in timeouts if pause is not None), default=None)

    def read_own_peak(self) -> int:
        """Return the peak memory of the keeper, in KiB; read at most once a second."""
        now = system.monotonic()
        if now - self.peak_read_at > 1.0:
            self.peak_read_at = now
            self.peak = peak_memory()
        return self.peak
