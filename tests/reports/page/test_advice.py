"""Advice of a page: what made attempts fail first, then hosts, then what is wasted; nothing without a figure."""

from __future__ import annotations

import msgspec
from tests.reports.page.page_examples import MIB, example_page, requests_of

from longshore.model.states import Cause
from longshore.reports.page.content import PageAdvice, RunPage, count_failed_attempts, find_advice
from longshore.reports.statistics import AttemptStatistics, BadputSum


def with_hosts(failed: dict[str, tuple[int, int]]) -> RunPage:
    """A page with so many failed and ended attempts per host."""
    hosts = {
        name: AttemptStatistics(attempts=ended, badput=BadputSum(attempts=bad)) for name, (bad, ended) in failed.items()
    }
    total = AttemptStatistics(
        attempts=sum(ended for _, ended in failed.values()),
        badput=BadputSum(attempts=sum(bad for bad, _ in failed.values())),
    )
    return msgspec.structs.replace(example_page(), hosts=hosts, total=total)


def hosts_to_avoid(failed: dict[str, tuple[int, int]]) -> list[str]:
    return [each.text for each in find_advice(with_hosts(failed)) if each.text.startswith("Avoid")]


def test_what_failed_comes_before_what_is_wasted() -> None:
    assert [each.text for each in example_page().advice] == [
        "Repair the command or the data of warp",
        "Avoid the host warp, or have it repaired",
        "Request less memory for isr",
    ]


def test_several_labels_that_fail_are_one_advice() -> None:
    page = example_page()
    assert page.report.summary is not None
    (failure,) = page.report.summary.failures
    failures = (failure, msgspec.structs.replace(failure, label="isr", cause=Cause.EXIT, count=1, unread=3))
    summary = msgspec.structs.replace(page.report.summary, failures=failures)
    changed = msgspec.structs.replace(page, report=msgspec.structs.replace(page.report, summary=summary))
    repair, *_ = find_advice(changed)
    assert repair.text == "Repair the commands or the data of 2 labels"
    assert repair.why == "Jobs that failed: isr: 4 jobs, warp: 2 jobs."


def test_a_host_where_most_attempts_fail_is_named() -> None:
    assert hosts_to_avoid({"good": (1, 100), "bad": (9, 10)}) == ["Avoid the host bad, or have it repaired"]


def test_attempts_that_a_person_cancelled_are_no_failures_of_a_host() -> None:
    cancelled = BadputSum(attempts=9)
    page = with_hosts({"good": (1, 100), "bad": (9, 10)})
    bad = msgspec.structs.replace(page.hosts["bad"], badput_causes={Cause.CANCELLED: cancelled})
    total = msgspec.structs.replace(page.total, badput_causes={Cause.CANCELLED: cancelled})
    assert count_failed_attempts(bad) == 0
    changed = msgspec.structs.replace(page, hosts={"good": page.hosts["good"], "bad": bad}, total=total)
    assert not [each for each in find_advice(changed) if each.text.startswith("Avoid")]


def test_a_host_is_not_to_blame_for_what_fails_everywhere() -> None:
    assert hosts_to_avoid({"one": (50, 100), "other": (9, 10)}) == []
    assert hosts_to_avoid({"only": (9, 10)}) == []
    assert hosts_to_avoid({"good": (0, 100), "unlucky": (2, 3)}) == []


def advice_on_memory(run_s: float, page: RunPage) -> list[PageAdvice]:
    """The advice on a label of twenty attempts that use a fiftieth of their memory."""
    found = find_advice(page, requests_of([run_s] * 20, [60.0 * MIB] * 20, "warp"))
    return [each for each in found if each.text.startswith("Request less memory")]


def without_failures() -> RunPage:
    page = example_page()
    report = msgspec.structs.replace(page.report, summary=None)
    return msgspec.structs.replace(page, report=report, hosts={}, labels=page.labels[:1])


def test_memory_that_hardly_costs_anything_is_advised_last_with_what_it_would_have_saved() -> None:
    for page in (example_page(), without_failures()):
        (advice,) = advice_on_memory(0.01, page)
        assert advice.why.endswith("This would have saved 0.6 GiB seconds.")
        assert find_advice(page, requests_of([0.01] * 20, [60.0 * MIB] * 20, "warp"))[-1] == advice
    for page in (example_page(), without_failures()):
        (advice,) = advice_on_memory(60.0, page)
        assert "saved" not in advice.why
