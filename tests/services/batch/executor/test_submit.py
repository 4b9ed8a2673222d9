"""What becomes of a batch that is handed over, whatever sbatch answers; and how often one may be."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.waiting import eventually

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import (
    Accepted,
    Batch,
    BatchMember,
    FindResult,
    Limits,
    Rejected,
    Throttled,
    Unsure,
    Urgency,
)
from longshore.contract.service import RunPaths, Unreachable
from longshore.engine.job_wrapper import WRAPPER
from longshore.errors import ConfigError
from longshore.model.event import Ended, Started
from longshore.model.workflow import MIB, Request
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.batch.settings import on_submit_error
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.system.programs import ProgramResult

LIMIT = "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates policy"
CONFIG = "MaxArraySize = 1001\nSLURM_VERSION = 22.05.8\nPriorityParameters = time_origin=2026-01-01 00:00:00 +00:00\n"


class _Shell:
    """Slurm's programs as a test has them: what they were given, and what they answer."""

    def __init__(self) -> None:
        self.given: list[tuple[tuple[str, ...], str]] = []
        self.sbatch: list[ProgramResult] = []
        self.queue = ""
        self.goes_on = threading.Event()
        """Programs hang until it is set."""
        self.goes_on.set()

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        self.given.append((tuple(argv), stdin))
        assert self.goes_on.wait(120)
        if argv[0] == "sbatch":
            return self.sbatch.pop(0)
        out = CONFIG if "config" in argv else self.queue if argv[0] == "squeue" else ""
        return ProgramResult(argv=tuple(argv), status=0, out=out)


def answer(status: int | None, *, out: str = "", err: str = "") -> ProgramResult:
    return ProgramResult(argv=("sbatch",), status=status, out=out, err=err)


class _Site:
    """An executor with a run, whose cluster answers as a test has it."""

    def __init__(self, tmp_path: Path, *, limits: Mapping[str, Any] | None = None, **slurm: Any) -> None:
        self.run = RunPaths(tmp_path / "run")
        (self.run.root / "wms").mkdir(parents=True)
        (self.run.root / BATCH_TEMPLATE).write_text(template_texts(SlurmService)["batch.sh"], "utf-8")
        shutil.copy(shipped_path("bin", "longshore-job"), self.run.root / WRAPPER)
        self.shell = _Shell()
        client = BatchClient(SlurmDialect(slurm), shell=self.shell)
        self.executor = BatchExecutor({"slurm": slurm, "limits": limits or {}}, client)
        self.executor.open(self.run, 1)
        self.executor.probe()

    def submit(self, tag: str, size: int, *answers: ProgramResult, urgency: Urgency | None = None) -> Any:
        self.shell.sbatch += answers
        return self.executor.submit(batch(tag, size, urgency))

    @property
    def scripts(self) -> list[str]:
        return [stdin for argv, stdin in self.shell.given if argv[0] == "sbatch"]


def batch(tag: str, size: int, urgency: Urgency | None = None) -> Batch:
    members = tuple(
        BatchMember(
            job=job,
            attempt=1,
            name=f"j{job}",
            command="true",
            environment={},
            working_directory="/",
            log=f"logs/{job}.log",
        )
        for job in range(size)
    )
    return Batch(id=tag, tag=tag, request=Request(memory_b=50 * MIB), members=members, urgency=urgency)


def test_an_id_is_taken_whatever_stands_around_it(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    assert site.submit("k1-1-1", 3, answer(0, out="Welcome!\n29\n")) == Accepted("29")
    assert "#SBATCH --array=0-2" in site.scripts[0]
    found = site.executor.find(["k1-1-1"])
    assert not isinstance(found, Unreachable)
    assert found.taken == {"k1-1-1": frozenset({(0, 1), (1, 1), (2, 1)})}


def test_the_executor_waits_until_a_record_tells_something(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.submit("k1-1-1", 2, answer(0, out="29\n"))
    site.executor.poll("")
    began = site.run.ends / "k1-1-1" / "0.1.began"
    timer = threading.Timer(0.1, began.touch)
    timer.start()
    since = time.monotonic()
    site.executor.wait(60.0)
    assert 0.1 <= time.monotonic() - since < 30.0
    told = site.executor.poll("")
    assert not isinstance(told, Unreachable)
    assert [(type(event), event.j) for event in told.events] == [(Started, 0)]
    timer.join()
    since = time.monotonic()
    site.executor.wait(0.3)
    assert time.monotonic() - since >= 0.3, "what was told is no news"


def test_a_limit_makes_arrays_smaller_until_they_fit_and_larger_again(tmp_path: Path) -> None:
    site = _Site(tmp_path, limits={"max_batch": 100})
    said = site.submit("a", 100, answer(1, err=LIMIT))
    assert isinstance(said, Throttled)
    assert site.executor.limits.max_batch == 50
    assert isinstance(site.submit("b", 50, answer(1, err=LIMIT)), Throttled)
    assert site.executor.limits.max_batch == 25
    assert site.submit("c", 25, answer(0, out="7")) == Accepted("7")
    assert site.executor.limits.max_batch == 50
    assert site.submit("d", 50, answer(0, out="8")) == Accepted("8")
    assert site.executor.limits.max_batch == 100
    # Nothing is left of those that were not taken.
    assert sorted(path.stem for path in site.run.batches.glob("*.json")) == ["c", "d"]


def test_a_single_job_that_is_not_taken_waits_longer_each_time(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    pauses = [site.submit(f"a{n}", 1, answer(1, err=LIMIT)).retry_after_s for n in range(7)]
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    site.submit("b", 1, answer(0, out="7"))
    assert site.submit("c", 1, answer(1, err=LIMIT)).retry_after_s == 2.0


def test_an_array_is_never_larger_than_the_cluster_takes(tmp_path: Path) -> None:
    assert _Site(tmp_path, limits={"max_batch": 5000}).executor.limits.max_batch == 1000


def test_a_refusal_is_one_of_the_jobs_or_of_the_run(tmp_path: Path) -> None:
    err = "sbatch: error: Batch job submission failed: Invalid partition name specified"
    said = _Site(tmp_path / "a").submit("a", 1, answer(1, err=err))
    assert isinstance(said, Rejected)
    assert (said.for_all, said.hopeless) == (False, True)
    assert "Invalid partition name specified" in said.why
    said = _Site(tmp_path / "b", onSubmitError="run").submit("a", 1, answer(1, err=err))
    assert isinstance(said, Rejected)
    assert said.for_all


DRAINED = "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)"
PLUGIN = "sbatch: error: the site's own plugin is unwell"


def test_a_condition_of_the_centre_spends_nothing_and_slows_down_such_jobs_only(tmp_path: Path) -> None:
    site = _Site(tmp_path, hopelessAfter=0)
    said = [site.submit(f"a{n}", 2, answer(1, err=DRAINED)) for n in range(3)]
    assert [(type(each), each.retry_after_s, each.alike) for each in said] == [
        (Throttled, pause_s, True) for pause_s in (2.0, 4.0, 8.0)
    ]
    assert "Required partition not available" in said[0].why
    # Jobs with other settings are no business of that partition.
    other = msgspec.structs.replace(batch("b", 1), settings={"partition": "short"})
    site.shell.sbatch.append(answer(0, out="7"))
    assert site.executor.submit(other) == Accepted("7")
    assert site.submit("a3", 2, answer(1, err=DRAINED)).retry_after_s == 16.0
    assert site.submit("a4", 2, answer(0, out="8")) == Accepted("8")
    assert site.submit("a5", 2, answer(1, err=DRAINED)).retry_after_s == 2.0
    assert sorted(path.stem for path in site.run.batches.glob("*.json")) == ["a4", "b"]


@pytest.mark.parametrize(("hopeless_after", "tries"), [(0, 0), (100, 6), ("never", 50)])
def test_a_refusal_that_nothing_explains_ends_by_hopeless_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hopeless_after: object, tries: int
) -> None:
    now = [1000.0]
    monkeypatch.setattr("longshore.services.batch.executor.submit.seconds_since_boot", lambda: now[0])
    site = _Site(tmp_path, hopelessAfter=hopeless_after)
    for n in range(tries):
        said = site.submit(f"a{n}", 2, answer(1, err=PLUGIN))
        assert isinstance(said, Throttled)
        assert said.alike
        assert PLUGIN in said.why
        now[0] += said.retry_after_s
    if hopeless_after == "never":
        return
    assert now[0] - 1000.0 == hopeless_after
    for tag in ("b", "c"):
        # Others of the kind do not wait for as long once more.
        said = site.submit(tag, 2, answer(1, err=PLUGIN))
        assert isinstance(said, Rejected)
        assert said.hopeless
        assert f"for {hopeless_after} s ('hopelessAfter'): {PLUGIN}" in said.why


def test_a_known_condition_ends_the_wait_without_an_explanation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("longshore.services.batch.executor.submit.seconds_since_boot", lambda: now[0])
    site = _Site(tmp_path, hopelessAfter=100)
    for tag, err in (("a", PLUGIN), ("b", DRAINED), ("c", PLUGIN)):
        assert isinstance(site.submit(tag, 1, answer(1, err=err)), Throttled)
        now[0] += 99.0


def test_a_cluster_that_is_not_reached_refuses_nothing(tmp_path: Path) -> None:
    err = (
        "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "sbatch: error: fetch_config: DNS SRV lookup failed\n"
        "sbatch: fatal: Could not establish a configuration source"
    )
    site = _Site(tmp_path)
    said = site.submit("a", 2, answer(1, err=err))
    assert isinstance(said, Throttled)
    assert said.why.startswith("the workload manager does not answer: ")
    assert not list(site.run.batches.glob("*.json"))
    assert site.submit("b", 2, answer(0, out="7")) == Accepted("7")


def test_what_a_refusal_ends_is_checked() -> None:
    assert (on_submit_error("slurm", {}), on_submit_error("slurm", {"onSubmitError": "run"})) == ("job", "run")
    with pytest.raises(ConfigError, match="must be 'job' or 'run', not 'all'"):
        on_submit_error("slurm", {"onSubmitError": "all"})


@pytest.mark.parametrize(
    "silence",
    [answer(None), answer(0, out="hm"), answer(1, err="Socket timed out on send/recv operation")],
    ids=["no end", "no id", "timed out"],
)
def test_what_was_not_answered_is_looked_up_and_found(tmp_path: Path, silence: ProgramResult) -> None:
    site = _Site(tmp_path)
    assert isinstance(site.submit("k1-1-1", 2, silence), Unsure)
    unknown = site.executor.find(["k1-1-1"])
    assert isinstance(unknown, Unreachable)
    assert "may still appear" in unknown.why
    # The queue is not asked again at once, for that or anything.
    asked = sum(argv[0] == "squeue" for argv, _ in site.shell.given)
    assert isinstance(site.executor.find(["k1-1-1"]), Unreachable)
    assert sum(argv[0] == "squeue" for argv, _ in site.shell.given) == asked == 1
    assert len(site.scripts) == 1


def test_what_waits_shows_up_when_it_is_looked_up(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.submit("k1-1-1", 2, answer(None))
    site.shell.queue = "29_0|29|PENDING|None|N/A||k1-1-1\n29_1|29|PENDING|None|N/A||k1-1-1\n"
    found = site.executor.find(["k1-1-1", "another"])
    assert not isinstance(found, Unreachable)
    assert found.taken == {"k1-1-1": frozenset({(0, 1), (1, 1)})}


def found(site: _Site, *tags: str) -> FindResult:
    """What is found of batches as soon as it is known."""
    deadline = time.monotonic() + 120
    while isinstance(said := site.executor.find(tags), Unreachable):
        assert time.monotonic() < deadline, said.why
        time.sleep(0.01)
    return said


def test_an_sbatch_that_hangs_keeps_nobody_waiting(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.shell.goes_on.clear()
    said = site.submit("a", 2, answer(0, out="29"))
    assert isinstance(said, Unsure)
    assert "has not answered yet" in said.why
    # Meanwhile nothing else is handed over, and nothing follows from silence.
    assert site.executor.free_submissions() == 0
    assert isinstance(site.submit("b", 1), Throttled)
    assert isinstance(site.executor.find(["a"]), Unreachable)
    site.shell.goes_on.set()
    assert found(site, "a") == FindResult({"a": frozenset({(0, 1), (1, 1)})})
    assert site.executor.free_submissions() is None
    assert len(site.scripts) == 1


def test_what_is_refused_late_is_refused(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    for tag, err, kind in (("a", "Invalid partition name specified", Rejected), ("b", LIMIT, Throttled)):
        site.shell.goes_on.clear()
        assert isinstance(site.submit(tag, 1, answer(1, err=err)), Unsure)
        site.shell.goes_on.set()
        said = found(site, tag)
        assert said.taken == {}
        assert isinstance(said.late[tag], kind)
    assert list(site.run.batches.glob("*.json")) == []


def test_what_hangs_and_is_never_answered_is_looked_up(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.shell.goes_on.clear()
    assert isinstance(site.submit("k1-1-1", 1, answer(None)), Unsure)
    site.shell.queue = "29|29|PENDING|None|N/A||k1-1-1\n"
    site.shell.goes_on.set()
    assert found(site, "k1-1-1") == FindResult({"k1-1-1": frozenset({(0, 1)})})


def test_a_cancellation_that_hangs_keeps_nobody_waiting(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    assert site.submit("a", 2, answer(0, out="29")) == Accepted("29")
    site.shell.goes_on.clear()
    outcome = site.executor.cancel([(0, 1), (1, 1)], grace_s=1.0)
    assert (outcome.ended, len(outcome.alive)) == (0, 1)
    site.shell.goes_on.set()
    # What was asked for first is still under way, or just done.
    site.executor.cancel([(0, 1), (1, 1)], grace_s=1.0)
    site.executor.poll("")
    assert {argv for argv, _ in site.shell.given if argv[0] == "scancel"} == {("scancel", "29")}


def test_a_rate_is_held_by_all_runs_of_a_user(tmp_path: Path) -> None:
    limits = {"submit_per_s": 1 / 3600}
    first, second = _Site(tmp_path / "a", limits=limits), _Site(tmp_path / "b", limits=limits)
    assert (first.executor.free_submissions(), second.executor.free_submissions()) == (1, 1)
    assert first.submit("a", 1, answer(0, out="7")) == Accepted("7")
    assert (first.executor.free_submissions(), second.executor.free_submissions()) == (0, 0)
    said = second.submit("b", 1)
    assert isinstance(said, Throttled)
    assert 0 < said.retry_after_s <= 3600
    assert second.scripts == []
    assert _Site(tmp_path / "c").executor.free_submissions() is None


ORIGIN = 1_767_225_600.0
"""2026-01-01, which the cluster names as its origin."""


def test_urgency_becomes_nice_where_the_site_wants_it(tmp_path: Path) -> None:
    urgent = Urgency(pressure_s=100.0, end_at=ORIGIN + 500.0)
    site = _Site(tmp_path / "a", use_nice=True)
    site.submit("a", 1, answer(0, out="7"), urgency=urgent)
    assert "#SBATCH --nice=400" in site.scripts[0]
    site.executor.reprioritise({"a": Urgency(pressure_s=300.0, end_at=ORIGIN + 500.0), "gone": urgent})
    deadline = time.monotonic() + 120
    while (("scontrol",), "update JobId=7 Nice=200\n") not in site.shell.given:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    plain = _Site(tmp_path / "b")
    plain.submit("a", 1, answer(0, out="7"), urgency=urgent)
    assert "--nice" not in plain.scripts[0]
    asked = len(plain.shell.given)
    plain.executor.reprioritise({"a": urgent})
    assert len(plain.shell.given) == asked


def test_a_nice_value_that_somebody_wrote_holds(tmp_path: Path) -> None:
    urgent = Urgency(pressure_s=100.0, end_at=ORIGIN + 500.0)
    site = _Site(tmp_path, use_nice=True, nice=7)
    site.submit("a", 1, answer(0, out="7"), urgency=urgent)
    assert "#SBATCH --nice=7" in site.scripts[0]
    asked = len(site.shell.given)
    site.executor.reprioritise({"a": urgent})
    assert len(site.shell.given) == asked


def test_how_many_wait_alike(tmp_path: Path) -> None:
    assert _Site(tmp_path / "a").executor.limits == Limits(max_batch=1000, max_waiting_alike=1000)
    own = _Site(tmp_path / "b", limits={"max_waiting": 50}, n_max_queued_jobs=10)
    assert own.executor.limits == Limits(max_batch=1000, max_waiting=50, max_waiting_alike=10)


DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "cut": lambda text: text[:-30],
    "byte": lambda text: text.replace(b'"k1', b'"k\xff'),
    "id": lambda text: text.replace(b'"id":29', b'"id":28'),
    "mark": lambda text: text.replace(b',"c":"', b',"d":"'),
}


def damaged_site(tmp_path: Path, damage: Callable[[bytes], bytes]) -> _Site:
    """An executor with a batch that Slurm took as 29, and whose record was damaged since."""
    site = _Site(tmp_path)
    assert site.submit("k1-1-1", 2, answer(0, out="29\n")) == Accepted("29")
    path = site.run.batches / "k1-1-1.json"
    changed = damage(path.read_bytes())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    return site


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_batch_with_a_damaged_record_is_found_by_the_name_of_its_job(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    site = damaged_site(tmp_path, damage)
    site.shell.queue = "29_0|40|RUNNING|None|N/A|n1|k1-1-1\n29_1|40|PENDING|None|N/A||k1-1-1\n"
    found = eventually(lambda: answered(site.executor.find(["k1-1-1"])))
    assert found.taken == {"k1-1-1": frozenset({(0, 1), (1, 1)})}
    assert not found.lost
    assert b'"id":29' in (site.run.batches / "k1-1-1.json").read_bytes(), "it is recorded again"


def answered(found: FindResult | Unreachable) -> FindResult | None:
    return None if isinstance(found, Unreachable) else found


def test_a_batch_that_slurm_forgot_and_whose_record_is_damaged_is_never_taken_for_one_that_did_not_run(
    tmp_path: Path,
) -> None:
    site = damaged_site(tmp_path, DAMAGES["id"])
    os.utime(site.run.batches / "k1-1-1.tsv", (1000, 1000))
    (site.run.ends / "k1-1-1" / "0.1").write_text('{"j":0,"a":1,"status":0,"run":2.5,"host":"n1"}\n', "utf-8")
    found = eventually(lambda: answered(site.executor.find(["k1-1-1"])))
    assert found.lost == {"k1-1-1"}
    assert found.taken == {"k1-1-1": frozenset({(0, 1), (1, 1)})}
    answered_poll = site.executor.poll("")
    assert not isinstance(answered_poll, Unreachable)
    assert [event.j for event in answered_poll.events if isinstance(event, Ended)] == [0]


def test_a_batch_without_record_and_table_is_lost(tmp_path: Path) -> None:
    site = damaged_site(tmp_path, DAMAGES["cut"])
    (site.run.batches / "k1-1-1.tsv").write_bytes(b"\xff")
    found = eventually(lambda: answered(site.executor.find(["k1-1-1"])))
    assert (found.taken, found.lost) == ({"k1-1-1": frozenset()}, {"k1-1-1"})
    site.shell.queue = "29_0|40|RUNNING|None|N/A|n1|k1-1-1\n"
    assert eventually(lambda: "is damaged" in getattr(site.executor.find(["k1-1-1"]), "why", ""))
