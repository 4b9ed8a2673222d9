"""Stand-ins for LSF's programs: they print what the recorded replies have, and really run the scripts.

The name of the program is that of the link it was started by; `install` makes the links. What the cluster knows is in a
file in LSF_ENVDIR. There is no daemon: each call, and each end of a job, starts what can start. STAND_IN_WORDS has
further words: ``old`` for a version without JSON, ``down`` for daemons that do not answer, ``forgets`` for a bjobs that
knows no job that is over, ``hour=S`` for seconds of an hour.

Files in LSF_ENVDIR: while there is ``pending``, nothing starts, for the reason in it. ``fault-NAME`` has how many calls
go wrong: ``lost`` for a bsub whose answer is lost, ``full`` for a bsub that is refused for now, ``deaf`` for a bkill
that does nothing, ``down`` for daemons that do not answer, ``half`` for every second call. ``calls`` has all calls.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAMS = (
    "bsub",
    "bjobs",
    "bkill",
    "bstop",
    "bresume",
    "bhist",
    "bacct",
    "blaunch",
    "lsid",
    "bparams",
    "bqueues",
    "badmin",
    "lshosts",
    "bhosts",
)
QUEUES = {"normal": "Open:Active", "short": "Open:Active", "night": "Open:Inactive"}
FLAGS = {"-rn", "-r", "-x", "-H", "-ti", "-N", "-B", "-Ne"}
SLOTS = 8
HOSTS = ("hostA", "hostB", "hostC", "hostD")
"""Hosts of a job with so many slots on each; all are this machine."""
KILLS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
LOOK_S = 0.05
"""Pause between two looks at a job."""
MEMORY_LOOK_S = 0.5
KILL_PAUSE_S = 1.0
"""Pause between SIGINT, SIGTERM and SIGKILL of bkill, which is 10 s of LSF."""
_REASONS = {
    "TERM_OWNER": "job killed by owner",
    "TERM_ADMIN": "job killed by root or LSF administrator",
    "TERM_MEMLIMIT": "job killed after reaching LSF memory usage limit",
    "TERM_RUNLIMIT": "job killed after reaching LSF run time limit",
    "TERM_ORPHAN_SYSTEM": "The orphan job was automatically terminated by LSF",
}
_WORDS = os.environ.get("STAND_IN_WORDS", "").split()


def install(folder: Path) -> Path:
    """Make the programs in a folder, and the cluster's state beside them; return the folder of the programs."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (folder / "conf").mkdir()
    for name in PROGRAMS:
        path = programs / name
        path.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S {shlex.quote(__file__)} {name} "$@"\n', "utf-8"
        )
        path.chmod(0o755)
    return programs


def _say(text: str, *, error: bool = False) -> None:
    (sys.stderr if error else sys.stdout).write(f"{text}\n")


def _root() -> Path:
    return Path(os.environ["LSF_ENVDIR"])


@contextmanager
def _cluster() -> Iterator[dict[str, Any]]:
    """The jobs of the cluster, in exclusive use; what can start is started at the end."""
    path = _root() / "jobs.json"
    with (_root() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jobs: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        yield jobs
        _schedule(jobs)
        path.with_suffix(".new").write_text(json.dumps(jobs), "utf-8")
        path.with_suffix(".new").replace(path)


def _schedule(jobs: dict[str, Any]) -> None:
    free = SLOTS - sum(each["stat"] in {"RUN", "USUSP"} for job in jobs.values() for each in job["elements"].values())
    for number, job in jobs.items():
        for index, element in job["elements"].items():
            if element["stat"] != "PEND":
                continue
            verdict = _condition(jobs, job["options"].get("-w", ""), index)
            if verdict is False and "-ti" in job["options"]:
                _end(element, "TERM_ORPHAN_SYSTEM")
            elif verdict and free > 0 and not _pending_reason():
                free -= 1
                element |= {"stat": "RUN", "start": time.time()}
                element["pid"] = _spawn(number, index)


def _pending_reason() -> str:
    path = _root() / "pending"
    return path.read_text("utf-8").strip() if path.exists() else ""


def _spawn(number: str, index: str) -> int:
    words = [sys.executable, "-S", __file__, "run", number, index]
    null = subprocess.DEVNULL
    # Blocked until `run` can take it: an order to end may come before.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        return subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True).pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _condition(jobs: dict[str, Any], text: str, index: str) -> bool | None:
    """Whether a condition holds; ``None`` for not yet, ``False`` for never."""
    verdicts: list[bool | None] = []
    for word, number, place in re.findall(r"(done|ended)\((\d+)(?:\[(\*|\d+)\])?\)", text):
        elements = jobs[number]["elements"]
        chosen = elements.values() if not place else [elements[index if place == "*" else place]]
        for each in chosen:
            over = each["stat"] in {"DONE", "EXIT"}
            verdicts.append(None if not over else word == "ended" or each["stat"] == "DONE")
    return False if False in verdicts else None if None in verdicts else True


def _end(element: dict[str, Any], reason: str = "", code: int = 0, requeue: str = "") -> None:
    if not reason and str(code) in requeue.split():
        element |= {"stat": "PEND", "start": 0}
        return
    done = not reason and code == 0
    element |= {"stat": "DONE" if done else "EXIT", "reason": reason, "code": code, "end": time.time()}


# ------------------------------------------------------------------------------------------------------------ programs


def bsub(words: list[str]) -> int:
    script = sys.stdin.read()
    lines = [line[5:].strip() for line in script.splitlines() if line.startswith("#BSUB")]
    options: dict[str, str] = {}
    rest = iter([word for line in lines for word in shlex.split(line)] + words)
    for word in rest:
        options[word] = "" if word in FLAGS else next(rest)
    queue = options.get("-q", "normal")
    if queue not in QUEUES:
        _say(f"{queue}: No such queue. Job not submitted.", error=True)
        return 255
    if _fault("full"):
        _say("Pending job threshold reached. Job not submitted.", error=True)
        return 255
    with _cluster() as jobs:
        for number in re.findall(r"\((\d+)", options.get("-w", "")):
            if number not in jobs:
                _say("Dependency condition invalid. Job not submitted.", error=True)
                return 255
        number = str(max(map(int, jobs), default=100) + 1)
        found = re.fullmatch(r"(.*)\[1-(\d+)\]", options["-J"])
        state = "PSUSP" if "-H" in options else "PEND"
        indices = [str(place) for place in range(1, int(found[2]) + 1)] if found else ["0"]
        (_root() / f"{number}.sh").write_text(script, "utf-8")
        jobs[number] = {
            "name": found[1] if found else options["-J"],
            "options": options,
            "queue": queue,
            "cwd": options.get("-cwd", str(Path.cwd())),
            "environment": dict(os.environ),
            "submit": time.time(),
            "elements": {index: {"stat": state, "reason": "", "code": 0, "start": 0, "end": 0} for index in indices},
        }
    if _fault("lost"):
        _say("Failed in sending/receiving a message: Connection reset by peer", error=True)
        return 255
    _say("*** Notice of the site ***")
    kind = "queue" if "-q" in options else "default queue"
    _say(f"Job <{number}> is submitted to {kind} <{queue}>.")
    return 0


def _chosen(words: list[str], jobs: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Elements that words name: ids, or all jobs of a name."""
    name = words[words.index("-J") + 1] if "-J" in words else ""
    ids = [word for word in words if re.fullmatch(r"\d+(\[\d+\])?", word) and word != "0"]
    for number, job in jobs.items():
        if name and job["name"] != name:
            continue
        for index in job["elements"]:
            if not ids or number in ids or f"{number}[{index}]" in ids:
                yield number, index


def bjobs(words: list[str]) -> int:
    if "old" in _WORDS and "-json" in words:
        _say("bjobs: illegal option -- j", error=True)
        return 255
    form = words[words.index("-o") + 1] if "-o" in words else "jobid stat"
    fields = form.split(" delimiter=")[0].split()
    ids = words[words.index("-o") + 2 :]
    with _cluster() as jobs:
        rows = [
            _fields(number, jobs[number], index)
            for number, index in _chosen(ids, jobs)
            if not ("forgets" in _WORDS and jobs[number]["elements"][index]["stat"] in {"DONE", "EXIT"})
        ]
    if "-json" in words:
        records = [{name.upper(): row.get(name, "") for name in fields} for row in rows]
        _say(json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}))
    elif rows:
        for row in rows:
            _say("^".join(row.get(name, "") or "-" for name in fields))
    else:
        _say("No unfinished job found", error=True)
    return 255 if not rows and "-json" not in words else 0


def _moment(at: float) -> str:
    return time.strftime("%b %d %H:%M", time.localtime(at)) if at else ""


def _fields(number: str, job: dict[str, Any], index: str) -> dict[str, str]:
    element = job["elements"][index]
    reason, ran = element["reason"], element["end"] - element["start"] if element["start"] else 0
    return {
        "jobid": number,
        "jobindex": index,
        "job_name": job["name"] + (f"[{index}]" if index != "0" else ""),
        "stat": element["stat"],
        "user": getpass.getuser(),
        "queue": job["queue"],
        "proj_name": job["options"].get("-P", "default"),
        "exit_code": str(element["code"] or ""),
        "exit_reason": f"{reason}: {_REASONS[reason]}" if reason else "",
        "pend_reason": (_pending_reason() or "New job is waiting for scheduling;") if element["stat"] == "PEND" else "",
        "from_host": "hostB",
        "exec_host": "hostA" if element["start"] else "",
        "submit_time": _moment(job["submit"]),
        "start_time": _moment(element["start"]),
        "finish_time": f"{_moment(element['end'])} L" if element["end"] else "",
        "run_time": f"{ran:.0f} second(s)",
        "cpu_used": "00:00:01",
        "max_mem": "12 Mbytes",
        "exec_cwd": job["cwd"],
        "exec_home": str(Path.home()) if element["start"] else "",
        "output_file": job["options"].get("-o", ""),
        "error_file": job["options"].get("-e", ""),
        "user_group": job["options"].get("-G", ""),
        "nthreads": "1" if element["start"] else "",
        "pids": str(element.get("pid", "")),
    }


def bkill(words: list[str]) -> int:
    status, is_deaf = 0, _fault("deaf")
    with _cluster() as jobs:
        found = list(_chosen(words, jobs))
        for number, index in found:
            element = jobs[number]["elements"][index]
            name = number if index == "0" else f"{number}[{index}]"
            if element["stat"] in {"DONE", "EXIT"}:
                _say(f"Job <{name}>: Job has already finished", error=True)
                status = 255
                continue
            if "-s" in words:
                _send(element.get("child", 0), getattr(signal, f"SIG{words[words.index('-s') + 1]}"))
                _say(f"Job <{name}> is being signaled")
                continue
            if is_deaf:
                _say(f"Job <{name}> is being terminated")
                continue
            if element["stat"] in {"RUN", "USUSP"}:
                if "-stat" in words:
                    continue
                element["killed"] = "TERM_ADMIN" if "admin" in _WORDS else "TERM_OWNER"
                if element["stat"] == "USUSP":
                    element["stat"] = "RUN"
                    _send(element.get("child", 0), signal.SIGCONT)
                os.kill(element["pid"], signal.SIGTERM)
            else:
                _end(element, "TERM_ADMIN" if "admin" in _WORDS else "TERM_OWNER")
            _say(f"Job <{name}> is being terminated")
    if not found:
        _say("Job <0>: No matching job found", error=True)
        status = 255
    return status


def bstop(words: list[str]) -> int:
    with _cluster() as jobs:
        for number, index in _chosen(words, jobs):
            element = jobs[number]["elements"][index]
            if element["stat"] == "RUN":
                _send(element.get("child", 0), signal.SIGSTOP)
            element["stat"] = {"PEND": "PSUSP", "RUN": "USUSP"}.get(element["stat"], element["stat"])
            _say(f"Job <{number}> is being stopped")
    return 0


def bresume(words: list[str]) -> int:
    with _cluster() as jobs:
        for number, index in _chosen(words, jobs):
            element = jobs[number]["elements"][index]
            if element["stat"] == "USUSP":
                _send(element.get("child", 0), signal.SIGCONT)
            element["stat"] = {"PSUSP": "PEND", "USUSP": "RUN"}.get(element["stat"], element["stat"])
            _say(f"Job <{number}> is being resumed")
    return 0


def bhist(words: list[str]) -> int:
    if "-V" in words:
        _say("IBM Spectrum LSF 10.1.0.8, May 10 2019", error=True)
        return 0
    with _cluster() as jobs:
        found = [(number, index, jobs[number]) for number, index in _chosen([words[-1]], jobs)]
    for number, index, job in found:
        element = job["elements"][index]
        name = number if index == "0" else f"{number}[{index}]"
        _say(f"\nJob <{name}>, Job Name <{job['name']}>, User <{getpass.getuser()}>, Project <default>, Command <x>")
        if element["start"]:
            _say(f"{_stamp(element['start'])}: Starting (Pid {element.get('pid', 0)});")
        if element["stat"] == "DONE":
            _say(f"{_stamp(element['end'])}: Done successfully. The CPU time used is 0.1 seconds;")
        elif element["stat"] == "EXIT" and element["reason"]:
            _say(f"{_stamp(element['end'])}: Completed <exit>; {element['reason']}: {_REASONS[element['reason']]};")
        elif element["stat"] == "EXIT":
            _say(
                f"{_stamp(element['end'])}: Exited with exit code {element['code']}. The CPU time used is 0.1 seconds;"
            )
    if not found:
        _say("No matching job found", error=True)
    return 0 if found else 255


def _hosts(options: dict[str, str]) -> str:
    """The hosts of a job, each with its slots, as in LSB_MCPU_HOSTS (lsf_envars_job_exec)."""
    slots = int(options.get("-n", "1"))
    found = re.search(r"span\[ptile=(\d+)\]", options.get("-R", ""))
    each = int(found[1]) if found else slots
    return " ".join(f"{host} {each}" for host in HOSTS[: -(-slots // each)])


def blaunch(words: list[str]) -> int:
    """Start a command on a host of the job; its end is that of blaunch.

    IBM, Spectrum LSF 10.1.0 command reference, page blaunch: ``-n`` takes the standard input from /dev/null, and
    ``-no-shell`` starts the command without a shell. It works only in a job, and on hosts of its allocation.
    """
    flags = [word for word in words if word in {"-n", "-no-shell", "-use-login-shell"}]
    host, *command = words[len(flags) :]
    if host not in os.environ.get("LSB_MCPU_HOSTS", "").split()[::2]:
        _say(f"Host <{host}> is not one of the hosts that are allocated to the job", error=True)
        return 255
    if "-n" in flags:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    command = command if "-no-shell" in flags else ["/bin/sh", "-c", " ".join(command)]
    return subprocess.run(command, check=False, env={**os.environ, "HOSTNAME": host}).returncode % 256


def _stamp(at: float) -> str:
    return time.strftime("%a %b %e %H:%M:%S", time.localtime(at))


def run(number: str, index: str) -> None:
    """Run an element within its limits, and record its end."""
    orders: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: orders.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with _cluster() as jobs:
        job = jobs[number]
    options = job["options"]
    given = {"LSB_JOBID": number, "LSB_JOBINDEX": index, "LSB_MCPU_HOSTS": _hosts(options)}
    environment = {**job["environment"], **given}
    hour = next((float(word[5:]) for word in _WORDS if word.startswith("hour=")), 3600.0)
    limit_s = float(options["-W"]) * hour / 60 if "-W" in options else None
    most = int(options["-M"].rstrip("MB!")) << 20 if "-M" in options else None
    with Path(options.get("-o", "/dev/null")).open("a") as output:
        child = subprocess.Popen(
            ["/bin/sh", _root() / f"{number}.sh"],
            cwd=job["cwd"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    with _cluster() as jobs:
        jobs[number]["elements"][index]["child"] = child.pid
    began, reason, looked_at, warned = time.monotonic(), "", 0.0, "-wa" not in options
    killed_at: list[float] = []
    while child.poll() is None:
        time.sleep(LOOK_S)
        now = time.monotonic()
        ran = now - began
        if not warned and limit_s is not None and ran > limit_s - float(options["-wt"]) * hour / 60:
            warned = True
            _send(child.pid, getattr(signal, f"SIG{options['-wa']}"))
        if not reason and limit_s is not None and ran > limit_s:
            reason = "TERM_RUNLIMIT"
            _send(child.pid, signal.SIGKILL)
        if not reason and most is not None and now - looked_at > MEMORY_LOOK_S:
            looked_at = now
            if _memory(child.pid) > most:
                reason = "TERM_MEMLIMIT"
                _send(child.pid, signal.SIGKILL)
        if orders and len(killed_at) < len(KILLS) and now >= (killed_at[-1] + KILL_PAUSE_S if killed_at else 0):
            _send(child.pid, KILLS[len(killed_at)])
            killed_at.append(now)
    code = child.returncode if child.returncode >= 0 else 128 - child.returncode
    with _cluster() as jobs:
        element = jobs[number]["elements"][index]
        _end(element, element.get("killed", reason), code, options.get("-Q", ""))


def _processes(job: int) -> Iterator[Path]:
    """The folders in /proc of a job's processes: itself, and what it started, in whatever session."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
    for pid in parents:
        above = pid
        while above and above != job:
            above = parents.get(above, 0)
        if above:
            yield Path("/proc", str(pid))


def _memory(job: int) -> int:
    pages = 0
    for path in _processes(job):
        with suppress(OSError):
            pages += int((path / "statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def _send(job: int, number: int) -> None:
    """Send a signal to all processes of a job."""
    for path in list(_processes(job)):
        with suppress(OSError):
            os.kill(int(path.name), number)


def _fault(name: str) -> bool:
    """Whether this call goes wrong; it is one less then."""
    path = _root() / f"fault-{name}"
    with (_root() / "faults.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        left = int(path.read_text("utf-8")) if path.exists() else 0
        if left > 0:
            path.write_text(str(left - 1), "utf-8")
        return left % 2 == 1 if name == "half" else left > 0


def main(name: str, words: list[str]) -> int:
    """Be one of the programs."""
    with (_root() / "calls").open("a") as calls:
        calls.write(f"{shlex.join([name, *words])}\n")
    if "down" in _WORDS or _fault("half") or _fault("down"):
        _say("Cannot connect to LSF. Please wait ...", error=True)
        return 255
    known = {"bsub": bsub, "bjobs": bjobs, "bkill": bkill, "bstop": bstop, "bresume": bresume, "bhist": bhist}
    known["blaunch"] = blaunch
    if name in known:
        return known[name](words)
    texts = {
        "lsid": "IBM Spectrum LSF Standard 10.1.0.8, May 10 2019\n\nMy cluster name is main\nMy master name is hostA",
        "bparams": "CLEAN_PERIOD = 3600 (seconds)\nMAX_JOB_ARRAY_SIZE = 500",
        "lshosts": "HOST_NAME  type    model  cpuf ncpus maxmem maxswp server RESOURCES\n"
        f"hostA      X86_64  Xeon  116.1 {2 * SLOTS}     31.2G  4G     Yes   (mg)\n"
        "login      X86_64  Xeon  116.1 64    255G   4G     No    ()",
        "bhosts": "HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV\n"
        f"hostA              ok              -       {SLOTS}      0      0      0      0      0",
        "badmin": "LSF_UNIT_FOR_LIMITS = MB",
        "bqueues": "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP\n"
        + "\n".join(f"{queue:15} 30  {state:15} -  -  -  -  0  0  0  0" for queue, state in QUEUES.items()),
        "bacct": "" if "-V" in words else "No matching job found",
    }
    _say(texts[name])
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:4])
    else:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
