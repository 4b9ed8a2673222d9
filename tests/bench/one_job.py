"""Times commands about one job of 100,172: `logs`, `explain`, `show-job` and completion of its name.

Usage: python -m tests.bench.one_job [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.processes import installed_environment

from longshore import __version__
from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Event, Failed, Life, Retry, Started, Submitted, Submitting
from longshore.model.json_lines import encode_line
from longshore.model.states import Cause
from longshore.model.submission import RunIdentity, Submission
from longshore.model.tasks import Dag
from longshore.model.workflow import MIB, Job, JobSettings, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.run_directory import RUN_FORMAT, write_card
from longshore.system.atomic import create_file

VISITS, STACKS = 50_000, 171
DONE = 0.94
NOON = 1_763_640_000.0


def write_big_run(root: Path) -> RunPaths:
    """Write the files of a run of 100,172 jobs, 94 % done, with a few failures."""
    run = RunPaths(root)
    root.mkdir(parents=True)
    settings = {
        label: JobSettings(label=label, request=Request(memory_b=512 * MIB), environment={"LEVEL": "3"})
        for label in ("calibrate", "measure", "stack", "publish")
    }
    names = [f"{label}_{visit:06}_{visit % 100}" for label in ("calibrate", "measure") for visit in range(VISITS)]
    names += [f"stack_{number}" for number in range(STACKS)] + ["publish_all"]
    jobs = [
        Job(
            name=name,
            label=name.partition("_")[0],
            command=("replay", "--visit", name, "in/raw.fits", f"out/{name}.fits"),
            settings=settings[name.partition("_")[0]],
            tags={"visit": number % VISITS, "detector": number % 100},
        )
        for number, name in enumerate(names)
    ]
    edges = [(names[visit], names[VISITS + visit]) for visit in range(VISITS)]
    edges += [(names[VISITS + visit], f"stack_{visit % STACKS}") for visit in range(VISITS)]
    edges += [(f"stack_{number}", "publish_all") for number in range(STACKS)]
    workflow = Workflow("big", Dag.by_name(jobs, edges))
    create_file(run.workflow, workflow_lines(workflow))
    labels = {"calibrate": VISITS, "measure": VISITS, "stack": STACKS, "publish": 1}
    write_card(
        run,
        RunIdentity(
            format=RUN_FORMAT,
            id="zzzzzz",
            name="big",
            service="local",
            longshore=__version__,
            created_at=NOON,
            expected=len(jobs),
            labels=labels,
            submissions=(Submission(id="zzzzzz", by="submit", at=NOON, user="me", host="here"),),
        ),
    )
    run.journal.mkdir()
    lines = map(encode_line, _events(int(len(jobs) * DONE), settings["calibrate"].request))
    create_file(run.journal / "0001.jsonl", lines)
    return run


def _events(over: int, request: Request) -> Iterator[Event]:
    yield Life(v=1, life=1, t=NOON, host="here", pid=1, boot="b", by="submit")
    number = 0
    for job in range(over):
        bad = job and not job % 9_973
        for attempt in (1, 2) if bad else (1,):
            at = NOON + job / 10
            batch = f"zzzzzz-1-{job}-{attempt}"
            end = Ended(
                j=job,
                a=attempt,
                exit=3 if bad else 0,
                cause=Cause.EXIT if bad else None,
                host="here",
                start=at,
                end=at + 5,
                run_s=5.0,
                cpu_s=4.5,
                rss_b=400 * MIB,
            )
            judged = Retry(j=job, a=2, cause=Cause.EXIT) if attempt == 1 else Failed(j=job, why="no attempt left")
            for event in (
                Submitting(b=batch, tag=batch, jobs=((job, attempt),), request=request),
                Submitted(b=batch, id=batch),
                Started(j=job, a=attempt, host="here", at=at),
                end,
                *((judged,) if bad else ()),
            ):
                number += 1
                yield type(event)(
                    **{**{name: getattr(event, name) for name in event.__struct_fields__}, "n": number, "t": at}
                )


def time_command(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return wall and processor seconds of a command; its exit status is ignored."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def main() -> None:
    """Alternate the commands and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="Write the run there, and stop.")
    options = parser.parse_args()
    if options.keep:
        write_big_run(options.keep)
        return
    longshore = [sys.executable, "-m", "longshore"]
    with tempfile.TemporaryDirectory() as name:
        run = write_big_run(Path(name) / "run")
        installed = installed_environment(Path(name))
        log = run.root / run.log_of(9_973, "calibrate_009973_73", "calibrate", 2)
        log.parent.mkdir(parents=True)
        log.write_text("oops\n", "utf-8")
        words = f"longshore show-job {run.root} measure_0499"
        completion = {"_LONGSHORE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
        looks: dict[str, tuple[list[str], dict[str, str]]] = {
            "logs of a job": (["logs", str(run.root), "calibrate_009973_73"], {}),
            "logs --failed --paths": (["logs", str(run.root), "--failed", "--paths"], {}),
            "explain a failed job": (["explain", str(run.root), "calibrate_009973_73"], {}),
            "explain a pruned job": (["explain", str(run.root), "publish_all"], {}),
            "explain a waiting job": (["explain", str(run.root), "stack_0"], {}),
            "show-job --script": (["show-job", str(run.root), "measure_000007_7", "--script"], {}),
            "completion of a job's name": ([], completion),
            "events": (["events", str(run.root)], {}),
        }
        taken: dict[str, list[tuple[float, float]]] = {what: [] for what in looks}
        for number in range(options.rounds + 1):
            for what, (arguments, environment) in looks.items():
                spent = time_command([*longshore, *arguments], {**installed, **environment})
                if number:  # the first compiles what it imports
                    taken[what].append(spent)
    print(f"median of {options.rounds} rounds:")
    for what, values in taken.items():
        wall, processor = (statistics.median(column) * 1000 for column in zip(*values, strict=True))
        print(f"  {what:30} {wall:6.0f} ms, {processor:6.0f} ms of processor")


if __name__ == "__main__":
    main()
