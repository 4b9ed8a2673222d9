"""The script of an engine that is a job: small, requeued, warned before its time is over, in the site's own words."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.services.slurm.scripts import directives

from longshore.config.plugins import template_texts
from longshore.contract.service import RunPaths
from longshore.errors import ConfigError
from longshore.services.batch.engine_job import engine_request, engine_script, wants_engine_job
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService

RUN = RunPaths(Path("/data/a 'run'"))


def made(site: dict[str, Any]) -> str:
    command = ["/opt/python", "-m", "longshore", "drive", str(RUN.root)]
    template = template_texts(SlurmService)["engine.sh"]
    dialect = SlurmDialect(site["slurm"])
    return engine_script(dialect, RUN, site, template, run_token="k7f3a-1", by="submit", command=command)


def test_it_is_small_and_requeued() -> None:
    text = made({"slurm": {"engineAs": "job", "partition": "main", "gres": "gpu:1"}, "account": "general"})
    assert directives(text) == [
        "--job-name=k7f3a-1-engine",
        "--comment=longshore engine run=a 'run'",
        "--chdir=/data/a 'run'",
        "--output=/data/a 'run'/engine.log",
        "--open-mode=append",
        "--export=ALL",
        "--requeue",
        "--partition=main",
        "--account=general",
        "--cpus-per-task=1",
        "--mem=1024M",
    ]
    assert """/opt/python -m longshore drive '/data/a '"'"'run'"'"'' --by "$_by"\n) &""" in text
    assert """[ ! -e '/data/a '"'"'run'"'"'/journal/0001.jsonl' ] || _by=resume""" in text
    subprocess.run(["/bin/sh", "-n"], input=text, text=True, check=True)


def test_its_own_words_win_and_it_is_warned() -> None:
    site = {
        "slurm": {
            "partition": "main",
            "repo_key": "s:",
            "engineJob": {
                "partition": "long",
                "time": "48:00",
                "mem": "300M",
                "sbatch": ["--nice=5"],
                "omit": ["comment"],
            },
        },
        "directives": ["-C x"],
    }
    options = directives(made(site))
    assert "--job-name=s:k7f3a-1-engine" in options
    assert {"--partition=long", "--mem=300M", "--time=2880", "--signal=B:USR1@120", "--nice=5"} <= set(options)
    assert not any(option.startswith("--comment") for option in options)
    assert options[-3:] == ["-C", "x", "--nice=5"]


def test_who_wants_it() -> None:
    assert not wants_engine_job("slurm", {})
    assert not wants_engine_job("slurm", {"slurm": {"engineAs": "process"}})
    assert wants_engine_job("slurm", {"slurm": {"engineAs": "job"}})
    assert engine_request("slurm", {})[0].walltime_s is None


@pytest.mark.parametrize(
    ("slurm", "words"),
    [
        ({"engineAs": "pilot"}, "must be 'process' or 'job', not 'pilot'"),
        ({"engineAs": "job", "engineJob": 3}, "'slurm.engineJob' must be a map"),
        ({"engineAs": "job", "engineJob": {"time": "soon"}}, r"slurm\.engineJob\.time"),
    ],
)
def test_what_cannot_be_meant(slurm: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        wants_engine_job("slurm", {"slurm": slurm})
