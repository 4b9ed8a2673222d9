"""Capacity of a pool, and a message for each way in which it does not answer."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from longshore.errors import (
    ConfigError,
    ServiceError,
    SubmissionRefusedError,
    SubmissionUncertainError,
    UnreachableError,
)
from longshore.services.htcondor.schedd.client import Ad, CondorClient, capacity_of, ping, to_error, version_error

GIB = 1 << 30
MACHINES: list[Ad] = [
    {"Machine": "worker1", "TotalCpus": 8.0, "TotalMemory": 16384, "TotalDisk": 1000, "TotalGPUs": 2},
    {"Machine": "head", "TotalCpus": 64, "TotalMemory": 65536},
    {"Machine": "odd"},
]


def test_the_largest_machine_counts() -> None:
    assert capacity_of(MACHINES, "") == {"cpus": 64, "memory": 64 * GIB, "disk": 1024000, "gpus": 2}


def test_machines_of_a_pattern_count_where_there_are_any() -> None:
    assert capacity_of(MACHINES, ".*worker.*")["memory"] == 16 * GIB
    assert capacity_of(MACHINES, "nowhere")["memory"] == 64 * GIB
    assert capacity_of([], "x") == {}


def test_a_pattern_that_is_none_is_told_by_its_key() -> None:
    with pytest.raises(ConfigError, match=r"'executeMachinesPattern' is no regular expression: '\*worker\*'") as caught:
        ping(CondorClient(), pattern="*worker*")
    assert "'.*worker.*'" in caught.value.hint


def test_daemons_that_are_too_old() -> None:
    assert "HTCondor 23.9.6 is too old: " in version_error("23.9.6")
    assert [version_error(version) for version in ("24.0.1", "25.14.1", "", "soon")] == ["", "", "", ""]


def test_no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "none"))
    report = ping(CondorClient())
    assert not report.ok
    assert f"CONDOR_CONFIG names '{tmp_path / 'none'}'" in report.message
    monkeypatch.delenv("CONDOR_CONFIG")
    if not Path("/etc/condor/condor_config").exists():
        assert "there is no configuration of HTCondor on this host" in ping(CondorClient()).message


def test_no_bindings_and_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDOR_CONFIG", "/dev/null")
    monkeypatch.setitem(sys.modules, "htcondor2", None)
    with pytest.raises(ServiceError, match=r"needs HTCondor's Python bindings") as caught:
        CondorClient().version()
    assert "longshore[htcondor]" in caught.value.hint
    old = SimpleNamespace(version=lambda: "$CondorVersion: 23.10.29 2025-01-01 $")
    monkeypatch.setitem(sys.modules, "htcondor2", old)
    with pytest.raises(ServiceError, match=r"are of version 23\.10\.29"):
        CondorClient().version()


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("AUTHENTICATE:1003:Failed to authenticate with any method", ServiceError, "does not accept your identity"),
        ('SECMAN:2010:Received "DENIED" from server for user nobody', ServiceError, "does not accept your identity"),
        ("CEDAR:6001:Failed to connect to <127.0.0.1:9>", UnreachableError, "does not answer"),
        ("Failed to fetch ads from schedd, errmsg=", UnreachableError, "does not answer"),
        ("Unable to locate daemon.", UnreachableError, "does not answer"),
        ("Unable to commit transaction, errno 110", SubmissionUncertainError, "could not commit the DAG"),
        ("Submit:-1:No 'executable' parameter was provided", SubmissionRefusedError, "does not take the DAG: "),
        ("SCHEDD:22:MAX_JOBS_SUBMITTED exceeded. Current=9, Limit=9", SubmissionRefusedError, "the DAG for now: "),
        ("errno 28:No space left on device", SubmissionRefusedError, "does not take the DAG for now: "),
    ],
)
def test_what_the_bindings_raise(said: str, kind: type[Exception], words: str) -> None:
    error = to_error(RuntimeError(said), "the schedd 'ap'", "the DAG")
    assert type(error) is kind
    assert words in error.message
    assert said.rsplit(":", maxsplit=1)[-1] in error.message


def test_what_is_only_asked_is_not_refused() -> None:
    assert type(to_error(RuntimeError("odd"), "the schedd", "")) is ServiceError
