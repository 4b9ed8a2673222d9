"""The keeper: starts the jobs of a run on this machine, writes down how they end, and outlives the engine.

It is a program of its own, copied into the run directory and run as ``python -I -S -B keeper.py RECORDS TMP NEXT
WHERE``. Nothing is started once NEXT is there, the journal of a newer engine. Beside
it lie ``spawner.py``, which starts processes in threads, and ``watchdog.py``, ``processes.py`` and ``cgroups.py``, that
end attempts that use more than they may. It knows nothing of Longshore: orders come as lines of JSON on its standard
input, records go as lines of JSON to the file RECORDS, and a byte on its standard output tells the engine that there is
something new to read. Attempts get their ``TMPDIR``, named JOB.ATTEMPT, in the folder TMP. When its input closes it
starts nothing more, waits for the jobs that run, removes TMP, and ends. What decides when is one file because only the
whole of it shows that nothing is started before it is written down.

Orders, by ``o``::

    {"o": "env", "id": 1, "on": 0, "env": {...}}        an environment, for later orders to refer to; adds to that of on
    {"o": "run", "b": TAG, "m": [{"j": JOB, "a": ATTEMPT, "argv": [...], "e": ID, "v": {more environment},
                                  "cwd": ..., "log": ..., "lim": {limits, see the watchdog}}],
     "l": LANE, "n": SLOTS}                             lane: see below; without one all start at once
    {"o": "kill", "m": [[JOB, ATTEMPT]], "sig": NUMBER}                 a signal to the whole process group

Attempts of one lane start in the order in which they came, never more than SLOTS of them at once, a number that each
order sets anew. So the engine can send more than there is room for, and no slot waits for its answer when one ends.
Who waits longer than a moment, is killed meanwhile, or waits when the input closes never starts.

Records, by ``r``::

    {"r": "keeper", "pid", "host", "boot", "tmp"}      first
    {"r": "got", "b": TAG, "m": [[j, a]]}       written before any of these members is started
    {"r": "never", "m": [[j, a]]}               they waited in a lane, and will not be started
    {"r": "start", "j", "a", "pid", "t", "up"}  t: epoch seconds; up: seconds since boot, to know the process again by
    {"r": "end", "j", "a", "t", "s": wait status, "run": seconds, "cpu": seconds, "rss": bytes or null,
     "why": "OOM", "WALLTIME" or "OUTPUT", "say": text,    where a limit ended it
     "tmp": path}                                          where its temporary directory was kept
    {"r": "end", "j", "a", "t", "err": text, "no": errno, "own": bool}     it could not be started; own: for want of
                                                                         its log or temporary directory
    {"r": "closed"}                             the input is closed and every order read: nothing more will start
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import stat
import sys
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "__main__":
    from longshore.engine.spawner import Spawner, pair
else:
    # Run as a program, it finds nothing but the standard library and, after that, what was copied beside it.
    sys.dont_write_bytecode = True
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from spawner import Spawner, pair

if TYPE_CHECKING:
    import resource
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from longshore.engine.watchdog import Watchdog

    Member: TypeAlias = dict[str, Any]

FILES = ("spawner.py", "watchdog.py", "processes.py", "cgroups.py", "keeper.py")
"""The files that the program consists of."""
_PR_SET_CHILD_SUBREAPER = 36
_RESET = (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGXFSZ)


_PATIENCE_S = 0.25
"""How long an attempt may wait in its lane; it was sent ahead because those before it were expected to be short."""
_WAKE_S = 0.005
"""How long the engine may be left asleep when no slot is waiting for it."""
_MOST_THREADS = 4
"""Processes that are being started at once."""
_SPARE_FOLDERS = 64
_TIDY_S = 0.05
"""How long nothing may run before spare folders are removed."""


class Records:
    """The file of records; a full disk delays a record but never loses it."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.unwritten = bytearray()
        self.news = False
        """Whether something was written since the engine was last woken."""

    def add(self, record: dict[str, object]) -> None:
        """Take a record; `flush` writes it."""
        self.take(json.dumps(record, separators=(",", ":")) + "\n")

    def take(self, line: str) -> None:
        """Take a record that is a line of JSON already."""
        self.unwritten += line.encode()

    def flush(self) -> bool:
        """Write what there is, and whether nothing is left: a full disk keeps some back."""
        try:
            while self.unwritten:
                written = os.write(self.file, self.unwritten)
                del self.unwritten[:written]
                self.news = True
        except OSError:
            return False
        return True

    def wake(self) -> None:
        """Tell the engine that there is something to read."""
        self.news = False
        try:
            os.write(1, b"\n")
        except OSError:
            # The engine is gone, or has not read the earlier bytes yet: either way it reads the file when it looks.
            pass


class Lane:
    """Attempts that take each other's place as they end."""

    def __init__(self) -> None:
        self.slots = 0
        self.running = 0
        self.waiting: deque[tuple[float, str, Member]] = deque()
        """Since when, the tag of the batch, and the attempt."""


class Keeper:
    """Starts processes and reaps them.

    Nothing is started once the file `successor` is there: another engine has taken the place of the one whose orders
    these are, which may have been suspended between its last look and the order. It is `near` when it lies on a file
    system that never remembers wrongly that something is not there.
    """

    def __init__(
        self,
        records: Records,
        tmp: str,
        watchdog: Watchdog,
        *,
        wake: Callable[[], None] | None = None,
        successor: str = "",
        near: bool = True,
    ) -> None:
        self.successor = successor
        self.near = near
        self.records = records
        self.tmp = tmp
        self.watchdog = watchdog
        self.environments: dict[int, dict[str, str]] = {}
        self.pairs: dict[int, dict[str, bytes]] = {}
        """The same as the spawner takes them."""
        self.starting: dict[tuple[int, int], int] = {}
        """Attempts that are being started, each with the signal it gets as soon as it is there, or 0."""
        self.running: dict[int, tuple[int, int, float, str, str | None]] = {}
        """Job, attempt, when it began, its temporary directory and its lane, by number of the process."""
        self.lanes: dict[str, Lane] = {}
        self.chosen: list[tuple[str | None, Member]] = []
        """Lane and attempt of what starts as soon as the record that says so is written."""
        self.programs: dict[tuple[str, str], str] = {}
        self.spare: list[str] = []
        """Temporary directories in which nothing was ever put, to be given to others: making one costs more."""
        self.cleaners: set[int] = set()
        self.preparing = False
        """Whether what is being made for an attempt is ours: its log, its temporary directory."""
        self.peak = 0
        self.looked_up = -1.0
        self.urgent = False
        """Whether a slot is free that only the engine can fill."""
        self.enough = 0
        """Number of waiting attempts down to which the engine need not be woken at once."""
        self.nowhere = os.open(os.devnull, os.O_RDONLY)
        self.spawner = self.make_spawner(wake) if wake else None

    def make_spawner(self, wake: Callable[[], None]) -> Spawner | None:
        """Make what starts processes while the keeper goes on, where there is such a thing."""
        try:
            return Spawner(_MOST_THREADS, reset=_RESET, nowhere=self.nowhere, wake=wake)
        except (OSError, RuntimeError):
            # An older C library, or a limit on threads: they are started one after the other.
            return None

    def obey(self, line: bytes) -> None:
        """Take one order; `start_chosen` carries it out."""
        order = json.loads(line)
        kind = order["o"]
        if kind == "env":
            self.set_environment(order)
        elif kind == "run":
            self.take(order)
        elif kind == "kill":
            # What was ordered before it, perhaps in the same breath, is there to be killed.
            self.start_chosen()
            wanted = {tuple(member) for member in order["m"]}
            self.turn_away(lambda _, member: (member["j"], member["a"]) in wanted)
            for attempt_id in wanted & self.starting.keys():
                self.starting[attempt_id] = order["sig"]
            for pid, (job, attempt, _, _, _) in self.running.items():
                if (job, attempt) in wanted:
                    send(pid, order["sig"])

    def set_environment(self, order: dict[str, Any]) -> None:
        """Take an environment."""
        number = order["id"]
        self.environments[number] = {**self.environments.get(order.get("on", -1), {}), **order["env"]}
        try:
            self.pairs[number] = {name: pair(name, value) for name, value in self.environments[number].items()}
        except ValueError:
            # Who uses it is told by the standard library what is wrong with it.
            self.pairs.pop(number, None)

    def take(self, order: dict[str, Any]) -> None:
        """Choose what is to start at once, and put the rest into its lane."""
        name = order.get("l")
        if name is None:
            self.choose(None, json.dumps(order["b"]), order["m"])
            return
        lane = self.lanes.setdefault(name, Lane())
        lane.slots = order["n"]
        now = time.monotonic()
        tag = json.dumps(order["b"])
        lane.waiting.extend((now, tag, member) for member in order["m"])
        self.fill(name, lane)
        self.enough = self.count_waiting() // 2

    def choose(self, lane: str | None, tag: str, members: list[Member]) -> None:
        """Write down that these are about to be started."""
        these = ",".join(["[%d,%d]" % (member["j"], member["a"]) for member in members])
        self.records.take('{"r":"got","b":%s,"m":[%s]}\n' % (tag, these))
        self.chosen.extend((lane, member) for member in members)

    def fill(self, name: str, lane: Lane) -> None:
        """Choose the next of a lane while it has room."""
        while lane.waiting and lane.running < lane.slots:
            lane.running += 1
            _, tag, member = lane.waiting.popleft()
            self.choose(name, tag, [member])

    def leave(self, name: str | None) -> None:
        """Make room for the next of a lane, of which one ended."""
        lane = self.lanes.get(name) if name is not None else None
        if lane is None or name is None:
            self.urgent = True
            return
        lane.running -= 1
        self.fill(name, lane)
        if not lane.waiting:
            self.urgent = True
            if not lane.running:
                del self.lanes[name]

    def count_waiting(self) -> int:
        """How many attempts wait in lanes."""
        return sum(len(lane.waiting) for lane in self.lanes.values())

    def turn_away(self, unwanted: Callable[[float, Member], bool]) -> None:
        """Take attempts out of their lanes, and write down that they will not be started."""
        for name, lane in list(self.lanes.items()):
            gone = [member for since, _, member in lane.waiting if unwanted(since, member)]
            if gone:
                lane.waiting = deque(entry for entry in lane.waiting if not unwanted(entry[0], entry[2]))
                self.records.add({"r": "never", "m": [[member["j"], member["a"]] for member in gone]})
                self.urgent = True
                if not lane.waiting and not lane.running:
                    del self.lanes[name]

    def turn_impatient_away(self) -> float | None:
        """Turn away who has waited too long; return when to look again, in seconds."""
        oldest = min((lane.waiting[0][0] for lane in self.lanes.values() if lane.waiting), default=None)
        if oldest is None:
            return None
        left = oldest + _PATIENCE_S - time.monotonic()
        if left <= 0:
            limit = time.monotonic() - _PATIENCE_S
            self.turn_away(lambda since, _: since <= limit)
        return max(left, 0.001)

    def start_chosen(self) -> None:
        """Start what was chosen, once the record that says so is written."""
        while self.records.flush() and self.chosen:
            chosen, self.chosen = self.chosen, []
            # Its order may have waited, in a lane, for the disk, or with an engine that was suspended.
            late = self.superseded()
            for lane, member in chosen:
                if late:
                    self.records.add(self.not_for_us(member))
                    self.leave(lane)
                else:
                    self.start(member, lane)

    def superseded(self) -> bool:
        """Whether another engine has begun since the one that gives the orders."""
        if not self.successor:
            return False
        if self.near:
            return os.path.lexists(self.successor)
        try:
            # Opened and listed anew, because a network file system remembers for a while what was not there.
            return os.path.basename(self.successor) in os.listdir(os.path.dirname(self.successor))
        except OSError:
            # The engine has just looked itself.
            return False

    def not_for_us(self, member: Member) -> dict[str, object]:
        """Say of an attempt that it was not started, and is the next engine's to start."""
        end = {"r": "end", "j": member["j"], "a": member["a"], "t": time.time(), "no": errno.ESTALE, "own": True}
        return dict(end, err="another engine has taken the run up")

    def wake_engine(self) -> float | None:
        """Wake the engine if it is time to, else return in how many seconds it is."""
        if not self.records.news:
            self.urgent = False
            return None
        if self.urgent or self.count_waiting() <= self.enough:
            self.urgent = False
            self.records.wake()
            return None
        return _WAKE_S

    def start(self, member: Member, lane: str | None) -> None:
        """Start one attempt, or have it started."""
        # Taken before the start: loading the program, on a busy network disk, can take longer than the tolerance with
        # which a process is known again.
        up = time.clock_gettime(time.CLOCK_BOOTTIME)
        attempt = member["j"], member["a"]
        tmp = "%s/%d.%d" % (self.tmp, *attempt)
        try:
            self.preparing = True
            self.make_tmp(tmp)
            self.preparing = False
            if self.spawner and member["e"] in self.pairs:
                own = {name: pair(name, value) for name, value in member["v"].items()}
                environment = {**self.pairs[member["e"]], **own, "TMPDIR": pair("TMPDIR", tmp)}
                self.spawner.start(
                    (member, lane, up, tmp),
                    self.program(member),
                    member["argv"],
                    environment,
                    folder=member["cwd"],
                    log=member["log"],
                )
                self.starting[attempt] = 0
                return
            self.take_down(member, lane, up, tmp, self.spawn(member, tmp))
        except (OSError, ValueError) as error:
            self.records.add(self.not_started(member, error, tmp))
            self.leave(lane)

    def spawn(self, member: Member, tmp: str) -> int:
        """Start a process, wait until its program is loaded, and return its number."""
        self.preparing = True
        # Opened here and not in the new process, so that an error names the log and not the program.
        log = open_log(member["log"])
        self.preparing = False
        try:
            os.chdir(member["cwd"])
            return os.posix_spawn(
                self.program(member),
                member["argv"],
                {**self.environments[member["e"]], **member["v"], "TMPDIR": tmp},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, self.nowhere, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=_RESET,
            )
        finally:
            os.close(log)

    def take_down(self, member: Member, lane: str | None, up: float, tmp: str, pid: int) -> None:
        """Take down that an attempt runs."""
        job, attempt = member["j"], member["a"]
        self.running[pid] = (job, attempt, time.monotonic(), tmp, lane)
        if "lim" in member:
            self.watchdog.begin(pid, member["lim"], member["log"])
        record = '{"r":"start","j":%d,"a":%d,"pid":%d,"t":%.6f,"up":%.6f}\n'
        self.records.take(record % (job, attempt, pid, time.time(), up))
        if number := self.starting.pop((job, attempt), 0):
            send(pid, number)

    def take_started(self) -> None:
        """Take down what the spawner has started; what it could not is tried again here, to be told why."""
        while self.spawner and self.spawner.results:
            (member, lane, up, tmp), pid = self.spawner.results.popleft()
            try:
                self.take_down(member, lane, up, tmp, pid or self.spawn(member, tmp))
            except (OSError, ValueError) as error:
                self.starting.pop((member["j"], member["a"]), None)
                self.records.add(self.not_started(member, error, tmp))
                self.leave(lane)

    def not_started(self, member: Member, error: Exception, tmp: str) -> dict[str, object]:
        """Say in the log and in a record why an attempt could not be started."""
        text = getattr(error, "strerror", None) or str(error)
        named = getattr(error, "filename", None) or "".join(member["argv"][:1])
        why = "cannot start '%s': %s" % (named, text)
        if getattr(error, "errno", None) == errno.ENOEXEC:
            why += " (its first line must name an interpreter, as in #!/bin/sh)"
        try:
            with open(member["log"], "a", encoding="utf-8", errors="backslashreplace") as log:
                log.write("longshore: %s\n" % why)
        except OSError:
            # The record says it as well; a log that cannot be written may be the very reason.
            pass
        self.clean(tmp)
        number = getattr(error, "errno", None)
        end = {"r": "end", "j": member["j"], "a": member["a"], "t": time.time(), "err": why, "no": number}
        return dict(end, own=True) if self.preparing else end

    def make_tmp(self, tmp: str) -> None:
        """Make a temporary directory, or give it one that is as good as new."""
        try:
            if self.spare:
                os.rename(self.spare.pop(), tmp)
                return
        except OSError:
            # Somebody tidied up; there is always the usual way.
            pass
        os.makedirs(tmp, 0o700)
        # From here on, whatever is put into it or taken out of it changes this.
        os.utime(tmp, ns=(0, 0))

    def program(self, member: Member) -> str:
        """Path of a program, as execvp would find it with the job's own PATH."""
        if not member["argv"]:
            raise ValueError("the command has no words")
        word: str = member["argv"][0]
        if "/" in word:
            return word
        environment = self.environments[member["e"]]
        path: str = member["v"].get("PATH", environment.get("PATH", os.defpath))
        return self.programs.get((word, path)) or self.find_program(word, path, member["cwd"])

    def find_program(self, word: str, path: str, start: str) -> str:
        """Look a program up in the folders of a PATH, those that are relative from where the job starts."""
        for folder in path.split(os.pathsep):
            found = os.path.join(start, folder, word)
            if os.path.isfile(found) and os.access(found, os.X_OK):
                if os.path.isabs(folder):
                    self.programs[word, path] = found
                return found
        raise FileNotFoundError(errno.ENOENT, "no such program on the PATH of the job", word)

    def reap(self) -> None:
        """Take down every process that has ended, and choose what takes its place."""
        # A new process counts the memory of the one that made it until it runs its program, so that a peak no higher
        # than the keeper's own says nothing.
        own = self.own_peak()
        while True:
            try:
                # Left unreaped for a moment, the process keeps its number, so that what it leaves behind in its group
                # can be ended without hitting a stranger.
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                break
            pid = ended.si_pid
            if pid not in self.running:
                self.take_started()
            if pid not in self.running and self.starting:
                # Perhaps one that was started this moment: whoever started it is about to say so, and wakes us.
                break
            if pid in self.running:
                send(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            self.cleaners.discard(pid)
            if pid not in self.running:
                continue
            self.take_end(pid, status, usage, own)

    def take_end(self, pid: int, status: int, usage: resource.struct_rusage, own: int) -> None:
        """Take down how an attempt ended, and choose what takes its place."""
        job, attempt, began, tmp, lane = self.running.pop(pid)
        cpu, run = usage.ru_utime + usage.ru_stime, time.monotonic() - began
        rss = usage.ru_maxrss * 1024 if usage.ru_maxrss > own else None
        more: dict[str, object] = {}
        kept = None
        if self.watchdog.concerns(pid, status):
            kept = self.keep(tmp) if self.watchdog.keeps_tmp(pid, status) else None
            if kept:
                self.watchdog.say(pid, "TMPDIR is kept: %s" % kept)
            more = self.watchdog.ended(pid, status, rss)
            if kept:
                more["tmp"] = kept
        record = '{"r":"end","j":%d,"a":%d,"t":%.6f,"s":%d,"run":%.6f,"cpu":%.6f,"rss":%s%s}\n'
        peak = json.dumps(more.pop("rss", rss))
        rest = "," + json.dumps(more, separators=(",", ":"))[1:-1] if more else ""
        self.records.take(record % (job, attempt, time.time(), status, run, cpu, peak, rest))
        if not kept:
            self.clean(tmp)
        self.leave(lane)

    def busy(self) -> bool:
        """Whether there is anything left to see to."""
        return bool(self.running or self.starting or self.cleaners or self.chosen)

    def pause(self) -> float | None:
        """How long nothing is to be done unless there is news, in seconds."""
        pauses = [self.turn_impatient_away(), self.wake_engine(), self.watchdog.due()]
        if self.records.unwritten:
            pauses.append(1.0)
        if self.spare and not self.busy():
            pauses.append(_TIDY_S)
        return min((pause for pause in pauses if pause is not None), default=None)

    def tidy(self) -> None:
        """Remove the spare folders when nothing runs that could be followed by more."""
        if not self.busy():
            for folder in self.spare:
                remove_empty(folder)
            self.spare.clear()

    def own_peak(self) -> int:
        """The most memory the keeper has had, in KiB; looked up at most once a second."""
        now = time.monotonic()
        if now - self.looked_up > 1.0:
            self.looked_up = now
            self.peak = peak_memory()
        return self.peak

    def keep(self, tmp: str) -> str | None:
        """Put an attempt's temporary directory out of the way of those that remove it; ``None`` if it is empty."""
        kept = os.path.join(self.tmp + "-kept", os.path.basename(tmp))
        try:
            if not os.listdir(tmp):
                return None
            os.makedirs(os.path.dirname(kept), 0o700, exist_ok=True)
            os.rename(tmp, kept)
        except OSError:
            return None
        return kept

    def clean(self, tmp: str) -> None:
        """Remove an attempt's temporary directory, in a process of its own when there is something in it."""
        try:
            if len(self.spare) < _SPARE_FOLDERS:
                found = os.lstat(tmp)
                if found.st_mtime_ns == 0 and found.st_mode == stat.S_IFDIR | 0o700:
                    self.spare.append(tmp)
                    return
            os.rmdir(tmp)
        except FileNotFoundError:
            pass
        except OSError:
            self.remove(tmp)

    def remove(self, tmp: str) -> None:
        """Remove a folder and all in it, in a process of its own."""
        # It must not hold the pipes: the engine tells by them whether the keeper lives.
        nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
        try:
            remove = self.find_program("rm", os.environ.get("PATH", os.defpath), "/")
            self.cleaners.add(os.posix_spawn(remove, ["rm", "-rf", "--", tmp], os.environ, file_actions=nowhere))
        except OSError:
            # No more processes can be made, say; what stays behind does no harm but to the space it takes.
            pass


def open_log(path: str) -> int:
    """Open a log for appending, and make its folder if there is none."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def remove_empty(folder: str) -> None:
    """Remove a folder unless there is something in it."""
    try:
        os.rmdir(folder)
    except OSError:
        # It was never made, somebody else was faster, or something in it could not be removed.
        pass


def send(group: int, number: int) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def peak_memory() -> int:
    """The most memory this program has had, in KiB.

    What `getrusage` says of oneself is of no use: it counts the memory of whoever started the program, too.
    """
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def boot_id() -> str:
    """The kernel's name for this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def orphans_come_home() -> None:
    """Make processes whose parents die children of this one, so that it can reap them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def watchdog_beside() -> Watchdog:
    """The watchdog of the programs that lie beside this one."""
    watchdog, processes, cgroups = map(__import__, ("watchdog", "processes", "cgroups"))
    made: Watchdog = watchdog.Watchdog(processes.Processes(), cgroups.delegated())
    return made


def main() -> None:
    """Obey until the input closes, then wait for what runs."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        # Whoever ends the jobs does it by name; the keeper stays to write down how they ended.
        signal.signal(number, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    orphans_come_home()
    records = Records(sys.argv[1])
    tmp = sys.argv[2]
    records.add({"r": "keeper", "pid": os.getpid(), "host": os.uname().nodename, "boot": boot_id(), "tmp": tmp})
    records.flush()
    records.wake()
    # What the thread has for the keeper must not wait until the keeper is done with a long row of its own.
    sys.setswitchinterval(0.0005)
    successor, where = (*sys.argv[3:5], "", "near")[:2]
    keeper = Keeper(records, tmp, watchdog_beside(), wake=lambda: poke(wake), successor=successor, near=where == "near")
    serve(keeper, woken)


def poke(pipe: int) -> None:
    """Write a byte to a pipe that may be full, which is as good."""
    try:
        os.write(pipe, b"\n")
    except BlockingIOError:
        pass


def serve(keeper: Keeper, woken: int) -> None:
    """Obey and reap until the input is closed and nothing runs."""
    records = keeper.records
    unread = b""
    inputs = [0, woken]
    while inputs[0] == 0 or keeper.busy() or records.unwritten:
        readable, _, _ = select.select(inputs, [], [], keeper.pause())
        keeper.watchdog.look()
        if not readable:
            keeper.urgent = True
            keeper.tidy()
        if woken in readable:
            try:
                os.read(woken, 65536)
            except BlockingIOError:
                pass
            keeper.take_started()
            keeper.reap()
        if 0 in readable:
            text = os.read(0, 1 << 20)
            *lines, unread = (unread + text).split(b"\n")
            for line in lines:
                keeper.obey(line)
            if not text:
                keeper.turn_away(lambda _since, _member: True)
                records.add({"r": "closed"})
                inputs = [woken]
        keeper.start_chosen()
    keeper.tidy()
    remove_empty(keeper.tmp)


if __name__ == "__main__":
    main()
