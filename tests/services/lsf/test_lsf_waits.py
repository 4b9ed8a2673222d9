"""Jobs that wait too long on LSF's stand-ins, or for what never comes."""

from __future__ import annotations

from tests.live.runs import many, until
from tests.services.lsf.lsf_site import LsfSite

NEVER = "Load information unavailable: 2 hosts; Host or host group is not used by the queue: 3 hosts;"


def test_what_can_never_start_is_told_with_its_mend_and_fails(lsf_site: LsfSite) -> None:
    (lsf_site.conf / "pending").write_text(NEVER, "utf-8")
    lsf_site.describe(lsf="hopelessAfter: 5\nhosts: gone")
    run = lsf_site.begin("runQuantumCommand: 'true'\nnumberOfRetries: 3\n", many(2))
    words = ("Host or host group is not used by the queue", "change 'lsf.hosts'")
    until(lambda: any(all(word in note for word in words) for note in lsf_site.report(run)["notes"]), "it is told")
    assert lsf_site.ended(run)["state"] == "FAILED"
    (attempt,) = lsf_site.attempts(run, "t0")
    assert attempt["cause"] == "SUBMIT"
    assert lsf_site.tasks(run) == []


def test_a_wait_beyond_maxpendtime_is_cancelled_and_tried_again(lsf_site: LsfSite) -> None:
    (lsf_site.conf / "pending").write_text("Load threshold reached: 2 hosts;", "utf-8")
    lsf_site.describe(lsf="maxpendtime: 2")
    run = lsf_site.begin("runQuantumCommand: 'true'\nnumberOfRetries: 1\n", many(3))
    assert lsf_site.ended(run)["state"] == "FAILED"
    attempts = lsf_site.attempts(run, "t1")
    assert [each["cause"] for each in attempts] == ["PEND_TIMEOUT", "PEND_TIMEOUT"]
    assert lsf_site.tasks(run) == []
