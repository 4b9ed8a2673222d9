"""What a cluster says of itself becomes what is wrong with what a site names; silence condemns nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import pytest
from tests.services.slurm.recorded import ANSWERS, CONFIG, LICENCES, NODES, PARTITIONS

from longshore.contract.service import Context, PingReport, Problem, RunPaths, Site
from longshore.model.workflow import MIB, Job, JobSettings, Request
from longshore.services.batch.client import BatchClient
from longshore.services.batch.ping import PING_LIMIT_S, ping
from longshore.services.slurm.cluster import (
    parse_associations,
    parse_licences,
    parse_nodes,
    parse_offers,
    parse_partitions,
    parse_qos,
)
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.system.programs import ProgramResult


class Replies:
    """A shell in which Slurm's programs say what they are told to, each after a time."""

    def __init__(self, answers: Mapping[str, str | None], seconds: float = 0.0) -> None:
        self.answers = answers
        self.seconds = seconds
        self.now = 0.0
        self._lock = Lock()
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        words = tuple(argv)
        self.asked.append(words)
        took = min(self.seconds, timeout_s)
        with self._lock:
            self.now += took
        found = next((self.answers[key] for key in self.answers if " ".join(words).startswith(key)), None)
        if self.seconds > timeout_s:
            return ProgramResult(argv=words, status=None, seconds=took)
        return (
            ProgramResult(argv=words, status=1, err="no such thing")
            if found is None
            else ProgramResult(argv=words, status=0, out=found)
        )


class Missing(Replies):
    """A shell without one of the programs."""

    def __init__(self, answers: Mapping[str, str | None], program: str) -> None:
        super().__init__(answers)
        self.program = program

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        if argv[0] == self.program:
            return ProgramResult(argv=tuple(argv), status=127, err=f"{self.program}: not found")
        return super().run(argv, env=env, timeout_s=timeout_s, stdin=stdin)


def judged(settings: Mapping[str, Any], **answers: str | None) -> list[Problem]:
    """What is found against a job that has no settings but a site's."""
    plain = JobSettings(label="a", request=Request(), attributes={}, service_settings={})
    if queue := settings.get("queue"):
        plain = msgspec.structs.replace(plain, attributes={"queue": queue})
    context = Context(
        settings={"executor": settings},
        site=Site(name="s", settings=settings),
        paths=RunPaths(Path("/run")),
        templates={},
        probe=asked(settings, None, **answers),
    )
    return SlurmService().probe_jobs([Job(name="a", label="a", command="true", settings=plain)], context)


def asked(settings: Mapping[str, Any] | None = None, shell: Replies | None = None, **answers: str | None) -> PingReport:
    shell = shell or Replies({**ANSWERS, **answers})
    client = BatchClient(SlurmDialect((settings or {}).get("slurm") or {}), shell=shell)
    return ping(client, settings or {}, clock=lambda: shell.now)


def test_all_is_well() -> None:
    report = asked({"account": "test", "qos": "high", "slurm": {"partition": "main"}})
    assert (report.ok, report.message) == (True, "the controller answers")
    assert report.details == {
        "version": "22.05.8",
        "cluster": "testclu",
        "partitions": "main (default): up, 4 nodes, any time; short: drain, 1 node, at most 00:10:00",
        "accounts": "root, test",
        "qos": "high, low, normal",
        "limits": "arrays of 10000; 50,000 jobs of all users; "
        "account 'test': at most 10 running, 200 submitted, 1-00:00:00 long; "
        "QOS 'high': at most 50 running, 100 submitted",
        "records": "left by each job in the run directory, which its nodes must see",
        "squeue": "works",
        "sacct": "works",
        "scontrol": "remembers jobs that are over for 300 s",
    }
    assert report.capacity == {"cpus": 64, "memory": 250000 * MIB}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slurm": {"partition": "gone"}}, "there is no partition 'gone'"),
        ({"queue": "short"}, "the partition 'short' is drain"),
        (
            {"account": "root", "queue": "short"},
            "the partition 'short' does not take the account 'root'",
        ),
        ({"partitions": [{"name": "short", "qos": "high"}]}, "the partition 'short' does not take the QOS 'high'"),
        ({"account": "nobody"}, "this user may not charge the account 'nobody'"),
        ({"qos": "nope"}, "there is no QOS 'nope'"),
        ({"qos": "high", "account": "root"}, "this user may not use the QOS 'high'"),
    ],
)
def test_what_is_wrong_is_named(settings: Mapping[str, Any], message: str) -> None:
    assert message in "; ".join(each.message for each in judged(settings))


@pytest.mark.parametrize(
    "settings",
    [{"account": "TEST"}, {"qos": "HIGH"}, {"slurm": {"partition": "main", "features": "fast", "reserv": "r1"}}, {}],
)
def test_what_the_cluster_has_is_not_judged(settings: Mapping[str, Any]) -> None:
    assert judged(settings) == []


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"features": "a100"}, "there is no feature 'a100'"),
        ({"gres": "tape:1"}, "there is no resource 'tape'"),
        ({"diskGres": "tmpspace"}, "there is no resource 'tmpspace'"),
        ({"nodes": "n[1-2],n9"}, "there is no node 'n9'"),
        ({"excludes": "n9"}, "there is no node 'n9'"),
        ({"reservation": "r2"}, "there is no reservation 'r2'"),
        ({"licence": "lic_c"}, "there is no licence 'lic_c'"),
        ({"sbatch": ["--reservation=r2"]}, "there is no reservation 'r2'"),
        ({"sbatch": ["-x n9"]}, "there is no node 'n9'"),
    ],
)
def test_a_name_that_the_cluster_does_not_have(own: Mapping[str, Any], message: str) -> None:
    (problem,) = judged({"slurm": own})
    assert (problem.message, problem.fatal, problem.code) == (f"job 'a': {message}", True, "request")


def test_without_a_default_partition_a_job_names_one() -> None:
    no_default = {"scontrol --oneliner show partition": PARTITIONS.replace("Default=YES", "Default=NO")}
    (problem,) = judged({}, **no_default)
    assert problem.message == "job 'a': the cluster has no default partition, and the job names none"
    assert judged({"queue": "main"}, **no_default) == []
    assert judged({"partitions": [{"name": "main"}]}, **no_default) == []


def test_a_controller_that_does_not_answer() -> None:
    report = asked(**{"scontrol show config": None, "squeue": None})
    assert (report.ok, report.message) == (False, "the controller does not answer: no such thing")


def test_without_scontrol_a_run_can_be_submitted() -> None:
    report = asked(**{key: None for key in ANSWERS if key.startswith("scontrol")})
    assert report.ok
    assert report.details["scontrol"].startswith("does not work (no such thing): the end of a job without a record")
    assert report.details["accounts"] == "root, test"
    assert report.details["partitions"] == "unknown: no such thing"


def test_programs_that_are_not_here() -> None:
    report = asked(shell=Missing(ANSWERS, "sbatch"))
    assert (report.ok, report.message) == (False, "its programs are not on this host: sbatch: not found")


def test_a_configuration_that_is_not_there_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Replies(ANSWERS)
    report = asked({"slurm": {"config": str(tmp_path / "slurm.conf")}}, shell)
    assert (report.ok, shell.asked) == (False, [])
    assert report.message == f"'slurm.config' is '{tmp_path}/slurm.conf', which is not there"
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "other"))
    assert asked().message == f"'SLURM_CONF' is '{tmp_path}/other', which is not there"


def test_what_is_lost_without_a_source_is_said() -> None:
    report = asked(squeue=None, sacct=None)
    assert report.ok
    assert report.details["squeue"].startswith("does not work (no such thing): the state of waiting jobs is unknown")
    assert report.details["sacct"].startswith("does not work (no such thing): peak memory")


def test_without_accounting_nothing_is_asked_of_it() -> None:
    shell = Replies({**ANSWERS, "scontrol show config": CONFIG.replace("slurmdbd", "none")})
    report = asked({"account": "a", "qos": "q"}, shell)
    assert report.ok
    assert report.details["accounts"] == "this cluster keeps none; account 'a' and QOS 'q' cannot be checked"
    assert report.details["sacct"].startswith("does not work (this cluster keeps no accounts): peak memory")
    assert "qos" not in report.details
    assert not any(words[0] in {"sacct", "sacctmgr"} for words in shell.asked)


def test_answers_that_are_not_given_condemn_nothing() -> None:
    unknown: dict[str, str | None] = {
        "sacctmgr --noheader --parsable2 show associations": None,
        "scontrol --oneliner show partition": None,
        "sbatch --version": None,
        "sinfo --noheader --all": None,
    }
    settings = {"account": "nobody", "qos": "high", "queue": "gone"}
    report = asked(settings, None, **unknown)
    assert judged(settings, **unknown) == []
    assert report.ok
    assert report.details["partitions"] == "unknown: no such thing"
    assert report.details["accounts"] == "unknown: no such thing"
    assert report.details["version"] == "22.05.8, of the programs here unknown: no such thing"
    assert report.capacity is None


def test_it_is_bounded_in_time_and_submits_nothing() -> None:
    slow = Replies(ANSWERS, seconds=8.0)
    report = asked(shell=slow)
    # Four are asked at once, and each moves this clock: the last one comes after the time limit.
    assert report.details["squeue"].startswith(f"does not work (not asked: {PING_LIMIT_S:.0f} s are over)")
    assert len(slow.asked) < len(ANSWERS)
    stuck = Replies(ANSWERS, seconds=1000.0)
    assert not asked(shell=stuck).ok
    assert len(stuck.asked) == 1
    quick = Replies(ANSWERS)
    asked(shell=quick)
    assert {words[0] for words in quick.asked} <= {"scontrol", "sbatch", "sacctmgr", "squeue", "sacct", "sinfo"}
    assert [words for words in quick.asked if words[0] == "sbatch"] == [("sbatch", "--version")]


def test_a_cluster_is_named_where_there_are_several() -> None:
    shell = Replies({**ANSWERS, "scontrol --clusters=c show config": CONFIG, "scontrol --clusters=c": PARTITIONS})
    asked({"slurm": {"clusters": "c"}}, shell)
    of_cluster = {words[0] for words in shell.asked if "--clusters=c" in words}
    assert of_cluster == {"scontrol", "squeue", "sacct", "sinfo"}


def test_lines_that_are_none_are_passed_over() -> None:
    assert parse_partitions("nothing here\n\n") == {}
    assert parse_associations("a|b\n") == []
    assert parse_qos("\n") == {}
    assert parse_offers("no nodes\n\n") == {}


def test_what_nodes_keep_for_themselves_is_for_no_job() -> None:
    nodes = (
        "NodeName=n1 CPUEfctv=4 CPUTot=4 RealMemory=4000 MemSpecLimit=1500 State=IDLE\n"
        "NodeName=n2 CPUEfctv=4 CPUTot=4 RealMemory=4000 State=IDLE\n"
        "NodeName=n3 CPUEfctv=62 CPUTot=64 CoreSpecCount=2 RealMemory=250000 State=IDLE\n"
    )
    shell = Replies({**ANSWERS, "scontrol --oneliner show node": nodes})
    report = asked(shell=shell)
    assert report.inventory is not None
    sizes = [(each.partition, each.names, each.cpus, each.memory_b) for each in report.inventory.nodes or ()]
    assert sizes == [
        ("main", ("n1",), 4, 2500 * MIB),
        ("main", ("n2",), 4, 4000 * MIB),
        ("main", ("n3",), 62, 250000 * MIB),
        ("main", ("n4",), 64, 250000 * MIB),
        # Its node keeps nothing.
        ("short", ("n4",), 4, 4000 * MIB),
    ]
    assert report.capacity == {"cpus": 64, "memory": 250000 * MIB}


def test_what_a_cluster_has_is_taken_down() -> None:
    found = asked({}).inventory
    assert found is not None
    assert found.partitions is not None
    assert [each.walltime_s for each in found.partitions] == [None, 600.0]
    assert found.nodes == parse_nodes(NODES)
    assert [(each.partition, each.count, each.names) for each in parse_nodes(NODES)] == [
        ("main", 2, ("n[1-2]",)),
        ("main", 2, ("n[3-4]",)),
        ("short", 1, ("n4",)),
    ]
    assert parse_nodes(NODES)[0].resources == {"gpus": 2, "craynetwork": 4}
    assert parse_nodes(NODES)[0].features == {"gpunode", "fast"}
    assert parse_nodes(NODES)[1].disk_b == 1000 * MIB
    assert found.licences == parse_licences(LICENCES) == {"lic_a": 3, "lic_b": 1}
    assert parse_licences("No licenses configured in Slurm.\n") == {}
    assert not found.is_enforced


@pytest.mark.parametrize(("enforced", "limit"), [("associations,limits,qos", 86400.0), ("associations", None)])
def test_limits_of_accounts_count_where_they_are_enforced(enforced: str, limit: float | None) -> None:
    config = f"{CONFIG}AccountingStorageEnforce = {enforced}\n"
    found = asked({}, Replies({**ANSWERS, "scontrol show config": config})).inventory
    assert found is not None
    assert found.is_enforced
    assert found.accounts is not None
    assert found.accounts[0].walltime_s == limit
    assert found.qos is not None
    assert found.qos[2].overrides == {"walltime"}
