"""The probe before a run is bounded in time, shared for a minute if it is good, and refuses what is not taken."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from longshore.contract.capabilities import JobProbe
from longshore.contract.service import Context, Inventory, PingReport, Problem, RunPaths, ServiceTraits, Site
from longshore.errors import RequestError, UnreachableError
from longshore.model.workflow import Job
from longshore.plan.probe import probe, probe_jobs, refuse_by_probe
from longshore.services.local.service import LocalService


class Far(LocalService):
    """A service on other machines, whose answers a test gives."""

    name: ClassVar[str] = "far"
    traits: ClassVar[ServiceTraits] = ServiceTraits()

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def ping(self, ctx: Context) -> PingReport:
        """Answer as given."""
        self.may_answer.wait(60)
        self.asked += 1
        is_good = self.answers.pop(0)
        return PingReport(
            service="far", ok=is_good, message="yes" if is_good else "no partition 'x'", capacity={"cpus": 4}
        )


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder for this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def context(**site: str) -> Context:
    return Context(settings={}, site=Site(name="s", settings=site), paths=RunPaths(Path("/run")), templates={})


def test_a_good_answer_is_shared() -> None:
    service = Far(True)
    first = probe(service, context())
    assert first is not None
    assert first.capacity == {"cpus": 4}
    assert probe(service, context()) == first
    assert service.asked == 1
    refuse_by_probe(first)


def test_another_site_or_cluster_is_asked_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Far(True, True, True)
    probe(service, context())
    probe(service, context(queue="long"))
    monkeypatch.setenv("SLURM_CONF", "/elsewhere/slurm.conf")
    probe(service, context())
    assert service.asked == 3


def test_terminals_of_a_user_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Far(True)
    for number, name in enumerate(("SSH_TTY", "SHLVL", "TERM", "OLDPWD", "TMUX_PANE")):
        monkeypatch.setenv(name, str(number))
        assert probe(service, context())
    assert service.asked == 1


def test_a_bad_answer_refuses_the_run_and_is_not_shared() -> None:
    service = Far(False, True)
    bad = probe(service, context())
    with pytest.raises(UnreachableError, match="'far' does not take this run: no partition 'x'"):
        refuse_by_probe(bad)
    good = probe(service, context())
    assert good is not None
    assert good.ok


def test_no_answer_in_time_refuses_nothing() -> None:
    service = Far(True)
    service.may_answer.clear()
    found = probe(service, context(), limit_s=0.05)
    service.may_answer.set()
    assert found is None
    refuse_by_probe(found)


def test_a_problem_of_some_jobs_refuses_no_run() -> None:
    report = PingReport(
        service="far", ok=True, message="no", inventory=Inventory(), problems=(Problem(message="no", fatal=False),)
    )
    refuse_by_probe(report)
    with pytest.raises(RequestError):
        refuse_by_probe(msgspec.structs.replace(report, problems=(Problem(message="no"),)))


class Judging(Far, JobProbe):
    """A service that judges jobs as a test says."""

    found: tuple[Problem, ...] = ()

    def probe_jobs(self, jobs: Iterable[Job], ctx: Context) -> tuple[Problem, ...]:
        """Return what the test found, when it may be found."""
        self.may_answer.wait(60)
        return self.found


def test_an_answer_by_which_a_job_is_refused_is_asked_for_again() -> None:
    service = Judging(True, True)
    found = context()
    for answers in (1, 2):
        report = probe(service, found)
        assert service.asked == answers
        assert probe(service, found) == report
        service.found = (Problem(message="no partition"),)
        assert probe_jobs(service, (), msgspec.structs.replace(found, probe=report)) == [*service.found]


def test_jobs_are_judged_in_time_or_not_at_all() -> None:
    service = Judging(True)
    asked = msgspec.structs.replace(context(), probe=probe(service, context()))
    service.found = (Problem(message="no partition", fatal=False),)
    assert probe_jobs(service, (), asked) == [*service.found]
    assert probe_jobs(service, (), context()) == [], "nothing was answered on the site"
    assert probe_jobs(Far(), (), asked) == []
    service.may_answer.clear()
    assert probe_jobs(service, (), asked, limit_s=0.05) == []
    service.may_answer.set()


def test_this_machine_is_always_asked() -> None:
    service = LocalService()
    found = probe(service, context())
    assert found is not None
    assert found == service.ping(context())
