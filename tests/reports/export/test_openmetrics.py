"""Metrics of a run: valid for the parser of Prometheus's client, also with names that hold anything."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_older_format

from longshore.model.measurements import distribution_of
from longshore.model.report import RunReport
from longshore.model.states import Cause, JobState
from longshore.reports.export.openmetrics import render_openmetrics
from longshore.reports.statistics import AttemptStatistics, BadputSum

STATISTICS = AttemptStatistics(
    jobs=3,
    attempts=5,
    succeeded=2,
    retries=2,
    run_s=distribution_of([1.0, 3.0]),
    badput=BadputSum(attempts=3, run_s=7.5, core_s=15.0),
    badput_causes={Cause.OOM: BadputSum(attempts=3, run_s=7.5, core_s=15.0)},
    core_s=20.0,
    cpu_s=1.5,
)


def report(*labels: str, name: str = "w") -> RunReport:
    counts = {JobState.RUNNING: 1, JobState.SUCCEEDED: 2}
    return RunReport(
        id="k7f3aa",
        name=name,
        path="/run",
        service="local",
        state=JobState.RUNNING,
        expected=3 * len(labels),
        counts=counts,
        labels=dict.fromkeys(labels, counts),
        started_at=10.0,
    )


def families(text: str) -> list[Metric]:
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, frozenset({"run": "k7f3aa", **labels}.items())]


def test_counts_seconds_retries_and_badput() -> None:
    text = render_openmetrics(report("fit"), {"fit": STATISTICS})
    assert text.endswith("\n# EOF\n")
    assert value(text, "longshore_run_state", state="RUNNING") == 1
    assert value(text, "longshore_run_state", state="FAILED") == 0
    assert value(text, "longshore_jobs", label="fit", state="SUCCEEDED") == 2
    assert value(text, "longshore_jobs", label="fit", state="FAILED") == 0
    assert value(text, "longshore_jobs_expected", label="fit") == 3
    assert value(text, "longshore_retries_total", label="fit") == 2
    assert value(text, "longshore_core_seconds_total", label="fit") == 20
    assert value(text, "longshore_badput_attempts_total", label="fit", cause="OOM") == 3
    assert value(text, "longshore_badput_seconds_total", label="fit", cause="OOM") == 7.5
    assert value(text, "longshore_badput_core_seconds_total", label="fit", cause="OOM") == 15
    assert value(text, "longshore_run_time_seconds", label="fit", quantile="0.5") == 1
    assert value(text, "longshore_run_time_seconds_sum", label="fit") == 4
    assert value(text, "longshore_run_started_timestamp_seconds") == 10
    assert "finished" not in text, "a time that is not known has no sample"


def test_readers_of_the_older_format_take_every_sample() -> None:
    text = render_openmetrics(report("fit"), {"fit": STATISTICS})
    found = [sample for family in parse_older_format(text) for sample in family.samples]
    assert len(found) == len(samples(text))
    assert all(sample.timestamp is None for sample in found), "the textfile collector refuses timestamps"
    kinds = {line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    assert kinds == {"gauge", "counter", "summary"}


@given(st.dictionaries(st.text(st.characters(), min_size=1), st.just(STATISTICS), max_size=3), st.text(st.characters()))
def test_any_name_is_a_valid_label(labels: Mapping[str, AttemptStatistics], name: str) -> None:
    text = render_openmetrics(report(*labels, name=name), labels)
    assert text == render_openmetrics(report(*labels, name=name), labels)
    found = {
        labels["label"]
        for (metric, each) in samples(text)
        if metric == "longshore_jobs_expected"
        for labels in [dict(each)]
    }
    assert found == {label.encode("utf-8", "backslashreplace").decode() for label in labels}


def test_a_run_without_attempts_has_counts() -> None:
    text = render_openmetrics(report("fit"), {})
    assert value(text, "longshore_jobs", label="fit", state="RUNNING") == 1
    assert "badput" not in text


def test_seconds_that_are_unknown_are_absent() -> None:
    lost = BadputSum(attempts=1, unknown=1)
    found = AttemptStatistics(attempts=2, succeeded=1, unknown_run=2, badput=lost, badput_causes={Cause.LOST: lost})
    text = render_openmetrics(report("fit", "sum"), {"fit": STATISTICS, "sum": found})
    names = ("core_seconds_total", "badput_seconds_total", "cpu_seconds_total")
    lines = [line for line in text.splitlines() if any(name in line for name in names)]
    assert len(lines) == 4
    assert not any('label="sum"' in line for line in lines)
    assert value(text, "longshore_badput_attempts_total", label="sum", cause="LOST") == 1
