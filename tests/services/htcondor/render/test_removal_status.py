"""Jobs that run again after a person removed them: what DAGMan is told, and what the POST script makes of a log."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.services.htcondor.rendering import context, job

from longshore.model.tasks import Dag
from longshore.model.workflow import JobRules, RetryOn, Workflow
from longshore.services.htcondor.render.dag import render
from longshore.services.htcondor.render.retries import TEXT

LOG = """\
005 (007.000.000) 2026-11-23 10:00:00 Job terminated.
\t(1) Normal termination (return value 0)
...
009 (022.000.000) 2026-11-23 10:00:00 Job was aborted.
\t{why}
...
009 (221.000.000) 2026-11-23 10:00:00 Job was aborted.
\tvia condor_rm (by user ann)
...
"""


@pytest.mark.parametrize(
    ("why", "arguments", "status"),
    [
        ("via condor_rm (by user ann)", ("-1002", "22.0"), 202),
        ("tidying up (by user root)", ("-1002", "22.0", "3"), 202),
        ("The job attribute PeriodicRemove expression 'x' evaluated to TRUE", ("-1002", "22.0"), 201),
        ("longshore cancel (by user ann)", ("-1002", "22.0"), 201),
        ("via condor_rm (by user ann)", ("1", "7.0"), 201),
        ("via condor_rm (by user ann)", ("0", "22.0"), 0),
        ("via condor_rm (by user ann)", ("3", "7.0", "3"), 3),
    ],
)
def test_only_a_removal_by_a_person_is_a_retry(
    tmp_path: Path, why: str, arguments: tuple[str, ...], status: int
) -> None:
    (tmp_path / "run.dag.nodes.log").write_text(LOG.format(why=why), "utf-8")
    (tmp_path / "script").write_text(TEXT, "utf-8")
    ran = subprocess.run(("/bin/sh", "script", *arguments), cwd=tmp_path, check=False)
    assert ran.returncode == status


def test_dagman_retries_only_such_jobs() -> None:
    rules = JobRules(retry_on=RetryOn(operator=True))
    jobs = [job("a", number_of_retries=2, rules=rules), job("b", number_of_retries=2)]
    workflow = Workflow("w", Dag.by_name(jobs, []))
    files = {file.path.name: "".join(file.chunks()) for file in render(workflow, context())}
    lines = files["run.dag"].splitlines()
    assert [line for line in lines if line.startswith(("RETRY", "SCRIPT")) or "$(RETRY)" in line] == [
        "RETRY j0 2 UNLESS-EXIT 201",
        "SCRIPT POST j0 removed-status $RETURN $JOBID",
        'VARS j0 removals="$(RETRY)"',
    ]
    assert files["removed-status"] == TEXT
    assert files["run.dag"].count("$(removals:0)") == 1, "a removal spends the same budget as other ends"
