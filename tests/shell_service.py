"""A service that knows only how its jobs stand: one shell script runs them in order, and writes down their states."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from shlex import quote
from typing import ClassVar

from longshore.contract.capabilities import LogDirectories
from longshore.contract.service import (
    Context,
    JobStatus,
    PingReport,
    Problem,
    RenderedFile,
    ReportSource,
    RunPaths,
    StatusReport,
    Unreachable,
    WmsService,
    log_path,
)
from longshore.errors import SubmissionRefusedError
from longshore.jobs.commands import shell_line
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.model.workflow import Job, Workflow

SCRIPT = PurePosixPath("wms", "run.sh")
STATES = PurePosixPath("wms", "states")

_HEAD = """#!/bin/sh
worst=SUCCEEDED
run_job() {
    name=$1 log=$2 command=$3 begin=$(date +%s)
    echo "$name RUNNING $begin" >> wms/states
    if (eval "$command") > "$log" 2>&1 < /dev/null; then state=SUCCEEDED; else code=$? state=FAILED worst=FAILED; fi
    echo "$name $state $begin $(date +%s) ${code:-0}" >> wms/states
    [ $state = SUCCEEDED ]
}
"""


class ShellService(WmsService, ReportSource, LogDirectories):
    """Runs the jobs of a run one after another, in a shell."""

    name: ClassVar[str] = "shell"
    silent = False

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        wide = (job for job in workflow if job.settings.request.cpus > 1)
        return [Problem(message=f"job '{job.name}' asks for more than one processor", job=job.name) for job in wide]

    def log_directories(self, workflow: Workflow) -> Iterable[str]:
        logs = (_log(index, job) for index, job in enumerate(workflow))
        return sorted({str(PurePosixPath(log).parent) for log in logs})

    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        def chunks() -> Iterator[str]:
            yield _HEAD
            number = {job.name: index for index, job in enumerate(workflow)}
            for index, job in enumerate(workflow):
                ready = " && ".join(f"[ $ok{number[parent]} = 1 ]" for parent in workflow.parents(job.name)) or ":"
                words = " ".join(map(quote, (job.name, _log(index, job), shell_line(job.command))))
                yield f"ok{index}=0; if {ready}; then run_job {words} && ok{index}=1; fi\n"
            yield 'echo "* $worst" >> wms/states\n'

        yield RenderedFile(path=SCRIPT, mode=0o755, chunks=chunks)

    def submit(self, run: RunPaths) -> Submission:
        if not (run.root / SCRIPT).is_file():
            raise SubmissionRefusedError(f"'{run.root / SCRIPT}' is missing")
        process = subprocess.Popen(
            ["/bin/sh", str(SCRIPT)],
            cwd=run.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process.returncode = 0  # it goes on without us
        return Submission(id=f"p{process.pid}", by="submit", at=time.time(), user="ada", host="here")

    def report(self, run: RunPaths) -> StatusReport | Unreachable:
        if self.silent:
            return Unreachable(why="it has its reasons")
        path = run.root / STATES
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        jobs: dict[str, JobStatus] = {}
        state = JobState.RUNNING
        for name, word, *numbers in map(str.split, lines):
            if name == "*":
                state = JobState(word)
            else:
                begin, end, code = (*map(float, numbers), None, None)[:3]
                jobs[name] = JobStatus(
                    name=name,
                    state=JobState(word),
                    exit=None if code is None else int(code),
                    start=begin,
                    end=end,
                )
        return StatusReport(state=state, jobs=tuple(jobs.values()))

    def ping(self, ctx: Context) -> PingReport:
        return PingReport(service=self.name, ok=True, message="the shell is there")


def _log(index: int, job: Job) -> str:
    return log_path(index, job.name, job.label, 1)
