"""The keeper's records as events: every end has an exit code or a signal, and a cause unless it is a success."""

from __future__ import annotations

import errno
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.keeper.protocol import (
    ExitRecord,
    StartRecord,
    decode_record,
    end_event,
    start_event,
)
from longshore.model.states import Cause
from longshore.model.wording import signal_name


def test_a_start() -> None:
    record = decode_record(b'{"r":"start","j":3,"a":2,"pid":77,"t":1000.5,"up":12.25}')
    assert isinstance(record, StartRecord)
    event = start_event(record, host="here")
    assert (event.j, event.a, event.host, event.at) == (3, 2, "here", 1000.5)


def test_a_success() -> None:
    record = decode_record(b'{"r":"end","j":3,"a":2,"t":1000.0,"s":0,"run":2.5,"cpu":1.25,"rss":4096}')
    assert isinstance(record, ExitRecord)
    event = end_event(record, host="here")
    assert (event.exit, event.signal, event.cause, event.reason) == (0, None, None, None)
    assert (event.start, event.end, event.run_s, event.cpu_s, event.rss_b) == (997.5, 1000.0, 2.5, 1.25, 4096)


def test_what_is_not_known_stays_unknown() -> None:
    event = end_event(ExitRecord(j=1, a=1, t=5.0, s=0), host="here")
    assert (event.start, event.run_s, event.cpu_s, event.rss_b) == (None, None, None, None)


@given(st.integers(0, 255))
def test_every_exit_code(code: int) -> None:
    event = end_event(ExitRecord(j=1, a=1, t=0.0, s=code << 8), host="here")
    assert (event.exit, event.signal) == (code, None)
    assert event.cause == (Cause.EXIT if code else None)


@given(st.integers(1, 64), st.booleans())
def test_every_signal(number: int, dumped: bool) -> None:
    event = end_event(ExitRecord(j=1, a=1, t=0.0, s=number | (0x80 if dumped else 0)), host="here")
    assert (event.exit, event.signal, event.cause) == (None, number, Cause.SIGNAL)
    assert event.reason == f"killed by {signal_name(number)}"


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOENT, 127), (errno.EACCES, 126), (errno.ENOEXEC, 126), (None, 126)]
)
def test_what_was_not_started_exits_as_from_a_shell(number: int | None, code: int) -> None:
    event = end_event(ExitRecord(j=1, a=1, t=9.0, err="cannot start 'x'", no=number), host="here")
    assert (event.exit, event.cause, event.reason) == (code, Cause.EXIT, "cannot start 'x'")
    assert (event.start, event.end, event.run_s) == (None, 9.0, None)


@pytest.mark.parametrize(("command", "code"), [("/no/such/program", 127), ("/etc", 126)])
def test_a_shell_does_exit_like_that(command: str, code: int) -> None:
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False).returncode == code


def test_a_limit_that_ended_it_is_its_cause() -> None:
    text = b'{"r":"end","j":3,"a":2,"t":9.0,"s":9,"why":"OOM","say":"it used 7 MiB","tmp":"/t/3.2","rss":7}'
    record = decode_record(text)
    assert isinstance(record, ExitRecord)
    event = end_event(record, host="here")
    assert (event.cause, event.reason, event.signal, event.rss_b) == (Cause.OOM, "it used 7 MiB", 9, 7)
    assert event.extra == {"tmp": "/t/3.2"}
    tidy = decode_record(b'{"r":"end","j":3,"a":2,"t":9.0,"s":0,"why":"WALLTIME","say":"it ran for 2 s"}')
    assert isinstance(tidy, ExitRecord)
    assert end_event(tidy, host="here").cause is Cause.WALLTIME, "though it tidied up and exited with 0"
