"""What a rendered DAG asks for is what jobs get: words, variables, names, memory, time, all by a real pool.

The DAG is handed over by hand, as whoever has lost Longshore would do it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.live.condor_pools import CondorPool

from longshore.contract.service import Context, RunPaths, Site
from longshore.model.tasks import Dag, File
from longshore.model.workflow import (
    MIB,
    Backoff,
    Implementation,
    Job,
    JobGroup,
    JobRules,
    JobSettings,
    Ordering,
    Request,
    Workflow,
)
from longshore.rundir.run_directory import write_rendered
from longshore.services.htcondor.render.dag import folders, render

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("condor_pool")]
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], {k: v for k, v in os.environ.items() if k[0] in 'LVT'}]))"
EAT = "import sys, time; b = b'x' * (int(sys.argv[1]) << 20); time.sleep(float(sys.argv[2]))"
_PATIENCE_S = 150.0


class Handed:
    """A DAG in the queue.

    Parameters
    ----------
    pool
        The pool.
    root
        The run directory to make.
    workflow
        What is run.
    """

    def __init__(self, pool: CondorPool, root: Path, workflow: Workflow, **settings: Any) -> None:
        self.pool = pool
        self.root = root
        self.workflow = workflow
        site = Site(name="pool", settings=settings.pop("site", {}))
        ctx = Context(settings=settings, site=site, paths=RunPaths(root), templates={}, run_token="kaa01-test")
        root.mkdir()
        write_rendered(RunPaths(root), render(workflow, ctx))
        for folder in folders(workflow):
            (root / folder).mkdir(parents=True)

    def submit(self, environment: Mapping[str, str] | None = None) -> Handed:
        """Hand it over as a person does."""
        ran = subprocess.run(
            ["condor_submit_dag", "run.dag"],
            cwd=self.root / "wms",
            env={**self.pool.env, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        self.cluster = ran.stdout.partition("submitted to cluster ")[2].partition(".")[0]
        return self

    def wait(self) -> int:
        """Wait until DAGMan is over; returns its exit code."""
        metrics = self.root / "wms" / "run.dag.metrics"
        until = time.monotonic() + _PATIENCE_S
        try:
            while not metrics.exists() or not metrics.stat().st_size:
                assert time.monotonic() < until, self.pool.run(
                    "condor_q", "-nobatch", "-af:j", "JobStatus", "HoldReason"
                )
                time.sleep(0.2)
            code: int = json.loads(metrics.read_text())["exitcode"]
            return code
        finally:
            self.pool.run("condor_rm", self.cluster, check=False)

    def logs(self, name: str) -> list[str]:
        """The logs of a job's attempts, in their order."""
        index = next(number for number, job in enumerate(self.workflow) if job.name == name)
        found = sorted((self.root / "logs").glob(f"*/*/{name}.*.log")) or sorted(
            (self.root / "logs").glob(f"*/*/*-{index}.*.log")
        )
        return [path.read_text() for path in found]

    def ads(self, *attributes: str) -> dict[int, list[str]]:
        """Attributes of the jobs that left the queue, by their numbers in the workflow."""
        text = self.pool.run(
            "condor_history", "-constraint", f"DAGManJobId == {self.cluster}", "-af:t", "LongshoreJob", *attributes
        )
        rows = [line.split("\t") for line in text.splitlines()]
        return {int(row[0]): row[1:] for row in rows}


def shown(words: Iterable[str], name: str = "show", environment: Mapping[str, str] | None = None, **more: Any) -> Job:
    """A job that says what it was given."""
    settings = JobSettings(label="show", request=Request(memory_b=64 * MIB), **more)
    return Job(
        name=name,
        label="show",
        command=(sys.executable, "-c", SHOW, *words),
        settings=settings,
        environment=environment or {},
    )


PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
ODD = [
    *("", " ", "  two  ", "'", "''", '"', '""', "\\", "\\\\", "a\\", "\\n", "$", "$$", "$$$", "$(HOME)", "$(a)"),
    *("$$(Name)", "$$([1+1])", "$ENV(HOME)", "$$$(x)", "$RANDOM_CHOICE(1,2)", "$INT(x)", "$(", "$)", "#", "# c"),
    *("a'b\"c\\d$(e)", "@=x", "{", "}", "<ENV>", "é ü 漢", "tab\tin", "line\nfeed", "cr\rin", "\x01\x7f", "=", "a=b"),
    *("-", "--x=y z", "%d %%", "!x", "*", "?", "~", "`id`", ";", "|", "&&", "queue 3", "$(Cluster).$(Process)"),
    *("'$(x)'", '"$(x)"', "$''(x)", "it's $(it)"),
]


def test_arguments_and_variables_arrive_unchanged(condor_pool: CondorPool, tmp_path: Path) -> None:
    fitting = [word for word in ODD if not set(word) & {"\n", "\r", "\x01"} and "$$(" not in word]
    everything = ["".join(PRINTABLE), *PRINTABLE, *ODD]
    variables = {f"V{number}": word for number, word in enumerate(ODD) if "\r" not in word}
    jobs = [
        shown(fitting, "fitting"),
        shown(everything, "packed"),
        shown(["1", "same end"], "short"),
        shown(["22", "same end"], "short_2"),
        shown(["$", "same end"], "short_3"),
        shown([], "none"),
        shown(["x"], "variables", variables),
        shown(["x"], "shared", working_directory=str(tmp_path), environment=variables),
        shown(["x"], "odd $(name) 'of' \"job\" \\ é"),
        Job(
            name="line",
            label="line",
            command='printf "%s\\n" "$LONGSHORE_JOB_NAME" "$(echo in)" $((1 + 1))\n# a comment\necho "<$VISIT>"',
            settings=JobSettings(label="line", environment={"VISIT": "<ENV:TOLD>!"}, setup=("TOLD=no; export TOLD",)),
        ),
    ]
    around = {"preCmdline": "WHAT=told", "postCmdline": 'echo "$WHAT $_status"', "category": "few of them"}
    jobs.append(
        Job(name="around", label="around", command="exit 0", settings=JobSettings(label="around", attributes=around))
    )
    groups = tuple(JobGroup(key=(name,), jobs=(name,)) for name in ("short", "short_2"))
    ordering = Ordering(name="one_by_one", dimensions=("x",), implementation=Implementation.NOOP, groups=groups)
    workflow = Workflow("words", Dag.by_name(jobs), orderings=[ordering])
    handed = Handed(condor_pool, tmp_path / "run", workflow, site={"htcondor": {"maxJobs": {"few of them": 1}}})
    assert handed.submit({"TOLD": "yes", "LPLAIN": "kept", "L_TOKEN": "hidden"}).wait() == 0
    told = {job.name: json.loads(handed.logs(job.name)[0]) for job in jobs if job.label == "show"}
    for name, words in (("fitting", fitting), ("packed", everything), ("short_3", ["$", "same end"]), ("none", [])):
        assert told[name][0] == words
    assert told["short"][0] == ["1", "same end"]
    assert told["short_2"][0] == ["22", "same end"]
    for name in ("variables", "shared"):
        assert {key: told[name][1].get(key) for key in variables} == variables
    assert told["short"][1]["LPLAIN"] == "kept"
    assert "L_TOKEN" not in told["short"][1]
    assert told[jobs[8].name][1]["LONGSHORE_JOB_NAME"] == jobs[8].name
    mine = {key: value for key, value in told["short"][1].items() if key.startswith("LONGSHORE_JOB_")}
    assert mine == {
        "LONGSHORE_JOB_NAME": "short",
        "LONGSHORE_JOB_LABEL": "show",
        "LONGSHORE_JOB_ATTEMPT": "1",
        "LONGSHORE_JOB_RUN_DIR": str(handed.root),
        "LONGSHORE_JOB_CPUS": "1",
        "LONGSHORE_JOB_MEMORY_MB": "64",
    }
    assert handed.logs("line")[0] == "line\nin\n2\n<yes!>\n"
    assert handed.logs("around")[0] == "told 0\n"
    numbers = {job.name: number for number, job in enumerate(workflow)}
    ads = handed.ads("LongshoreName", "JobStartDate", "bps_job_quanta")
    assert ads[numbers["short"]][0] == "short"
    assert int(ads[numbers["short"]][1]) < int(ads[numbers["short_2"]][1])
    assert ads[numbers["short"]][2] == "show:1"


def _settings(label: str, **more: Any) -> JobSettings:
    rules = JobRules(backoff=Backoff(first_s=1.0, most_s=2.0))
    attributes = {"memoryMultiplier": 2.0, "requestMemoryMax": 500 * MIB} | more.pop("attributes", {})
    base: dict[str, Any] = {"request": Request(memory_b=100 * MIB), "number_of_retries": 4, "rules": rules}
    return JobSettings(label=label, attributes=attributes, **(base | more))


def test_attempts_follow_the_rules(condor_pool: CondorPool, tmp_path: Path) -> None:
    def job(name: str, command: Any, **more: Any) -> Job:
        return Job(name=name, label=name, command=command, settings=_settings(name, **more))

    hungry = (sys.executable, "-c", EAT, "300", "5")
    jobs = [
        job("grows", hungry),
        job("never", hungry, attributes={"requestMemoryMax": 200 * MIB}),
        job(
            "killed",
            'echo "$LONGSHORE_JOB_ATTEMPT $LONGSHORE_JOB_MEMORY_MB"; [ $LONGSHORE_JOB_ATTEMPT = 3 ] || kill -9 $$',
        ),
        job("fails", "echo x; exit 7", number_of_retries=2),
        job("final", "exit 1", retry_unless_exit=(1, 2)),
        job("slow", "sleep 60", request=Request(walltime_s=3.0)),
        job("missing", ("/no/such/program",), number_of_retries=1),
        job("mended", f"ls {tmp_path}/flag || {{ touch {tmp_path}/flag; exit 9; }}"),
    ]
    after = Job(name="after", label="after", command="true", settings=JobSettings(label="after"))
    final = Job(name="finalJob", label="finalJob", command="echo last", settings=JobSettings(label="finalJob"))
    edges = [("fails", "after")]
    handed = Handed(condor_pool, tmp_path / "run", Workflow("rules", Dag.by_name([*jobs, after], edges), final=final))
    # The final job succeeds, and does not hide that others did not.
    assert handed.submit().wait() == 1
    index = {job.name: number for number, job in enumerate(handed.workflow)}
    found = handed.ads("NumJobStarts", "MemoryProvisioned", "JobStatus", "ExitCode", "NumHolds")
    ads = {name: found.get(number) for name, number in index.items()}
    assert ads["after"] is None
    assert ads["grows"] is not None
    assert ads["grows"][2:4] == ["4", "0"]
    assert int(ads["grows"][1]) >= 300
    assert ads["never"] is not None
    assert ads["never"][:3] == ["2", "200", "3"]
    assert handed.logs("killed") == ["1 100\n", "2 200\n", "3 400\n"]
    assert handed.logs("fails") == ["x\n"] * 3
    assert ads["final"] is not None
    assert ads["final"][0] == "1"
    assert ads["slow"] is not None
    assert ads["slow"][:1] + ads["slow"][2:3] == ["1", "3"]
    # Held twice, which is as many attempts as it had, and then given up.
    assert ads["missing"] is not None
    assert ads["missing"][2:] == ["3", "undefined", "2"]
    assert ads["mended"] is not None
    assert ads["mended"][0] == "2"
    assert handed.logs("finalJob") == ["last\n"]
    assert os.access(handed.root / "wms" / "final-status", os.X_OK)


def test_files_are_transferred_and_machines_provisioned(condor_pool: CondorPool, tmp_path: Path) -> None:
    root = tmp_path / "run"
    files = {
        "table": File(name="table", path="table.txt"),
        **{f"out{number}": File(name=f"out{number}", path=f"out{number}.txt") for number in (1, 2)},
    }
    jobs = [
        Job(
            name=f"copy_{number}",
            label="copy",
            command=f"pwd; sleep 1; cat <FILE:table> - </dev/null >out{number}.txt; echo {number} >><FILE:out{number}>",
            settings=JobSettings(label="copy"),
            inputs=("table",),
            outputs=(f"out{number}",),
        )
        for number in (1, 2)
    ]
    final = Job(
        name="finalJob",
        label="finalJob",
        command=("<ENV:LONGSHORE_JOB_RUN_DIR>/last.sh", "a b"),
        settings=JobSettings(label="finalJob"),
    )
    started = {
        "provisioningScript": "#!/bin/bash\ncat settings/x\nsleep 100\n",
        "provisioningMaxWallTime": "1:00",
        "provisioningScriptConfig": "one=1\n",
        "provisioningScriptConfigPath": "settings/x",
    }
    handed = Handed(
        condor_pool,
        root,
        Workflow("carried", Dag.by_name(jobs), final=final, files=files),
        site={"fileSystem": "transfer"},
        run={"provisionResources": True, "provisioning": started},
    )
    (root / "table.txt").write_text("from here\n")
    (root / "last.sh").write_text('#!/bin/sh\necho last "$1" in $LONGSHORE_JOB_RUN_DIR\n')
    (root / "last.sh").chmod(0o755)
    assert handed.submit().wait() == 0
    for number in (1, 2):
        assert (root / f"out{number}.txt").read_text() == f"from here\n{number}\n"
        assert handed.logs(f"copy_{number}")[0].strip() != str(root)
    assert handed.logs("finalJob") == ["last a b in .\n"]
    assert (root / "wms" / "provisioningJob.log").read_text() == "one=1\n"
    assert condor_pool.queue("ClusterId", constraint=f"DAGManJobId == {handed.cluster}") == []
