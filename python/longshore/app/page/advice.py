"""Advice: which changes of the configuration or payload would help a run, with the figures that say so (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from longshore.app.page.page_data import LabelRow, PageAdvice, RunPage
from longshore.model.run.report import Failure
from longshore.model.run.states import Cause
from longshore.model.text_format import failure_text, format_duration, format_size
from longshore.model.wording import count_noun
from longshore.model.workflow.request import MIB

MARGIN: Final = 1.2
"""Factor between what attempts used and what is advised."""
_LEAST_WASTE_B: Final = 256 * MIB
"""Unused memory per job from which on a smaller request is worth a line."""
_LEAST_ATTEMPTS: Final = 3
"""Attempts that must have succeeded before a smaller request is advised."""
_LEAST_HOST_FAILURES: Final = 3
_PAYLOAD_CAUSES: Final = (Cause.EXIT, Cause.SIGNAL, Cause.OUTPUT_MISSING, Cause.PREDICATE, Cause.OUTPUT, None)


def find_advice(page: RunPage) -> tuple[PageAdvice, ...]:
    """Return advice for a run, what failed first."""
    failures = page.report.summary.failures if page.report.summary else ()
    found = [
        [each for row in page.labels for each in _advise_on_failures(row, failures)],
        [each for row in page.labels for each in _advise_on_requests(row)],
        _advise_on_hosts(page),
    ]
    return tuple(each for some in found for each in some)


def _advise_on_failures(row: LabelRow, failures: tuple[Failure, ...]) -> Iterator[PageAdvice]:
    """Yield advice on what made attempts of a label fail."""
    causes = row.statistics.badput_causes
    if lost := causes.get(Cause.OOM):
        used = max(row.memory_b[-1] if row.memory_b else 0.0, row.requested_memory_b or 0.0)
        amount = _round_up_mib(used * MARGIN)
        yield PageAdvice(
            label=row.name,
            text=f"Request more memory for {row.name}",
            why=f"{count_noun(lost.attempts, 'attempt')} ran out of memory, at up to {format_size(round(used))}.",
            yaml=_yaml(row.name, "requestMemory", amount // MIB) if used else "",
        )
    if lost := causes.get(Cause.WALLTIME):
        mean = lost.run_s / (lost.attempts - lost.unknown) if lost.attempts > lost.unknown else 0.0
        slowest = row.run_s[-1] if row.run_s else 0.0
        yield PageAdvice(
            label=row.name,
            text=f"Request more run time for {row.name}, or find out why it is slow",
            why=(
                f"{count_noun(lost.attempts, 'attempt')} reached the requested run time after "
                f"{format_duration(mean)}"
                + (f"; those that succeeded took up to {format_duration(slowest)}." if slowest else ".")
            ),
            yaml=_yaml(row.name, "requestWalltime", round(2 * mean) or 1) if mean else "",
        )
    groups = [each for each in failures if each.label == row.name and each.cause in _PAYLOAD_CAUSES]
    if groups:
        first = groups[0]
        number = sum(each.count for each in groups) + first.unread
        how = failure_text(first.cause, first.exit_code, first.signal)
        yield PageAdvice(
            label=row.name,
            text=f"Repair the command or the data of {row.name}",
            why=f"{count_noun(number, 'job')} failed, such as {first.job} ({how})"
            + (f": {first.message}" if first.message else "."),
        )
    if lost := causes.get(Cause.SUBMIT):
        yield PageAdvice(
            label=row.name,
            text=f"Change what {row.name} requests: it was refused",
            why=f"{count_noun(lost.attempts, 'attempt')} could not be submitted or started.",
        )


def _advise_on_requests(row: LabelRow) -> Iterator[PageAdvice]:
    """Yield advice on requests that are much larger than their use."""
    statistics = row.statistics
    requested = row.requested_memory_b
    if requested and len(row.memory_b) >= _LEAST_ATTEMPTS:
        enough = _round_up_mib(row.memory_b[-1] * MARGIN)
        unused = requested - enough
        if unused >= max(_LEAST_WASTE_B, requested // 2):
            hours = unused * (statistics.run_s.total or 0.0) / 3600 / 1024**3
            yield PageAdvice(
                label=row.name,
                text=f"Request less memory for {row.name}",
                why=(
                    f"{count_noun(len(row.memory_b), 'attempt')} used at most {format_size(round(row.memory_b[-1]))} "
                    f"of {format_size(requested)}: {hours:,.2f} GiB hours were reserved for nothing."
                ),
                yaml=_yaml(row.name, "requestMemory", enough // MIB),
            )
    used = statistics.cpu_efficiency.p95
    if used is not None and statistics.cpu_efficiency.known >= _LEAST_ATTEMPTS and statistics.run_s.total:
        cpus = statistics.core_s / max(statistics.run_s.total + statistics.badput.run_s, 1e-9)
        needed = max(1, round(used * cpus + 0.4))
        if cpus >= 2.0 and needed <= cpus / 2:
            yield PageAdvice(
                label=row.name,
                text=f"Request fewer processors for {row.name}",
                why=f"It used {used:.0%} of {cpus:.0f} processors (95th percentile of its attempts).",
                yaml=_yaml(row.name, "requestCpus", needed),
            )


def _advise_on_hosts(page: RunPage) -> Iterator[PageAdvice]:
    """Yield advice on hosts where most attempts fail, while most succeed elsewhere."""
    total_ended = page.total.attempts - page.total.unfinished
    for host, statistics in page.hosts.items():
        failed, ended = statistics.badput.attempts, statistics.attempts - statistics.unfinished
        elsewhere = total_ended - ended
        failed_elsewhere = page.total.badput.attempts - failed
        if host is None or failed < max(_LEAST_HOST_FAILURES, ended / 2) or elsewhere < ended:
            continue
        if failed / ended > 4 * failed_elsewhere / elsewhere:
            yield PageAdvice(
                label="",
                text=f"Avoid the host {host}, or have it repaired",
                why=(
                    f"Attempts that failed: {failed:,} of {ended:,} there, and {failed_elsewhere:,} of {elsewhere:,} "
                    "elsewhere."
                ),
            )


def _yaml(label: str, key: str, value: int) -> str:
    """Return a line of configuration for a label."""
    # Imported late: pages alone need it.
    import yaml

    text: str = yaml.safe_dump({"pipetask": {label: {key: value}}}, default_flow_style=None, width=10_000)
    return text.rstrip()


def _round_up_mib(amount: float) -> int:
    """Round up to a whole number of steps of about a tenth, in bytes."""
    step = int(10 ** max(0, len(str(int(amount // MIB))) - 2)) * MIB
    return int(-(-amount // step)) * step
