#!/usr/bin/env python3
"""Stand-in for OAR's programs on one machine: jobs are rows of a table, and ``--sql`` is a condition on it.

Replies have the form of OAR 2.5.9. The folder of the table is ``STAND_IN_OF_OAR``. Each job has a process that waits
for free cores, runs the command, and writes its end into the table.
"""

# ruff: noqa: S608 - conditions come from the command line, as in OAR

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

CORES = 8
PROGRAM = Path(__file__).resolve()
FOLDER = Path(os.environ.get("STAND_IN_OF_OAR", "."))
COLUMNS = {
    "job_id": "INTEGER PRIMARY KEY", "array_id": "INTEGER", "array_index": "INTEGER", "job_name": "TEXT",
    "job_user": "TEXT", "state": "TEXT", "command": "TEXT", "message": "TEXT", "submission_time": "INTEGER",
    "start_time": "INTEGER", "stop_time": "INTEGER", "exit_code": "INTEGER", "cores": "INTEGER", "seconds": "INTEGER",
    "pid": "INTEGER", "events": "TEXT",
}  # fmt: skip


def table() -> sqlite3.Connection:
    """Open the table of jobs."""
    base = sqlite3.connect(FOLDER / "jobs.sqlite", timeout=60, isolation_level=None)
    base.row_factory = sqlite3.Row
    base.execute(f"CREATE TABLE IF NOT EXISTS jobs ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
    return base


def oarsub(words: list[str]) -> None:
    """Add jobs to the table, and start the process of each."""
    parser = argparse.ArgumentParser(prog="oarsub")
    for option in ("-n", "-d", "-O", "-E", "-l", "-p", "-q", "--project"):
        parser.add_argument(option)
    parser.add_argument("-t", action="append")
    parser.add_argument("--array", type=int, default=1)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("command")
    asked = parser.parse_args(words)
    resources, _, limit = asked.l.partition(",walltime=")
    hours, minutes, seconds = map(int, (limit or "2:00:00").split(":"))
    cores = int(resources.rpartition("=")[2])
    print("[ADMISSION RULE] Modify resource description with type constraints")
    if asked.q not in (None, "default"):
        sys.exit(f"ERROR : The queue {asked.q} does not exist")
    if cores > CORES:
        print("OAR_JOB_ID=-5")
        print("There are not enough resources for your request", file=sys.stderr)
        sys.exit(8)
    base = table()
    base.execute("BEGIN IMMEDIATE")
    first = base.execute("SELECT coalesce(max(job_id), 0) + 1 FROM jobs").fetchone()[0]
    numbers = range(first, first + asked.array)
    for index, number in enumerate(numbers, 1):
        row = {
            "job_id": number, "array_id": first, "array_index": index, "job_name": asked.n, "job_user": user(),
            "state": "Hold" if asked.hold else "Waiting", "command": asked.command, "message": f"R={cores},W={limit}",
            "submission_time": int(time.time()), "start_time": 0, "stop_time": 0, "exit_code": None, "cores": cores,
            "seconds": hours * 3600 + minutes * 60 + seconds, "pid": None, "events": "",
        }  # fmt: skip
        base.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
    base.execute("COMMIT")
    for number in numbers:
        subprocess.Popen(
            [sys.executable, str(PROGRAM), "run", str(number)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        print(f"OAR_JOB_ID={number}")
    if asked.array > 1:
        print(f"OAR_ARRAY_ID={first}")


def oarstat(words: list[str]) -> None:
    """List the jobs of a condition."""
    if words == ["-V"]:
        print("OAR version : 2.5.9 (stand-in)")
        return
    rows = table().execute(f"SELECT * FROM jobs WHERE {words[-1]}").fetchall()
    if rows:
        print(json.dumps({str(row["job_id"]): shown(row, is_full="-f" in words) for row in rows}, indent=3))


def shown(row: sqlite3.Row, *, is_full: bool) -> dict[str, Any]:
    """Return a job as oarstat prints it."""
    more = {
        "exit_code": row["exit_code"], "stopTime": row["stop_time"],
        "events": [{"type": each} for each in row["events"].split()],
    }  # fmt: skip
    return {
        "Job_Id": row["job_id"], "array_id": row["array_id"], "array_index": row["array_index"],
        "name": row["job_name"], "owner": row["job_user"], "state": row["state"], "command": row["command"],
        "message": row["message"], "startTime": row["start_time"], "submissionTime": row["submission_time"],
        "assigned_network_address": ["127.0.0.1"] if row["start_time"] else [],
        **(more if is_full else {}),
    }  # fmt: skip


def oarnodes(_: list[str]) -> None:
    """List the cores."""
    resource = {"state": "Alive", "type": "default", "network_address": "127.0.0.1"}
    print(json.dumps({str(number): resource for number in range(1, CORES + 1)}))


def oardel(words: list[str]) -> None:
    """Send a signal to jobs, or delete them."""
    parser = argparse.ArgumentParser(prog="oardel")
    parser.add_argument("-s", dest="signal")
    parser.add_argument("--sql")
    asked = parser.parse_args(words)
    base, status = table(), 0
    for row in base.execute(f"SELECT * FROM jobs WHERE {asked.sql}").fetchall():
        if asked.signal:
            if row["pid"]:
                send(row["pid"], getattr(signal, f"SIG{asked.signal}"))
            continue
        if "FRAG" in row["events"]:
            status = 6
            continue
        event = "UPDATE jobs SET events = events || ' FRAG_JOB_REQUEST' WHERE job_id = ?"
        base.execute(event, (row["job_id"],))
        waiting = "state IN ('Waiting', 'Hold')"
        ended = f"UPDATE jobs SET state = 'Error', message = 'Job killed' WHERE job_id = ? AND {waiting}"
        if not base.execute(ended, (row["job_id"],)).rowcount and row["pid"]:
            kill_tree(row["pid"])
    sys.exit(status)


def run(words: list[str]) -> None:
    """Wait for free cores, and run a job."""
    number, base = int(words[0]), table()
    claim = f"""UPDATE jobs SET state = 'Running', start_time = ? WHERE job_id = ? AND state = 'Waiting' AND cores +
        (SELECT coalesce(sum(cores), 0) FROM jobs WHERE state = 'Running') <= {CORES}"""
    while not base.execute(claim, (int(time.time()), number)).rowcount:
        if base.execute("SELECT state FROM jobs WHERE job_id = ?", words).fetchone()[0] == "Error":
            return
        time.sleep(0.1)
    row = base.execute("SELECT * FROM jobs WHERE job_id = ?", words).fetchone()
    own = {"OAR_JOB_ID": words[0], "OAR_ARRAY_ID": str(row["array_id"]), "OAR_ARRAY_INDEX": str(row["array_index"])}
    job = subprocess.Popen(["/bin/bash", "-c", row["command"]], cwd="/", env={**os.environ, **own})
    base.execute("UPDATE jobs SET pid = ? WHERE job_id = ?", (job.pid, number))
    if "FRAG" in base.execute("SELECT events FROM jobs WHERE job_id = ?", words).fetchone()[0]:
        # It was deleted before its process was in the table.
        kill_tree(job.pid)
    try:
        status = job.wait(timeout=row["seconds"])
    except subprocess.TimeoutExpired:
        base.execute("UPDATE jobs SET events = events || ' FRAG_JOB_REQUEST WALLTIME' WHERE job_id = ?", words)
        kill_tree(job.pid)
        status = job.wait()
    end = base.execute("SELECT events FROM jobs WHERE job_id = ?", words).fetchone()[0]
    is_killed = "FRAG" in end and status == -signal.SIGKILL
    code = None if is_killed else status << 8 if status >= 0 else -status
    base.execute(
        "UPDATE jobs SET state = ?, exit_code = ?, stop_time = ? WHERE job_id = ?",
        ("Error" if is_killed else "Terminated", code, int(time.time()), number),
    )


def kill_tree(pid: int) -> None:
    """Kill a process and all below it at once, as OAR does."""
    pids = [pid]
    for each in pids:
        listed = subprocess.run(["pgrep", "-P", str(each)], capture_output=True, text=True, check=False).stdout
        pids += map(int, listed.split())
    for each in pids:
        send(each, signal.SIGKILL)


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def user() -> str:
    """Return the user of the jobs."""
    return os.environ.get("LOGNAME") or os.environ.get("USER") or "nobody"


if __name__ == "__main__":
    name = Path(sys.argv[0]).name
    words = sys.argv[1:]
    if name == PROGRAM.name:
        name, *words = words
    {"oarsub": oarsub, "oarstat": oarstat, "oarnodes": oarnodes, "oardel": oardel, "run": run}[name](words)
