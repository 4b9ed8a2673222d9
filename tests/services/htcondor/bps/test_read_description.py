"""Submit descriptions that BPS wrote tell what a job asks for and runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.htcondor.bps.submit_directories import CALIB, DATA

from longshore.model.workflow import MIB
from longshore.services.htcondor.bps.read_directory import parse_description, read_description


def test_a_description_of_bps() -> None:
    described = read_description(DATA / "finished" / "jobs" / "calib" / "1" / f"{CALIB}.sub")
    assert described is not None
    assert described.label == "calib"
    assert described.command.startswith("/bin/sh /data/ok.sh 01a214e4")
    assert described.output == f"{CALIB}.$(Cluster).out"
    assert described.request.memory_b == 100 * MIB
    assert (described.retries, described.retry_unless_exit, described.quanta) == (5, (1, 2), 1)


@pytest.mark.parametrize(
    ("line", "megabytes"),
    [
        ("request_memory=2048", 2048),
        ("request_memory = 2 GB", 2048),
        ("request_memory=3G", 3072),
        ("request_memory=500MB", 500),
        ("request_memory=(a) ? min({int(9)}) : max({4096, MemoryUsage ?: 0})", 4096),
        ("request_memory=ifThenElse(x, 1, 2)", None),
        ("request_memory=", None),
        ("", None),
    ],
)
def test_memory(line: str, megabytes: int | None) -> None:
    found = parse_description(line).request.memory_b
    assert found == (None if megabytes is None else megabytes * MIB)


def test_values_in_htcondors_quotes() -> None:
    described = parse_description(
        "executable=$ENV(DIR)/bin/x\narguments=\"a ''b'' \"\"c\"\"\"\nenvironment=\"ONE='1' TWO='it''s $ENV(HOME)'\"\n"
        "retry_until=2\nrequest_disk=10MB\nrequest_cpus=4\npriority=7\naccounting_group=g\n"
        '+bps_job_quanta = "isr:2;calib:3"\n'
    )
    assert described.command == "${DIR}/bin/x a ''b'' \"c\""
    assert described.environment == {"ONE": "1", "TWO": "it's ${HOME}"}
    assert described.retry_unless_exit == (2,)
    assert (described.request.disk_b, described.request.cpus) == (10 * MIB, 4)
    assert described.attributes == {"priority": "7", "accountingGroup": "g"}
    assert described.quanta == 5


def test_a_missing_description_is_none(tmp_path: Path) -> None:
    assert read_description(tmp_path / "none.sub") is None


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    described = parse_description(text)
    assert described.request.cpus >= 1
    assert described.retries >= 0


@given(
    st.sampled_from(["request_memory", "request_cpus", "max_retries", "retry_until", "+bps_job_quanta", "environment"]),
    st.text(max_size=60),
)
def test_any_value_is_read(name: str, value: str) -> None:
    described = parse_description(f"{name}={value}")
    assert all(0 <= code <= 255 for code in described.retry_unless_exit)
