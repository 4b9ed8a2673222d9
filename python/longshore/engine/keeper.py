"""The keeper: starts the jobs of a run on this machine, writes down how they end, and outlives the engine.

It is a program of its own, copied into the run directory and run as ``python -I -S keeper.py RECORDS TMP``. It knows
nothing of Longshore: orders come as lines of JSON on its standard input, records go as lines of JSON to the file
RECORDS, and a byte on its standard output tells the engine that there is something new to read. Attempts get their
``TMPDIR``, named JOB.ATTEMPT, in the folder TMP. When its input closes it starts nothing more, waits for the jobs that
run, removes TMP, and ends.

Orders, by ``o``::

    {"o": "env", "id": 0, "env": {...}}                                 an environment, for later orders to refer to
    {"o": "run", "b": TAG, "m": [{"j": JOB, "a": ATTEMPT, "argv": [...], "e": ID, "v": {more environment},
                                  "cwd": ..., "log": ...}]}
    {"o": "kill", "m": [[JOB, ATTEMPT]], "sig": NUMBER}                 a signal to the whole process group

Records, by ``r``::

    {"r": "keeper", "pid", "host", "boot", "tmp"}      first
    {"r": "got", "b": TAG, "m": [[j, a]]}       written before any member is started
    {"r": "start", "j", "a", "pid", "t", "up"}  t: epoch seconds; up: seconds since boot, to know the process again by
    {"r": "end", "j", "a", "t", "s": wait status, "run": seconds, "cpu": seconds, "rss": bytes or null}
    {"r": "end", "j", "a", "t", "err": text, "no": errno}     it could not be started
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
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Member: TypeAlias = dict[str, Any]

_PR_SET_CHILD_SUBREAPER = 36
_RESET = (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGXFSZ)


class Records:
    """The file of records; a full disk delays a record but never loses it."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.unwritten = bytearray()

    def add(self, *records: dict[str, object]) -> None:
        """Write records, and wake the engine."""
        for record in records:
            self.unwritten += json.dumps(record, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write what a full disk kept back."""
        try:
            while self.unwritten:
                written = os.write(self.file, self.unwritten)
                del self.unwritten[:written]
        except OSError:
            return
        try:
            os.write(1, b"\n")
        except OSError:
            # The engine is gone, or has not read the earlier bytes yet: either way it reads the file when it looks.
            pass


class Keeper:
    """Starts processes and reaps them."""

    def __init__(self, records: Records, tmp: str) -> None:
        self.records = records
        self.tmp = tmp
        self.environments: dict[int, dict[str, str]] = {}
        self.running: dict[int, tuple[int, int, float, str]] = {}
        self.programs: dict[tuple[str, str], str] = {}
        self.folders: set[str] = set()
        self.cleaners: set[int] = set()
        self.peak = 0
        self.looked_up = -1.0
        self.deferred: list[dict[str, list[Member]]] = []

    def obey(self, line: bytes) -> None:
        """Carry out one order, or put it off while records cannot be written."""
        order = json.loads(line)
        kind = order["o"]
        if kind == "env":
            self.environments[order["id"]] = order["env"]
        elif kind == "run":
            self.records.add({"r": "got", "b": order["b"], "m": [[m["j"], m["a"]] for m in order["m"]]})
            self.deferred.append(order)
            self.start_deferred()
        elif kind == "kill":
            wanted = {tuple(member) for member in order["m"]}
            for pid, (job, attempt, _, _) in self.running.items():
                if (job, attempt) in wanted:
                    send(pid, order["sig"])

    def start_deferred(self) -> None:
        """Start what was ordered, once the record that says so is on disk."""
        while self.deferred and not self.records.unwritten:
            self.records.add(*[self.start(member) for member in self.deferred.pop(0)["m"]])

    def start(self, member: Member) -> dict[str, object]:
        """Start one attempt and return its record."""
        job, attempt = member["j"], member["a"]
        tmp = os.path.join(self.tmp, "%d.%d" % (job, attempt))
        environment = dict(self.environments[member["e"]])
        environment.update(member["v"], TMPDIR=tmp)
        # Taken before the start: loading the program, on a busy network disk, can take longer than the tolerance with
        # which a process is known again.
        up = time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            pid = self.spawn(member, environment)
        except (OSError, ValueError) as error:
            return self.not_started(member, error, tmp)
        self.running[pid] = (job, attempt, time.monotonic(), tmp)
        return {"r": "start", "j": job, "a": attempt, "pid": pid, "t": time.time(), "up": up}

    def spawn(self, member: Member, environment: dict[str, str]) -> int:
        """Start a process and return its number."""
        if not member["argv"]:
            raise ValueError("the command has no words")
        self.make_folder(os.path.dirname(member["log"]))
        os.makedirs(environment["TMPDIR"], 0o700)
        os.chdir(member["cwd"])
        # Opened here and not in the new process, so that an error names the log and not the program.
        log = os.open(member["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            return os.posix_spawn(
                self.program(member["argv"][0], environment.get("PATH", os.defpath)),
                member["argv"],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=_RESET,
            )
        finally:
            os.close(log)

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
        return {"r": "end", "j": member["j"], "a": member["a"], "t": time.time(), "err": why, "no": number}

    def make_folder(self, folder: str) -> None:
        """Make a folder for logs once."""
        if folder not in self.folders:
            os.makedirs(folder, exist_ok=True)
            self.folders.add(folder)

    def program(self, word: str, path: str) -> str:
        """Path of a program, as execvp would find it with the job's own PATH."""
        if "/" in word:
            return word
        found = self.programs.get((word, path))
        if found is None:
            for folder in path.split(os.pathsep):
                found = os.path.join(folder or ".", word)
                if os.path.isfile(found) and os.access(found, os.X_OK):
                    break
            else:
                raise FileNotFoundError(errno.ENOENT, "no such program on the PATH of the job", word)
            # What a relative folder of the PATH leads to depends on where the job starts.
            if os.path.isabs(found):
                self.programs[word, path] = found
        return found

    def reap(self) -> None:
        """Write down every process that has ended."""
        ends: list[dict[str, object]] = []
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
            if pid in self.running:
                send(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            self.cleaners.discard(pid)
            if pid not in self.running:
                continue
            job, attempt, began, tmp = self.running.pop(pid)
            ends.append(
                {
                    "r": "end",
                    "j": job,
                    "a": attempt,
                    "t": time.time(),
                    "s": status,
                    "run": round(time.monotonic() - began, 6),
                    "cpu": round(usage.ru_utime + usage.ru_stime, 6),
                    "rss": usage.ru_maxrss * 1024 if usage.ru_maxrss > own else None,
                }
            )
            self.clean(tmp)
        if ends:
            self.records.add(*ends)

    def own_peak(self) -> int:
        """The most memory the keeper has had, in KiB; looked up at most once a second."""
        now = time.monotonic()
        if now - self.looked_up > 1.0:
            self.looked_up = now
            self.peak = peak_memory()
        return self.peak

    def clean(self, tmp: str) -> None:
        """Remove an attempt's temporary directory, in a process of its own when there is something in it."""
        try:
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
            remove = self.program("rm", os.environ.get("PATH", os.defpath))
            self.cleaners.add(os.posix_spawn(remove, ["rm", "-rf", "--", tmp], os.environ, file_actions=nowhere))
        except OSError:
            # No more processes can be made, say; what stays behind does no harm but to the space it takes.
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
    keeper = Keeper(records, tmp)
    unread = b""
    inputs = [0, woken]
    while inputs[0] == 0 or keeper.running or keeper.cleaners or keeper.deferred or records.unwritten:
        readable, _, _ = select.select(inputs, [], [], 1.0 if records.unwritten else None)
        if records.unwritten:
            records.flush()
            keeper.start_deferred()
        if woken in readable:
            try:
                os.read(woken, 65536)
            except BlockingIOError:
                pass
            keeper.reap()
        if 0 in readable:
            text = os.read(0, 1 << 20)
            *lines, unread = (unread + text).split(b"\n")
            for line in lines:
                keeper.obey(line)
            if not text:
                records.add({"r": "closed"})
                inputs = [woken]
    try:
        os.rmdir(tmp)
    except OSError:
        # It was never made, somebody else was faster, or something in it could not be removed.
        pass


if __name__ == "__main__":
    main()
