"""Commands of LSF's stand-ins that fail, lose their answer or do nothing: no job runs twice, and none is left."""

from __future__ import annotations

import time

import pytest
from tests.live.runs import many, until
from tests.services.lsf.lsf_site import LsfSite

NOTE = "runQuantumCommand: echo {jobName} >> ${PWD}/notes\nnumberOfRetries: 0\n"


def notes(site: LsfSite) -> list[str]:
    """Return the jobs that ran, each as often as it did."""
    return sorted((site.folder / "notes").read_text("utf-8").split())


@pytest.mark.parametrize(("fault", "calls"), [("lost", 2), ("full", 2), ("half", 60), ("down", 4)])
def test_each_job_runs_once_whatever_commands_fail(lsf_site: LsfSite, fault: str, calls: int) -> None:
    lsf_site.fault(fault, calls)
    run = lsf_site.begin(NOTE, {**many(3), "b": ("B", ["t0", "t1"])})
    report = lsf_site.ended(run)
    assert (report["state"], lsf_site.counts(run)) == ("SUCCEEDED", {"SUCCEEDED": 4})
    assert notes(lsf_site) == ["b", "t0", "t1", "t2"]
    assert len(lsf_site.elements()) == 4, "nothing was submitted twice"
    assert [len(lsf_site.attempts(run, name)) for name in ("t0", "b")] == [1, 1]
    assert lsf_site.faults_left(fault) < calls


@pytest.mark.full
def test_a_bkill_without_effect_is_repeated_until_the_jobs_are_gone(lsf_site: LsfSite) -> None:
    # A command that fails is repeated at once; this one says that it did its work, and the queue says that it did not.
    run = lsf_site.begin("runQuantumCommand: sleep 300\n", many(3))
    until(lambda: lsf_site.counts(run) == {"RUNNING": 3}, "all run")
    lsf_site.fault("deaf", 1)
    assert lsf_site.cli("cancel", run).returncode == 0
    assert lsf_site.faults_left("deaf") == 0
    assert lsf_site.ended(run)["state"] == "DELETED"
    assert lsf_site.tasks(run) == []


def test_runs_of_a_user_share_one_question_an_interval(lsf_site: LsfSite) -> None:
    lsf_site.describe(poll="pollInterval: 2")
    began = time.monotonic()
    runs = [lsf_site.begin("runQuantumCommand: sleep 8\n", many(2), name=name) for name in ("one", "two", "three")]
    before = len([call for call in lsf_site.calls("bjobs") if " -u " in call])
    for run in runs:
        assert lsf_site.ended(run)["state"] == "SUCCEEDED"
    asked = len([call for call in lsf_site.calls("bjobs") if " -u " in call])
    assert asked >= before
    # A burst of five goes beyond one question each interval; three runs by themselves would ask three times as often.
    assert asked <= (time.monotonic() - began) / 2 + 5


@pytest.mark.parametrize("words", ["old hour=60", "forgets hour=60"])
def test_the_memory_limit_is_known_without_json_and_from_the_history(
    lsf_site: LsfSite, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("STAND_IN_WORDS", words)
    hog = "python3 -c 'import time; x = bytearray(120 << 20); time.sleep(60)'"
    ran = lsf_site.submit(f'numberOfRetries: 0\nrunQuantumCommand: "{hog}"\n')
    (attempt,) = lsf_site.attempts(ran.json["submit_dir"], "a")
    assert attempt["cause"] == "OOM", attempt
    # The check of the cluster before the submission asks for job 1.
    asked = [call for call in lsf_site.calls("bhist") if not call.endswith(" 1")]
    assert bool(asked) == ("forgets" in words)
