"""Suggested requests: percentiles with margin, lower bounds, too few attempts, savings, and the YAML."""

from __future__ import annotations

import resource
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.written_run import WrittenRun

from longshore.errors import FilesError, Origin
from longshore.model.event import Attempt
from longshore.model.states import Cause
from longshore.model.workflow import MIB, Request
from longshore.reports.suggested_requests import (
    MIN_PERCENTILE,
    Basis,
    LabelSuggestion,
    RequestAdvice,
    SuggestedValue,
    Usage,
    advice_yaml,
    advise_requests,
    included_name,
    suggest_requests,
    write_advice,
)

LABELS = ("a", "on", "1e3", "a: b", "<script>", "x\ny # z", "über", "'\"", "a.b", "-", "{")
ODD = ("\U0001f600", "a\u2028b", "\ufeff", "\x7f", "\x85\t\\")
"""Names beyond the basic plane, and with characters that YAML has to escape."""
REQUEST = Request(cpus=4, memory_b=1000 * MIB, walltime_s=36000.0)


def success(job: int, peak_mib: float | None, *, cpu_s: float = 100.0, number: int = 1) -> Usage:
    peak_b = None if peak_mib is None else round(peak_mib * MIB)
    attempt = Attempt(
        job=job, number=number, started_at=0.0, ended_at=100.0, run_s=100.0, cpu_s=cpu_s, peak_memory_b=peak_b
    )
    return Usage(0, attempt, REQUEST)


def failure(job: int, cause: Cause, *, number: int = 1, run_s: float = 50.0) -> Usage:
    attempt = Attempt(
        job=job,
        number=number,
        started_at=0.0,
        ended_at=50.0,
        run_s=run_s,
        cause=cause,
        peak_memory_b=900 * MIB,
    )
    return Usage(0, attempt, REQUEST)


def values_of(*usages: Usage, requests: tuple[Request, ...] = (REQUEST,)) -> dict[str, SuggestedValue]:
    return {value.key: value for value in suggest_requests("a", usages, requests).values}


def test_few_attempts_give_the_maximum_and_many_the_percentile() -> None:
    few = values_of(*(success(job, 100 + job) for job in range(MIN_PERCENTILE - 1)))["requestMemory"]
    assert (few.basis, few.measured, few.samples) == (Basis.MAX, 118 * MIB, 19)
    assert few.suggested == 160 * MIB, "118 MiB and a margin of 20 %, rounded up to one of few sizes"
    many = values_of(*(success(job, 100) for job in range(99)), success(99, 900))["requestMemory"]
    assert (many.basis, many.measured, many.exceeding) == (Basis.P95, 100 * MIB, 1)


def test_an_attempt_that_ran_out_of_memory_is_no_sample() -> None:
    value = values_of(failure(0, Cause.OOM), success(0, 2000, number=2))["requestMemory"]
    assert (value.samples, value.measured, value.basis, value.bounds) == (1, 2000 * MIB, Basis.MAX, 0)


def test_a_job_that_never_succeeded_is_a_lower_bound() -> None:
    value = values_of(success(0, 300), failure(1, Cause.OOM), failure(1, Cause.OOM, number=2))["requestMemory"]
    assert (value.basis, value.measured, value.bounds, value.suggested) == (
        Basis.BOUND,
        1000 * MIB,
        1,
        2048 * MIB,
    )
    low = values_of(success(0, 3000), failure(1, Cause.OOM))["requestMemory"]
    assert (low.basis, low.measured) == (Basis.MAX, 3000 * MIB)


def test_processors_that_were_idle_are_given_back() -> None:
    assert values_of(success(0, 1, cpu_s=120.0))["requestCpus"].suggested == 2
    assert values_of(success(0, 1, cpu_s=9.0))["requestCpus"].suggested == 1
    assert values_of(success(0, 1, cpu_s=395.0))["requestCpus"].suggested == 4


def test_a_run_time_is_suggested_only_where_one_is_requested() -> None:
    value = values_of(success(0, 1))["requestWalltime"]
    assert (value.measured, value.suggested) == (100.0, 180.0)
    assert "requestWalltime" not in values_of(success(0, 1), requests=(Request(),))
    late = values_of(success(0, 1), failure(1, Cause.WALLTIME))["requestWalltime"]
    assert (late.basis, late.suggested) == (Basis.BOUND, 72000.0)


def test_nothing_measured_gives_no_suggestion() -> None:
    none = suggest_requests("a", [failure(0, Cause.EXIT)], [REQUEST])
    assert (none.values, none.why_none) == ((), "no attempt succeeded")
    bare = Usage(0, Attempt(job=0, number=1, ended_at=2.0), Request())
    assert suggest_requests("a", [bare], [Request()]).why_none == "nothing was measured of its attempts"
    mixed = suggest_requests("a", [success(0, 1)], [REQUEST, Request()])
    assert (mixed.values, "different amounts" in mixed.why_none) == ((), True)
    assert suggest_requests("a", [success(0, 1)], [REQUEST]).is_guess
    assert suggest_requests("a", [success(0, None)], [Request()]).why_unchanged == "its peak memory is unknown"


def test_savings_are_those_of_the_measured_attempts() -> None:
    found = suggest_requests("a", [failure(0, Cause.OOM), success(0, 2000, number=2, cpu_s=390.0)], [REQUEST])
    assert (found.avoided_retries, found.expected_retries) == (1, 0)
    assert found.core_s == 200.0, "four processors for the 50 s of the attempt that failed"
    memory = next(value for value in found.values if value.key == "requestMemory")
    assert found.memory_b_s == 100.0 * (1000 * MIB - memory.suggested) + 50.0 * 1000 * MIB


def test_savings_count_the_attempts_that_would_fail() -> None:
    usages = [*(success(job, 100, cpu_s=390.0) for job in range(99)), success(99, 900, cpu_s=390.0)]
    found = suggest_requests("a", usages, [REQUEST])
    memory = next(value for value in found.values if value.key == "requestMemory")
    assert (found.expected_retries, found.core_s) == (1, -400.0)
    others = 99 * 100.0 * (1000 * MIB - memory.suggested)
    failed, retried = 100.0 * memory.suggested, 100.0 * 2 * memory.suggested
    assert found.memory_b_s == pytest.approx(others - failed + 100.0 * 1000 * MIB - retried)


@pytest.mark.parametrize(
    ("core_s", "gib_s", "words"),
    [
        (7200.0, 3.0, "2.0 core hours, 3.0 GiB seconds of requested memory and 2 failed attempts, with no retry"),
        (0.01, -0.01, "0.0 core seconds, 0.0 GiB seconds of requested memory and 2 failed attempts, with no retry"),
        (2.8, -1.0, "2.8 core seconds and 2 failed attempts, and taken 1.0 GiB seconds more of requested memory, "),
        (
            -2.0,
            -1.0,
            "2 failed attempts, and taken 2.0 core seconds more and 1.0 GiB seconds more of requested memory, ",
        ),
    ],
)
def test_what_would_have_been_taken_more_is_no_saving(core_s: float, gib_s: float, words: str) -> None:
    changed = suggest_requests("a", [failure(0, Cause.OOM), success(0, 2000, number=2)], [REQUEST])
    suggestion = msgspec.structs.replace(changed, core_s=core_s, memory_b_s=gib_s * 1024 * MIB, avoided_retries=2)
    advice = RequestAdvice(runs=(), margin=1.2, suggestions=[suggestion], sections={}, written={})
    assert advice.savings.startswith(words)


def test_a_written_advice_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "tuned.yaml"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(FilesError, match=r"cannot write '.*tuned\.yaml': File too large"):
            write_advice(path, "#" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    write_advice(path, "a: 1\n")
    with pytest.raises(FilesError, match="exists already"):
        write_advice(path, "a: 2\n")
    assert path.read_text("utf-8") == "a: 1\n"


def test_a_value_near_the_request_stays() -> None:
    value = SuggestedValue(
        key="requestMemory", requested=1000.0, suggested=950.0, basis=Basis.MAX, measured=900.0, samples=9
    )
    assert not value.is_change


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60), st.floats(1.0, 3.0))
def test_no_more_than_one_in_twenty_exceeds_a_suggestion(peaks: list[int], margin: float) -> None:
    usages = [success(job, peak / 10) for job, peak in enumerate(peaks)]
    found = suggest_requests("a", usages, [REQUEST], margin=margin)
    again = suggest_requests("a", usages[::-1], [REQUEST], margin=margin)
    assert found == again, "the order of attempts does not matter"
    value = next(each for each in found.values if each.key == "requestMemory")
    assert value.suggested >= value.measured * margin
    assert value.exceeding <= 0.05 * len(peaks)
    assert value.suggested % MIB == 0


@pytest.mark.parametrize("label", [*LABELS, *ODD])
def test_the_yaml_names_each_label_exactly(label: str, tmp_path: Path) -> None:
    suggestion = suggest_requests(label, [success(0, 300, cpu_s=100.0)], [REQUEST])
    unchanged = LabelSuggestion(label=f"{label}2", attempts=0, successes=0, why_none="no attempt succeeded")
    advice = RequestAdvice(
        runs=[WrittenRun(tmp_path / "run").opened],
        margin=1.2,
        suggestions=[suggestion, unchanged],
        sections={label: "pipetask", f"{label}2": "cluster"},
        written={(label, "requestMemory"): Origin("a.yaml", 3, 4, "user")},
    )
    text = advice_yaml(advice)
    assert yaml.safe_load(text) == {
        "pipetask": {label: {"requestMemory": 384, "requestCpus": 1, "requestWalltime": "0:03:00"}}
    }
    assert "1000 MiB before; maximum of 1 attempt 300 MiB" in text
    assert "a guess: 1 attempt succeeded so far" in text
    assert "a.yaml:3:4 sets requestMemory itself" in text
    over = advice_yaml(advice, over="a b.yaml")
    assert yaml.safe_load(over)["includeConfigs"] == "a b.yaml"
    assert "itself, and wins" not in over


def test_an_included_file_is_found_from_where_the_yaml_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").touch()
    (tmp_path / "deep").mkdir()
    assert included_name("run.yaml", None) == "run.yaml"
    assert included_name("run.yaml", Path("tuned.yaml")) == "run.yaml"
    assert included_name("run.yaml", Path("deep/tuned.yaml")) == str(tmp_path / "run.yaml")


@pytest.mark.parametrize(("over", "why"), [("none.yaml", "No such file"), (".", "Is a directory")])
def test_what_cannot_be_included_is_told(over: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FilesError, match=f"'{over}' cannot be included: {why}"):
        included_name(over, None)


def test_runs_count_together_and_the_last_says_what_is_requested(tmp_path: Path) -> None:
    runs = [WrittenRun(tmp_path / name) for name in ("one", "two")]
    for run in runs:
        run.begin()
    found = advise_requests([run.opened for run in runs])
    assert [each.why_none for each in found.suggestions] == ["no attempt ended"] * 2
    assert found.sections == {"a": "pipetask", "b": "pipetask"}
    assert yaml.safe_load(advice_yaml(found)) is None
