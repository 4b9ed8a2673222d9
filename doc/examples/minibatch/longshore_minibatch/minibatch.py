"""A batch system for one Linux host, without daemons: the programs mb-submit, mb-queue and mb-cancel.

A job is a directory of the spool ($MINIBATCH_SPOOL), locked by its runner: a process that mb-submit leaves behind. The
runner waits for free processors ($MINIBATCH_CPUS), runs the job's script and removes the directory.
"""

import argparse
import ctypes
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

SPOOL = Path(os.environ.get("MINIBATCH_SPOOL") or Path.home() / ".minibatch")
CPUS = int(os.environ.get("MINIBATCH_CPUS") or len(os.sched_getaffinity(0)))
PR_SET_CHILD_SUBREAPER = 36


def submit():
    """Queue a script and print the id of its job."""
    parser = argparse.ArgumentParser("mb-submit", description=submit.__doc__)
    parser.add_argument("-n", dest="name", default="job", help="name of the job")
    parser.add_argument("-c", dest="cpus", type=int, default=1, help="processors")
    parser.add_argument("script", help="file, or - for the input; lines that begin with #MB have options")
    path = parser.parse_args().script
    try:
        script = sys.stdin.read() if path == "-" else Path(path).read_text()
    except OSError as error:
        sys.exit(f"mb-submit: the script '{path}' cannot be read: {error.strerror}")
    lines = [line.removeprefix("#MB ") for line in script.splitlines() if line.startswith("#MB ")]
    args = parser.parse_args([*shlex.split(" ".join(lines)), *sys.argv[1:]])
    if not 1 <= args.cpus <= CPUS:
        sys.exit(f"mb-submit: a job can have 1 to {CPUS} processors, not {args.cpus}")
    SPOOL.mkdir(parents=True, exist_ok=True)
    receive, send = os.pipe()
    if os.fork() == 0:
        os.setsid()
        Runner(args, script, send).run()
    else:
        os.close(send)
        print(os.read(receive, 20).decode() or sys.exit("mb-submit: the job cannot be queued"))


def queue():
    """Print the id, the name and the state (waiting or running) of each job."""
    parser = argparse.ArgumentParser("mb-queue", description=queue.__doc__)
    parser.add_argument("--cpus", action="store_true", help="print the number of processors instead")
    if parser.parse_args().cpus:
        print(CPUS)
        return
    for job in jobs():
        print(job.name, (job / "name").read_text(), "running" if (job / "running").exists() else "waiting")


def cancel():
    """End jobs: TERM to the script of one that runs, KILL to all its processes after the grace."""
    parser = argparse.ArgumentParser("mb-cancel", description=cancel.__doc__)
    parser.add_argument("-g", dest="grace", type=float, default=5.0, help="seconds between TERM and KILL")
    parser.add_argument("-w", dest="waiting", action="store_true", help="only jobs that wait")
    parser.add_argument("names", nargs="+", help="names or ids of jobs; those that are over are ignored")
    args = parser.parse_args()
    for job in jobs():
        if args.waiting and (job / "running").exists():
            continue
        if {job.name, (job / "name").read_text()} & set(args.names):
            (job / "grace").write_text(str(args.grace))
            os.kill(int((job / "pid").read_text()), signal.SIGTERM)


def jobs():
    """The directories of all jobs whose runners live, oldest first; those of the others are removed."""
    for number in sorted(int(path.name) for path in SPOOL.glob("[0-9]*")):
        job = SPOOL / str(number)
        try:
            with open(job / "lock") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(job, ignore_errors=True)
        except BlockingIOError:
            yield job
        except FileNotFoundError:
            continue


class Runner:
    """Waits until a job can run, and runs it."""

    def __init__(self, args, script, send):
        signal.signal(signal.SIGTERM, self.end)
        self.cpus, self.script, self.kill_at = args.cpus, None, None
        self.job = Path(tempfile.mkdtemp(prefix="new-", dir=SPOOL))
        self.files = [open(self.job / "lock", "w")]  # noqa: SIM115 - locked as long as the runner lives
        fcntl.flock(self.files[0], fcntl.LOCK_EX)
        (self.job / "script").write_text(script)
        (self.job / "name").write_text(args.name)
        (self.job / "pid").write_text(str(os.getpid()))
        with open(SPOOL / "last-id", "a+") as last:
            fcntl.flock(last, fcntl.LOCK_EX)
            last.seek(0)
            number = int(last.read() or 0) + 1
            last.truncate(0)
            last.write(str(number))
        # Only now it is a job; whatever kills mb-submit, it is all there or not at all.
        self.job = self.job.rename(SPOOL / str(number))
        os.write(send, str(number).encode())
        for stream in (0, 1, 2, send):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)

    def run(self):
        """Run the job, and remove it."""
        try:
            # What the script leaves behind becomes a child of this process, which ends it.
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self.wait_for_processors()
            (self.job / "running").touch()
            self.script = subprocess.Popen(["/bin/sh", str(self.job / "script")], start_new_session=True)
            while self.script.poll() is None:
                time.sleep(0.02)
                if self.kill_at and time.monotonic() >= self.kill_at:
                    self.kill_all()
            self.kill_all()
        finally:
            shutil.rmtree(self.job)
            os._exit(0)

    def wait_for_processors(self):
        """Lock one file per processor; jobs do so in the order in which they come to the turnstile."""
        with open(SPOOL / "turnstile", "w") as turnstile:
            fcntl.flock(turnstile, fcntl.LOCK_EX)
            taken = 0
            while taken < self.cpus:
                for number in range(CPUS):
                    file = open(SPOOL / f"cpu{number}", "w")  # noqa: SIM115 - locked until the job is over
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue
                    self.files.append(file)
                    taken += 1
                    if taken == self.cpus:
                        return
                time.sleep(0.02)

    def end(self, *_):
        """Take an order of mb-cancel."""
        if self.script is None:
            raise SystemExit
        os.killpg(self.script.pid, signal.SIGTERM)
        self.kill_at = time.monotonic() + float((self.job / "grace").read_text())

    def kill_all(self):
        """Kill all processes that descend from this one."""
        while found := descendants(os.getpid()):
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            time.sleep(0.01)


def descendants(process):
    """The processes that descend from one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(int(parent), []).append(int(path.parent.name))
    found = list(children.get(process, ()))
    for each in found:
        found += children.get(each, ())
    return found
