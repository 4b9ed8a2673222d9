"""All who judge a run before it is submitted, and profiles with faults that they are to judge alike."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from tests.progress_notes import ProgressNotes

from longshore.config.layers import read_layers
from longshore.errors import LongshoreError, ServiceError
from longshore.model.submission import SubmissionChecks
from longshore.plan.lint_file import lint_file
from longshore.plan.ping import ping
from longshore.plan.problems import exit_status
from longshore.plan.site_check import check_site
from longshore.plan.stages import plan_new_run

CONFIGURATION, SERVICE, REQUEST = 3, 4, 7


class Fault(NamedTuple):
    """Something in a profile of a Slurm cluster, and the exit status of those who judge it."""

    profile: Mapping[str, Any]
    status: int


FAULTS: Final = {
    "nothing": Fault({}, 0),
    "account in capitals": Fault({"account": "TEST"}, 0),
    "QOS in capitals": Fault({"qos": "HIGH"}, 0),
    "partition that is there": Fault({"slurm": {"partition": "main"}}, 0),
    "option that is there": Fault({"directives": ["--comment=x"]}, 0),
    "partition": Fault({"slurm": {"partition": "gone"}}, REQUEST),
    "queue": Fault({"queue": "gone"}, REQUEST),
    "row": Fault({"partitions": [{"name": "gone"}]}, REQUEST),
    "account": Fault({"account": "nobody"}, REQUEST),
    "QOS": Fault({"qos": "nope"}, REQUEST),
    "feature": Fault({"slurm": {"features": "a100"}}, REQUEST),
    "generic resource": Fault({"slurm": {"gres": "tape:1"}}, REQUEST),
    "resource": Fault({"requestResources": {"tape": 1}}, REQUEST),
    "node": Fault({"slurm": {"nodes": "n9"}}, REQUEST),
    "excluded node": Fault({"slurm": {"excludes": "n9"}}, REQUEST),
    "resource for disks": Fault({"slurm": {"diskGres": "tmpspace"}}, REQUEST),
    "reservation": Fault({"slurm": {"reservation": "nores"}}, REQUEST),
    "licence": Fault({"slurm": {"licence": "nolic"}}, REQUEST),
    "option": Fault({"directives": ["--nosuchoption"]}, REQUEST),
    "value of an option": Fault({"slurm": {"sbatch": ["--time=nonsense"]}}, REQUEST),
    "feature in an option": Fault({"directives": ["-C a100"]}, REQUEST),
    "memory": Fault({"requestMemory": "900 TiB"}, REQUEST),
    "processors": Fault({"requestCpus": 5000}, REQUEST),
    "run time": Fault({"slurm": {"partition": "short"}, "requestWalltime": "1d"}, REQUEST),
    "more than the site allows": Fault({"limits": {"cpus": 2}, "slurm": {"cpu": 3}}, REQUEST),
    "configuration": Fault({"slurm": {"config": "/nowhere/slurm.conf"}}, SERVICE),
    "key": Fault({"slurm": {"partitoin": "main"}}, CONFIGURATION),
    "value": Fault({"umask": "9z"}, CONFIGURATION),
}
"""What profiles say, by what is wrong with it."""


def join(*faults: Fault) -> Fault | None:
    """Return a profile with several faults; ``None`` if they cannot be in one."""
    profile: dict[str, Any] = {}
    for fault in faults:
        for key, value in fault.profile.items():
            below = profile.get(key)
            if below is None:
                profile[key] = value
            elif isinstance(below, dict) and isinstance(value, dict) and below.keys().isdisjoint(value):
                profile[key] = below | value
            else:
                return None
    statuses = {fault.status for fault in faults} - {0}
    return Fault(profile, min(statuses, default=0))


def judge_all(folder: Path, profile: Mapping[str, Any]) -> dict[str, int]:
    """Return the exit status of each judge of a run at a site of a cluster that the environment chooses."""
    sites = folder / "sites"
    sites.mkdir(exist_ok=True)
    (sites / "here.yaml").write_text(yaml.safe_dump({"service": "slurm", **profile}), "utf-8")
    path = folder / "run.yaml"
    path.write_text(
        f"computeSite: here\nsitePath: {sites}\nsubmitPath: {folder}/submit\n"
        "pipeline: {tasks: {a: {command: 'true'}}}\n",
        "utf-8",
    )
    judges: dict[str, Callable[[], int]] = {
        "ping": lambda: _ping(path),
        "site check": lambda: check_site("here", [str(sites)], now=time.time()).exit_status,
        "config lint --probe": lambda: lint_file(path, with_probe=True).exit_status(),
        "submit": lambda: _plan(path),
    }
    return {name: _status(judge) for name, judge in judges.items()}


def _status(judge: Callable[[], int]) -> int:
    try:
        return judge()
    except LongshoreError as error:
        return error.exit_status


def _ping(path: Path) -> int:
    report = ping(None, path=path, now=time.time())
    return 0 if report.ok else exit_status(report.problems) or ServiceError.exit_status


def _plan(path: Path) -> int:
    """Do all of a submission but the submission itself."""
    now = time.time()
    layers = read_layers(path, None, now=now)
    plan_new_run(layers, run_id="abc", now=now, checks=SubmissionChecks(), progress=ProgressNotes())
    return 0


_TRIAL: Final = r"""
script=$(cat)
case "$script" in
*--nosuchoption*) echo "sbatch: unrecognized option '--nosuchoption'" >&2; exit 1;;
*--time=nonsense*) echo "sbatch: error: Invalid --time specification" >&2; exit 1;;
esac
echo "sbatch: Job 1 to start at 2026-11-20T09:00:00 using 1 processors on nodes n1 in partition main" >&2
"""


def write_programs(folder: Path, answers: Mapping[str, str | None]) -> str:
    """Write programs of Slurm that answer as given, by the words with which they begin; return the PATH of all."""
    folder.mkdir()
    by_program: dict[str, list[str]] = {"sbatch": [f"*--test-only*) {_TRIAL};;"]}
    for number, (words, answer) in enumerate(answers.items()):
        program, _, rest = words.partition(" ")
        (folder / f"answer-{number}").write_text(answer or "", "utf-8")
        by_program.setdefault(program, []).append(f"{shlex.quote(rest)}*) cat {folder}/answer-{number};;")
    for program, cases in by_program.items():
        path = folder / program
        path.write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(cases) + "\n*) exit 1;;\nesac\n", "utf-8")
        path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
