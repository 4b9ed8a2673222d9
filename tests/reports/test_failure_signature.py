"""Logs of the same fault have the same signature."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.reports.failures import error_line, normalize


@pytest.mark.parametrize(
    ("line", "common"),
    [
        ("ValueError: cannot reshape array of size 12", "ValueError: cannot reshape array of size <n>"),
        ("2025-11-20T12:00:01.5Z ERROR no /data/raw/visit_7.fits", "<time> ERROR no <path>"),
        ("2025-11-20 12:00:01,123 failed", "<time> failed"),
        ("at 12:00:01: failed", "at <time> failed"),
        ("id 4f1c2d3e-0000-4000-8000-0123456789ab is bad", "id <uuid> is bad"),
        ("segfault at 0x7ffe12 in deadbeef12", "segfault at <hex> in <hex>"),
        ("open raw/a_1.fits: No such file", "open <path> No such file"),
        ("ValueError: <b>no</b> stars in /a/b", "ValueError: <b>no</b> stars in <path>"),
        ("used 2.5e3 of 100 MB", "used <n> of <n> MB"),
        ("a  b\t c", "a b c"),
        ("facade effaced", "facade effaced"),
    ],
)
def test_job_specific_parts_become_placeholders(line: str, common: str) -> None:
    assert normalize(line) == common


def test_the_error_is_the_last_line_that_reports_an_error() -> None:
    lines = ["Traceback (most recent call last):", "KeyError: 'visit'", "INFO cleaning up"]
    assert error_line(lines) == "KeyError: 'visit'"
    assert error_line(["one", "two"]) == "two"
    assert error_line([]) == ""


QUANTUM = """\
ERROR 2026-03-01T10:00:00Z lsst.ctrl.mpexec (isr:{visit: 1}) - Execution of task 'isr' failed. \
Exception RuntimeError: configured to fail
Traceback (most recent call last):
  File "isr.py", line 8, in run
    raise RuntimeError("configured to fail")
RuntimeError: configured to fail

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "pipetask", line 3, in main
lsst.ctrl.mpexec.mpGraphExecutor.MPGraphExecutorError: One or more tasks failed
""".splitlines()


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (QUANTUM, "RuntimeError: configured to fail"),
        ([QUANTUM[0], *QUANTUM[-3:]], "RuntimeError: configured to fail"),
        (QUANTUM[-3:], QUANTUM[-1]),
        (["OSError: no disk", "subprocess.CalledProcessError: Command 'a' died"], "OSError: no disk"),
        (["KeyError", "MPGraphExecutorError: One failed", "INFO bye"], "KeyError"),
        (["OSError: no disk", "ValueError: bad"], "ValueError: bad"),
    ],
)
def test_an_exception_that_follows_from_another_is_passed_over(lines: list[str], error: str) -> None:
    assert error_line(lines) == error


@given(st.lists(st.text(max_size=300)))
def test_any_lines_have_an_error_line(lines: list[str]) -> None:
    assert any(error_line(lines) in line for line in lines) or error_line(lines) == ""


@given(st.text(max_size=300))
def test_the_signature_of_any_line_is_short(line: str) -> None:
    assert len(normalize(line)) <= 200


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_numbers_do_not_change_the_signature(one: int, other: int) -> None:
    assert normalize(f"job {one} failed") == normalize(f"job {other} failed")
