"""Turns reports of Longshore into those of BPS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from lsst.ctrl.bps import WmsJobReport, WmsRunReport, WmsSpecificInfo, WmsStates

from longshore.model.report import JobReport, RunReport
from longshore.model.states import JobState

_SIGNAL_BASE: Final = 128


def to_state(state: JobState) -> WmsStates:
    """Return BPS's state of the same name."""
    return WmsStates[state.value]


def to_run_report(report: RunReport) -> WmsRunReport:
    """Return the report of a run with its jobs, as far as they are in it, and its counts."""
    labels = report.expected_labels or {label: sum(counts.values()) for label, counts in report.labels.items()}
    return WmsRunReport(
        wms_id=report.id,
        global_wms_id=report.global_id or report.id,
        path=report.path,
        label=report.name,
        run=report.name,
        project=report.project,
        campaign=report.campaign,
        payload=report.payload,
        operator=report.operator,
        run_summary=";".join(f"{label}:{count}" for label, count in labels.items()),
        state=to_state(report.state),
        jobs=[_to_job_report(report, job) for job in report.jobs] if report.jobs is not None else None,
        total_number_jobs=report.expected,
        job_state_counts=_all_states(report.counts),
        job_summary={label: _all_states(counts) for label, counts in report.labels.items()},
        exit_code_summary=exit_codes(report),
        specific_info=_specific_info(report),
    )


def exit_codes(report: RunReport) -> dict[str, list[int]]:
    """Return the exit codes of failed jobs, per label; a signal counts as 128 and its number, as in a shell."""
    codes: dict[str, list[int]] = {label: [] for label in report.labels}
    for job in report.jobs or ():
        if job.state in (JobState.FAILED, JobState.HELD):
            code = job.exit_code if job.signal is None else _SIGNAL_BASE + job.signal
            if code:
                codes.setdefault(job.label, []).append(code)
    return codes


def _to_job_report(report: RunReport, job: JobReport) -> WmsJobReport:
    return WmsJobReport(wms_id=f"{report.id}/{job.name}", name=job.name, label=job.label, state=to_state(job.state))


def _all_states(counts: Mapping[JobState, int]) -> dict[WmsStates, int]:
    """Return a count for each state of BPS, as its tables want them."""
    found = Counter({to_state(state): count for state, count in counts.items()})
    return {state: found[state] for state in WmsStates}


def _specific_info(report: RunReport) -> WmsSpecificInfo | None:
    """Return what BPS has no field for: lines of the service, notes, and the largest failures."""
    lines = [*report.specifics, *report.notes]
    for failure in report.summary.failures if report.summary else ():
        what = failure.message or failure.reason or (failure.cause.value if failure.cause else "unknown cause")
        lines.append(f"{failure.count} failed of {failure.label}: {what}")
    if not lines:
        return None
    info = WmsSpecificInfo()
    for number, line in enumerate(lines):
        info.add_message(f"{{line{number}}}", {f"line{number}": line})
    return info
