"""Renders the state of a run as OpenMetrics text (pure).

Only gauges, counters and summaries without timestamps are written: what reads the older text format of Prometheus,
such as the textfile collector of the node exporter and the Pushgateway, takes these too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from longshore.model.measurements import Distribution
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.reports.statistics import AttemptStatistics

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Sample(NamedTuple):
    suffix: str
    labels: Mapping[str, str]
    value: float


class _Family(NamedTuple):
    """A metric with its samples; its name ends with its unit, where it has one."""

    name: str
    kind: str
    help: str
    samples: Iterable[_Sample]
    unit: str = ""


def render_openmetrics(report: RunReport, labels: Mapping[str, AttemptStatistics]) -> str:
    """Return the metrics of a run.

    Parameters
    ----------
    report
        The state of the run, and its number of jobs per label and state.
    labels
        Statistics of attempts per label.
    """
    lines: list[str] = []
    for family in (*_run_families(report), *_job_families(report), *_attempt_families(labels)):
        samples = [_line(f"longshore_{family.name}", report.id, sample) for sample in family.samples]
        if not samples:
            continue
        lines.append(f"# TYPE longshore_{family.name} {family.kind}")
        if family.unit:
            lines.append(f"# UNIT longshore_{family.name} {family.unit}")
        lines += [f"# HELP longshore_{family.name} {family.help}", *samples]
    return "\n".join([*lines, "# EOF", ""])


def _line(name: str, run: str, sample: _Sample) -> str:
    labels = {"run": run, **sample.labels}
    # A name that is no UTF-8 must not end the export.
    values = ((key, text.encode("utf-8", "backslashreplace").decode()) for key, text in labels.items())
    listed = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in values)
    return f"{name}{sample.suffix}{{{listed}}} {sample.value}"


def _run_families(report: RunReport) -> Iterator[_Family]:
    facts = {"name": report.name, "service": report.service, "site": report.site, "operator": report.operator}
    yield _Family("run_description", "gauge", "Always 1; labels describe the run.", [_Sample("", facts, 1)])
    states = [_Sample("", {"state": state.value}, int(report.state is state)) for state in JobState]
    yield _Family("run_state", "gauge", "1 for the state of the run, 0 for all others.", states)
    paused = [_Sample("", {}, int(report.paused))]
    yield _Family("run_paused", "gauge", "1 if the run is paused.", paused)
    for what, at in (
        ("submitted", report.submitted_at),
        ("started", report.started_at),
        ("finished", report.finished_at),
    ):
        moment = [] if at is None else [_Sample("", {}, at)]
        text = f"Seconds since the epoch when the run {_PASSIVE[what]}."
        yield _Family(f"run_{what}_timestamp_seconds", "gauge", text, moment, "seconds")


_PASSIVE: Final = {"submitted": "was submitted", "started": "started its first job", "finished": "ended"}


def _job_families(report: RunReport) -> Iterator[_Family]:
    expected = report.expected_labels or {label: sum(counts.values()) for label, counts in report.labels.items()}
    yield _Family(
        "jobs_expected", "gauge", "Jobs of a label.", [_Sample("", {"label": each}, n) for each, n in expected.items()]
    )
    # All states, also those without jobs: a series that ends looks as if its last value held on.
    yield _Family(
        "jobs",
        "gauge",
        "Jobs of a label in a state.",
        [
            _Sample("", {"label": label, "state": state.value}, counts.get(state, 0))
            for label, counts in report.labels.items()
            for state in JobState
        ],
    )


def _attempt_families(labels: Mapping[str, AttemptStatistics]) -> Iterator[_Family]:
    def counter(name: str, text: str, values: Mapping[str, float], unit: str = "") -> _Family:
        samples = [_Sample("_total", {"label": label}, value) for label, value in values.items()]
        return _Family(name, "counter", text, samples, unit)

    every = labels.items()
    yield counter("attempts", "Attempts of jobs.", {label: each.attempts for label, each in every})
    yield counter("successes", "Attempts that succeeded.", {label: each.succeeded for label, each in every})
    yield counter(
        "retries", "Attempts that are not the first of their job.", {label: each.retries for label, each in every}
    )
    # Without a known time, a 0 would be a measurement that nothing made.
    core = {label: each.known_core_s for label, each in every if each.known_core_s is not None}
    yield counter("core_seconds", "Run time of ended attempts times requested processors.", core, "seconds")
    cpu = {label: each.known_cpu_s for label, each in every if each.known_cpu_s is not None}
    yield counter("cpu_seconds", "Known processor time of ended attempts.", cpu, "seconds")
    lost = [
        ({"label": label, "cause": cause.value}, part)
        for label, each in every
        for cause, part in each.badput_causes.items()
    ]
    attempts = [_Sample("_total", names, part.attempts) for names, part in lost]
    yield _Family("badput_attempts", "counter", "Attempts that did not succeed.", attempts)
    seconds = [_Sample("_total", names, part.known_run_s) for names, part in lost if part.known_run_s is not None]
    yield _Family("badput_seconds", "counter", "Run time of attempts that did not succeed.", seconds, "seconds")
    seconds = [_Sample("_total", names, part.known_core_s) for names, part in lost if part.known_core_s is not None]
    text = "Run time of attempts that did not succeed times requested processors."
    yield _Family("badput_core_seconds", "counter", text, seconds, "seconds")
    waits = {label: each.wait_s for label, each in every}
    yield _summary("wait_seconds", "Time of started attempts in the queue.", waits, "seconds")
    times = {label: each.run_s for label, each in every}
    yield _summary("run_time_seconds", "Run time of attempts that succeeded.", times, "seconds")
    peaks = {label: each.peak_memory_b for label, each in every}
    yield _summary("peak_memory_bytes", "Peak memory of attempts that succeeded.", peaks, "bytes")


def _summary(name: str, text: str, values: Mapping[str, Distribution], unit: str) -> _Family:
    samples = []
    for label, found in values.items():
        for share, value in (("0.5", found.p50), ("0.95", found.p95), ("1.0", found.most)):
            if value is not None:
                samples.append(_Sample("", {"label": label, "quantile": share}, value))
        samples.append(_Sample("_count", {"label": label}, found.known))
        samples.append(_Sample("_sum", {"label": label}, found.total or 0.0))
    return _Family(name, "summary", text, samples, unit)
