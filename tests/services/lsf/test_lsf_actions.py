"""Cancel, hold, kill by a person, and restart of runs on LSF's stand-ins."""

from __future__ import annotations

import pytest
from tests.live.runs import many, until
from tests.services.lsf.lsf_site import LsfSite

LONG = "runQuantumCommand: sleep 300\nnumberOfRetries: 0\n"


def running(site: LsfSite) -> list[str]:
    """Return the ids of elements that run."""
    return [name for name, element in site.elements().items() if element["stat"] == "RUN"]


def test_cancel_leaves_no_job_in_the_queue(lsf_site: LsfSite) -> None:
    run = lsf_site.begin(LONG, many(10))
    until(lambda: len(running(lsf_site)) == 8, "LSF has started as many as it has slots")
    assert lsf_site.cli("cancel", run, "--json").returncode == 0
    assert lsf_site.ended(run)["state"] == "DELETED"
    assert {each["stat"] for each in lsf_site.elements().values()} == {"EXIT"}
    assert lsf_site.counts(run) == {"DELETED": 10}


def test_a_job_on_hold_is_not_given_to_lsf_until_it_is_released(lsf_site: LsfSite) -> None:
    go = lsf_site.folder / "go"
    text = f"numberOfRetries: 0\nrunQuantumCommand: 'until test -e {go}; do sleep 0.1; done'\n"
    run = lsf_site.begin(text, {"a": ("A", []), "b": ("B", ["a"])})
    until(lambda: running(lsf_site), "the first job runs")
    assert lsf_site.cli("hold", run, "b").returncode == 0
    go.touch()
    until(lambda: lsf_site.counts(run) == {"SUCCEEDED": 1, "HELD": 1}, "the second job is on hold")
    assert len(lsf_site.elements()) == 1
    assert lsf_site.cli("release", run, "b").returncode == 0
    assert lsf_site.ended(run)["state"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "LSF says TERM_OWNER: job killed by owner"),
        ("admin", "LSF says TERM_ADMIN: job killed by root or LSF administrator"),
    ],
)
def test_a_job_that_a_person_kills_is_deleted_and_says_who(lsf_site: LsfSite, words: str, said: str) -> None:
    run = lsf_site.begin(LONG.replace("0\n", "3\n"), {"a": ("A", []), "b": ("B", ["a"])})
    (job,) = until(lambda: running(lsf_site), "the job runs")
    lsf_site.order("bkill", job, stand_in=words)
    report = lsf_site.ended(run)
    assert lsf_site.counts(run) == {"DELETED": 1, "PRUNED": 1}
    assert report["removals"]["newest"] == [{"name": "a", "label": "A", "reason": said}]


def test_a_waiting_job_that_a_person_stops_is_held_until_it_is_resumed(lsf_site: LsfSite) -> None:
    go = lsf_site.folder / "go"
    text = f"numberOfRetries: 0\nrunQuantumCommand: 'until test -e {go}; do sleep 0.1; done'\n"
    run = lsf_site.begin(text, many(9))
    until(lambda: len(running(lsf_site)) == 8, "one has no slot")
    (waiting,) = [name for name, element in lsf_site.elements().items() if element["stat"] == "PEND"]
    lsf_site.order("bstop", waiting)
    until(lambda: lsf_site.counts(run).get("HELD") == 1, "it is held")
    until(lambda: any("bresume" in note for note in lsf_site.report(run)["notes"]), "the report says how it goes on")
    go.touch()
    until(lambda: lsf_site.counts(run) == {"SUCCEEDED": 8, "HELD": 1}, "the others end")
    lsf_site.order("bresume", waiting)
    assert lsf_site.ended(run)["state"] == "SUCCEEDED"


def test_restart_runs_what_failed_again_in_lsf(lsf_site: LsfSite) -> None:
    flag = lsf_site.folder / "flag"
    text = f"numberOfRetries: 0\nrunQuantumCommand: test -e {flag}\n"
    ran = lsf_site.submit(text, {"a": ("A", []), "b": ("B", ["a"])})
    run = ran.json["submit_dir"]
    assert lsf_site.counts(run) == {"FAILED": 1, "PRUNED": 1}
    flag.touch()
    assert lsf_site.cli("restart", run, "--wait").returncode == 0
    assert lsf_site.counts(run) == {"SUCCEEDED": 2}
    assert [each["stat"] for each in lsf_site.elements().values()] == ["EXIT", "DONE", "DONE"]
