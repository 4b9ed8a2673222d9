"""The job around a run: what it is granted, and when it is over."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from longshore.engine.outer_job import (
    OUTER_VARIABLE,
    OuterJob,
    enter_outer_job,
    limit_to_outer_job,
    read_outer_job,
)
from longshore.system.host import process_start_s

GRANTED = {
    "LONGSHORE_JOB_RUN_DIR": "/runs/outer",
    "LONGSHORE_JOB_NAME": "find",
    "LONGSHORE_JOB_ATTEMPT": "2",
    "LONGSHORE_JOB_CPUS": "2",
    "LONGSHORE_JOB_MEMORY_MB": "100",
    "LONGSHORE_JOB_RESOURCE_GPUS": "1",
    "LONGSHORE_JOB_RESOURCE_GPUS_IDS": "3",
}
MARKS = {"LONGSHORE_JOB_RUN_MARK": "k1-x", "LONGSHORE_JOB_INDEX": "0.2"}


def test_a_run_inside_a_job_has_what_the_job_requested() -> None:
    capacity = {"cpus": 8, "memory": 1 << 34, "gpus": 4, "licence": 2}
    members = {"gpus": ("0", "1", "2", "3")}
    assert limit_to_outer_job(capacity, members, {}) == (capacity, members)
    amounts, own = limit_to_outer_job(capacity, members, GRANTED)
    assert own == {"gpus": ("3",)}
    assert amounts == {"cpus": 2, "memory": 100 << 20, "gpus": 1, "licence": 0}
    # A smaller machine stays as small as it is.
    assert limit_to_outer_job({"cpus": 1}, {}, GRANTED)[0] == {"cpus": 1}
    # A job whose memory is not counted may use all of it.
    assert limit_to_outer_job({"memory": 1 << 34}, {}, {"LONGSHORE_JOB_CPUS": "2"})[0] == {"memory": 1 << 34}


def test_the_engine_knows_the_job_and_is_not_found_as_one_of_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (GRANTED | MARKS).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(OUTER_VARIABLE, raising=False)
    enter_outer_job("/runs/outer")
    outer = read_outer_job()
    assert outer is not None
    assert (outer.run, outer.job, outer.attempt) == ("/runs/outer", "find", 2)
    assert not MARKS.keys() & os.environ.keys()
    # An engine on standby has it before the run is there.
    enter_outer_job("/runs/outer")
    assert read_outer_job() == outer
    # A run of a person, which this job resumes, is not inside of it.
    enter_outer_job("")
    assert read_outer_job() is None


def test_a_job_that_submits_as_the_job_of_an_inner_run_names_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OUTER_VARIABLE, '{"run":"/runs/outermost","job":"a","attempt":1}')
    for name, value in (GRANTED | MARKS).items():
        monkeypatch.setenv(name, value)
    enter_outer_job("/runs/outer")
    outer = read_outer_job()
    assert outer is not None
    assert outer.run == "/runs/outer"


def is_over(outer: OuterJob) -> bool:
    return outer.is_over


def test_a_job_is_over_when_the_leader_of_its_session_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start_s = process_start_s(process.pid)
        assert start_s is not None
        outer = OuterJob("/runs/outer", "find", 1, process.pid, start_s)
        assert not is_over(outer)
    assert is_over(outer)
    assert not is_over(OuterJob("/runs/outer", "find", 1))
    assert outer.key != OuterJob("/runs/outer", "find", 2).key
