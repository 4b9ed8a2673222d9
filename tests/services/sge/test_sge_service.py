"""What cannot become a job of Grid Engine is said before anything is written, with the way out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Batch
from longshore.contract.service import Context, Inventory, Problem, RunPaths, Site
from longshore.errors import ConfigError, OptionHelpRequest
from longshore.model.tasks import Dag
from longshore.model.workflow import MIB, Allocation, Job, JobSettings, Request, Workflow
from longshore.services.batch.answers import SubmitOutcome
from longshore.services.batch.dialect import HostOffer, ProgramCall
from longshore.services.batch.ping import describe_partitions
from longshore.services.batch.records import BatchRecord
from longshore.services.batch.script_writer import job_spec
from longshore.services.sge.cluster import (
    PER_JOB,
    PER_SLOT,
    counted_names,
    listed_names,
    parse_hosts,
    parse_limits,
    parse_offers,
    parse_queues,
    resource_names,
)
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.service import SgeService, find_wrong_share, fitting_environments, memory_keys
from longshore.sites.profile import executor_settings
from longshore.sites.requests import find_unmet_requests
from longshore.system.programs import ProgramResult

GIB = 1024**3
ACCESS = {"bin": "/opt/sge/bin", "root": "/opt/sge"}


def problems(own: Mapping[str, Any], *, site: Mapping[str, Any] | None = None, **more: Any) -> list[Problem]:
    settings = {**(site or {}), "sge": {**ACCESS, **own}}
    ctx = Context(
        settings={"executor": executor_settings("sge", settings)},
        site=Site(name="here", settings=settings),
        paths=RunPaths(Path("/data/run")),
        templates=template_texts(SgeService)
        | {"longshore-job": shipped_path("bin", "longshore-job").read_text("utf-8")},
    )
    job = Job(name="job_1", label="a", command="true", settings=JobSettings(label="a", **more))
    return SgeService().check(Workflow("w", Dag.by_name([job]), attributes={}), ctx)


def test_valid_settings_have_no_problems() -> None:
    own = {"hard": "-q a.q", "engineAs": "job", "engineJob": {"time": "1:00:00"}, "mem_resource": "h_vmem"}
    assert problems(own, request=Request(memory_b=MIB), service_settings={"priority": -3, "container": "env"}) == []


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"memory": "h_vmem"}, "'sge' has no key 'memory'"),
        ({"memoryPer": "node"}, "'sge.memoryPer' must be"),
        ({"default_prio": -5000}, "'sge.default_prio' must be"),
        ({"pollInterval": "soon"}, "sge.pollInterval"),
        ({"engineAs": "job", "engineJob": {"hard": "x"}}, "'x' is no option"),
    ],
)
def test_what_is_wrong_with_a_site_is_said(own: dict[str, Any], said: str) -> None:
    (problem,) = problems(own)
    assert problem.fatal
    assert said in problem.message


@pytest.mark.parametrize(
    ("own", "folder", "root", "said"),
    [
        ({"bin": None, "root": None}, "programs", "/opt/sge", ""),
        ({"bin": None, "root": None}, "wrappers", "", ""),
        ({"bin": None}, "none", "/opt/sge", "'sge.bin' is missing, and no folder of PATH has 'qsub'"),
        ({"root": ""}, "none", "", "'sge.root' is missing, and so is the variable SGE_ROOT"),
        ({"bin": None, "root": None}, "programs", "", "'sge.root' is missing, and so is the variable SGE_ROOT"),
        ({}, "none", "", ""),
    ],
)
def test_programs_and_cluster_come_from_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: dict[str, Any], folder: str, root: str, said: str
) -> None:
    for name, text in {"programs": b"\x7fELF", "wrappers": b"#!/bin/sh\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "qsub").write_bytes(text)
        (tmp_path / name / "qsub").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / folder))
    monkeypatch.setenv("SGE_ROOT", root)
    assert [each.message for each in problems(own)] == ([said] if said else [])
    # Both ways are named; and lines that set up submissions may find what is missing now.
    assert all("to the site, or" in each.hint for each in problems(own))
    assert not problems(own, site={"setup": {"submit": ["module load sge"]}})


def test_ping_says_where_it_looked_for_the_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def message(own: dict[str, Any]) -> str:
        ctx = Context(
            settings={"executor": {"sge": own}}, site=Site(name="here"), paths=RunPaths(tmp_path), templates={}
        )
        return SgeService().ping(ctx).message

    assert message({}) == (
        "'sge.bin' is missing, and no folder of PATH has 'qsub': add 'sge: {bin: FOLDER}' to the site, or the folder "
        "of qsub to PATH"
    )
    assert message({"bin": "/nowhere"}).endswith(
        "'sge.bin' is '/nowhere': correct it, or leave it out where PATH has the folder of qsub"
    )


COMPLEXES = """\
#name               shortcut   type      relop requestable consumable default  urgency
#--------------------------------------------------------------------------------------
h_vmem              h_vmem     MEMORY    <=    YES         {h_vmem}   0        0
mem_free            mf         MEMORY    <=    {mem_free}  0        0
scratch             scr        MEMORY    <=    FORCED      YES        0        0
slots               s          INT       <=    YES         YES        1        1000
"""


@pytest.mark.parametrize(
    ("h_vmem", "mem_free", "expected"),
    [
        ("NO", "YES NO", ["h_vmem"]),
        ("NO", "YES YES", ["mem_free", "h_vmem"]),
        ("YES", "YES YES", ["h_vmem", "mem_free"]),
        ("JOB", "YES NO", ["h_vmem per job"]),
        ("YES", "FORCED YES", ["mem_free", "h_vmem"]),
    ],
)
def test_the_resource_for_memory_of_a_new_profile(h_vmem: str, mem_free: str, expected: list[str]) -> None:
    found = memory_keys(COMPLEXES.format(h_vmem=h_vmem, mem_free=mem_free))
    assert [" per ".join(keys.values()) for keys in found] == expected
    assert not [*memory_keys("")]


def test_the_parallel_environment_of_a_new_profile() -> None:
    rules = [
        f"pe_name            {name}\nslots              99\nallocation_rule    {rule}\n"
        for name, rule in (("make", "$round_robin"), ("mpi", "16"), ("omp", "$pe_slots"), ("smp", "$pe_slots"))
    ]
    queues = "qname  a.q\npe_list  make omp,[fast=smp]\n\nqname  b.q\npe_list  smp make\n"
    assert fitting_environments(rules, queues) == ["smp", "omp"]
    assert fitting_environments(rules[:2], queues) == []
    # Without a queue that has it, no job could use it.
    assert fitting_environments(rules, "qname  a.q\npe_list  make\n") == []


def test_jobs_of_another_cluster_are_refused() -> None:
    (problem,) = problems({}, service_settings={"root": "/other"})
    assert problem.message.endswith(
        "'sge.root' is '/other', and that of the run's site '/opt/sge': a run has one cluster"
    )


def test_amounts_without_a_name_on_the_cluster_are_noted() -> None:
    found = problems({}, request=Request(cpus=2, memory_b=MIB, disk_b=MIB))
    assert [(problem.key, problem.fatal) for problem in found] == [
        ("requestCpus", False),
        ("requestMemory", False),
        ("requestDisk", False),
    ]


def test_a_job_that_no_queue_of_the_site_holds_is_refused() -> None:
    site = {"partitions": [{"name": "short.q", "walltime": 600}, {"name": "long.q", "walltime": 7200}]}
    assert problems({}, site=site, request=Request(walltime_s=3600)) == []
    (problem,) = problems({}, site=site, request=Request(walltime_s=9000))
    assert "the nearest, 'long.q', lacks walltime" in problem.message


def test_the_option_of_the_back_end_is_a_priority() -> None:
    service = SgeService()
    assert service.backend_options(" -20 ") == {"sge": {"priority": -20}}
    with pytest.raises(ConfigError, match="must be a priority, not '-p 3'"):
        service.backend_options("-p 3")
    with pytest.raises(OptionHelpRequest):
        service.backend_options("-h")


def test_names_that_the_cluster_does_not_have() -> None:
    inventory = Inventory(
        names={"resource": resource_names("#name\nh_vmem h_vmem MEMORY\n"), "parallel environment": ("smp",)}
    )
    own = {**ACCESS, "mem_resource": "h_vmen", "parallelEnvironment": "threads", "hard": "-l nosuch=1"}
    batch = Batch(id="0", tag="b", request=Request(cpus=2), members=())
    (asked,) = SgeDialect(own).allocations(job_spec(SgeDialect(own), batch, {"sge": own}))
    assert sorted((each.message, each.hint) for each in find_unmet_requests(asked, inventory)) == [
        ("there is no parallel environment 'threads'", "The cluster has smp."),
        ("there is no resource 'h_vmen'", "Did you mean 'h_vmem'? The cluster has h_vmem."),
        ("there is no resource 'nosuch'", "The cluster has h_vmem."),
    ]
    assert not list(find_unmet_requests(asked, Inventory()))


def test_limits_of_queues() -> None:
    text = (
        "qname  all.q\nh_rt  INFINITY\n\nqname  short.q\nh_rt  00:10:00\n\nqname mixed\nh_rt 1:0:0,[@slow=2:0:0]\n"
        "\nqname some\nh_rt 1:0:0,[@slow=INFINITY]\n"
    )
    longest = {name: each.walltime_s for name, each in parse_limits(text).items()}
    assert longest == {"all.q": None, "short.q": 600.0, "mixed": 7200.0, "some": None}
    assert listed_names("smp\nmpi\n") == ("smp", "mpi")


def test_memory_that_a_queue_gives_a_job() -> None:
    text = (
        "qname  all.q\nslots  8\nh_vmem  INFINITY\ncomplex_values  NONE\n\n"
        "qname  big.q\nslots  1,[@fat=4]\nh_vmem  1G,[@fat=4G]\n\n"
        "qname  own.q\nslots  2\nh_vmem  INFINITY\ncomplex_values  h_vmem=8G,gpu=2, \\\n"
        "                      [@fat=h_vmem=64G],[@none=NONE]\n"
    )
    limits = {name: each.max_memory_b for name, each in parse_limits(text, "h_vmem").items()}
    assert limits == {"all.q": None, "big.q": 4 * GIB, "own.q": 64 * GIB}
    # A job of four slots has the amount four times.
    per_slot = parse_limits(text, "h_vmem", is_per_slot=True)
    assert per_slot["big.q"].max_memory_b == 16 * GIB
    assert {each.max_memory_b for each in parse_limits(text).values()} == {None}


QUEUES = """\
CLUSTER QUEUE                   CQLOAD   USED    RES  AVAIL  TOTAL aoACDS  cdsuE
--------------------------------------------------------------------------------
all.q                             2.81      0      0      8      8      0      0
short.q                           2.81      0      0      0      8      0      8
"""


HOSTS = """\
<?xml version='1.0'?>
<qhost xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qhost/qhost.xsd">
 <host name='global'>
   <hostvalue name='num_proc'>-</hostvalue>
   <hostvalue name='mem_total'>-</hostvalue>
 </host>
 <host name='big'>
   <hostvalue name='num_proc'>2</hostvalue>
   <hostvalue name='mem_total'>23.5G</hostvalue>
   <resourcevalue name='mem_total' dominance='hl'>23.500G</resourcevalue>
   <resourcevalue name='slots' dominance='hc'>7.000000</resourcevalue>
 <queue name='all.q'>
   <queuevalue qname='all.q' name='qtype_string'>BIP</queuevalue>
   <queuevalue qname='all.q' name='slots_used'>1</queuevalue>
   <queuevalue qname='all.q' name='slots'>16</queuevalue>
   <queuevalue qname='all.q' name='state_string'></queuevalue>
 </queue>
 <queue name='login.q'>
   <queuevalue qname='login.q' name='qtype_string'>I</queuevalue>
   <queuevalue qname='login.q' name='slots_used'>0</queuevalue>
   <queuevalue qname='login.q' name='slots'>2</queuevalue>
 </queue>
 </host>
 <host name='away'>
   <hostvalue name='num_proc'>-</hostvalue>
   <hostvalue name='mem_total'>-</hostvalue>
 <queue name='all.q'>
   <queuevalue qname='all.q' name='qtype_string'>BIP</queuevalue>
   <queuevalue qname='all.q' name='slots_used'>0</queuevalue>
   <queuevalue qname='all.q' name='slots'>4</queuevalue>
   <queuevalue qname='all.q' name='state_string'>au</queuevalue>
 </queue>
 </host>
</qhost>
"""
OFFERS = """\
Unable to run job: Job 26 (-l h_vmem=1000000G) cannot run in queue "big.q" because of cluster queue
Job 26 (-l gpu=1,h_vmem=1000000G) cannot run at host "big" because it offers only hc:h_vmem=8.000G
Job 26 (-l h_vmem=1000000G) cannot run at host "odd" because it offers only hc:h_vmem=7.812G
Job 26 (-l h_vmem=1000000G) cannot run at host "other" because it offers only hc:gpu=0.000000
verification: no suitable queues
Exiting.
"""


def test_queues_and_their_hosts() -> None:
    queues = parse_queues(QUEUES)
    found = {name: (queue.state, queue.slots) for name, queue in queues.items()}
    assert found == {"all.q": ("UP", 8), "short.q": ("DOWN", 8)}
    assert parse_queues("") == {}
    groups = parse_hosts(HOSTS)
    assert [(each.partition, each.names, each.cpus, each.memory_b) for each in groups] == [
        # The slots of the host, of which a job has one, bound those of the queue.
        ("all.q", ("big",), 8, round(23.5 * GIB)),
        ("all.q", ("away",), 4, None),
    ]
    assert parse_hosts("") == ()
    assert describe_partitions(queues.values(), groups).startswith("all.q: up, 2 hosts, 8 slots; short.q: down")


def test_memory_that_hosts_offer_where_it_is_counted() -> None:
    # An amount is rounded, and the real one may be larger by half of its last digit.
    assert parse_offers(OFFERS) == {"big": HostOffer(memory_b=8 * GIB), "odd": HostOffer(memory_b=8000 * MIB)}
    assert parse_offers("verification: found suitable queue(s)\n") == {}


@pytest.mark.parametrize(
    ("argv", "err", "is_answer"),
    [
        (("qconf", "-sprjl"), "no project list defined\n", True),
        (("qconf", "-spl"), "no parallel environment defined\n", True),
        (("qconf", "-sprjl"), "error: commlib error: got select error (Connection refused)\n", False),
        (("qsub", "-w", "v"), OFFERS, True),
        (("qsub", "-w", "v"), "error: unable to contact qmaster using port 6444 on host 'head'\n", False),
    ],
)
def test_an_empty_list_and_a_trial_are_answers(argv: tuple[str, ...], err: str, *, is_answer: bool) -> None:
    answer = ProgramResult(argv=argv, status=1, err=err)
    assert SgeDialect({}).read_answer(ProgramCall(argv), answer).ok is is_answer


def test_memory_that_the_cluster_counts_otherwise_is_noted() -> None:
    def notes(h_vmem: str, per: str | None) -> list[str]:
        text = COMPLEXES.format(h_vmem=h_vmem, mem_free="YES NO")
        inventory = Inventory(names={PER_JOB: counted_names(text, "JOB"), PER_SLOT: counted_names(text, "YES")})
        return [each.message for each in find_wrong_share({"mem_resource": "h_vmem", "memoryPer": per}, inventory)]

    assert notes("YES", None) == notes("JOB", "job") == notes("NO", "job") == notes("NO", "slot") == []
    (share,) = notes("JOB", None)
    assert share.startswith("the cluster counts 'h_vmem' per job, and 'sge.memoryPer' is 'slot': jobs of several slots")
    assert notes("YES", "job")[0].endswith("jobs of several slots get more than their memory")


def test_a_trial_tells_why_no_queue_can_run_a_job() -> None:
    dialect, call = SgeDialect({}), ProgramCall(("qsub", "-w", "v"))
    err = (
        'Unable to run job: Job 5 cannot run in queue "short.q" because it is not contained in its hard queue list '
        '(-q)\nJob 5 (-l h_vmem=12000M) cannot run at host "localhost" because it offers only hc:h_vmem=8.000G\n'
        "verification: no suitable queues\nExiting.\n"
    )
    answer = dialect.read_answer(call, ProgramResult(argv=call.argv, status=1, err=err))
    assert dialect.submit_reply(answer).outcome is SubmitOutcome.REFUSED
    assert answer.out.splitlines() == [
        '(-l h_vmem=12000M) cannot run at host "localhost" because it offers only hc:h_vmem=8.000G',
        "verification: no suitable queues",
    ]
    fine = ProgramResult(argv=call.argv, status=0, out="verification: found suitable queue(s)\n")
    assert dialect.submit_reply(dialect.read_answer(call, fine)).outcome is SubmitOutcome.UNSURE
    unknown = ProgramResult(argv=call.argv, status=1, err='Unable to run job: unknown resource "tape"\nExiting.\n')
    assert dialect.submit_reply(dialect.read_answer(call, unknown)).outcome is SubmitOutcome.REFUSED


def test_patterns_are_left_to_the_trial_and_so_is_a_script_that_wants_none() -> None:
    own = {**ACCESS, "parallelEnvironment": "s*", "hard": "-q '*.q'"}
    batch = Batch(id="0", tag="b", request=Request(), members=())
    (asked,) = SgeDialect(own).allocations(job_spec(SgeDialect(own), batch, {"sge": own}))
    assert (asked.partitions, asked.names["parallel environment"]) == ((), ())
    # That of a site is judged even if this job has one slot.
    plain = {**own, "parallelEnvironment": "smp"}
    (asked,) = SgeDialect(plain).allocations(job_spec(SgeDialect(plain), batch, {"sge": plain}))
    assert asked.names["parallel environment"] == ("smp",)
    call = SgeDialect(own).trial_call("#$ -w e\n:\n")
    assert call is not None
    assert call.argv == ("/opt/sge/bin/qsub", "-w", "v")
    assert SgeDialect(own).trial_call("#$ -w e\n#$ -l a=1 -w n\n:\n") is None


@pytest.mark.parametrize(
    ("slots", "asked", "needed"),
    [("4", (4, 4), (4, 4)), ("2-16", (16, 16), (2, 2)), ("-8", (8, 8), (1, 1)), ("2-", (9_999_999, 9_999_999), (2, 2))],
)
def test_of_a_range_of_slots_the_most_count_for_limits_and_the_fewest_for_hosts(
    slots: str, asked: tuple[int, int], needed: tuple[int, int]
) -> None:
    own: dict[str, Any] = {"mem_resource": "h_vmem", "directives": [f"-pe smp {slots}", "-l h_vmem=1G"]}
    spec = job_spec(SgeDialect(own), Batch(id="0", tag="b", request=Request(), members=()), {"sge": own})
    dialect = SgeDialect(own)
    sizes = [
        [(each.cpus_per_node, (each.memory_b or 0) // GIB) for each in f(spec)]
        for f in (dialect.allocations, dialect.needs)
    ]
    assert sizes == [[asked], [needed]]


def test_a_project_is_judged_by_the_list_of_projects() -> None:
    asked = Allocation(account="astor")
    (unmet,) = find_unmet_requests(asked, Inventory(names={"project": ("astro", "bio")}))
    assert unmet.message == "there is no project 'astor'"
    assert unmet.hint == "Did you mean 'astro'? The cluster has astro, bio."
    (none,) = find_unmet_requests(asked, Inventory(names={"project": ()}))
    assert none.hint == "The cluster has none at all."
    assert not [*find_unmet_requests(asked, Inventory())]


def test_dependencies_of_a_whole_graph() -> None:
    dialect = SgeDialect({"bin": "/sge"})
    first = BatchRecord(tag="t-n0", name="t-n0", id=7, members=((0, 1), (1, 1)), at=0.0)
    second = BatchRecord(tag="t-n1", name="t-n1", id=8, members=((2, 1),), at=0.0)
    records = {0: (first, 0), 1: (first, 1), 2: (second, 0)}
    assert dialect.after_success_options([()], records) == ()
    assert dialect.after_success_options([(0, 2)], records) == ("-hold_jid", "7,8")
    assert dialect.after_success_options([(0, 1), (0, 1)], records) == ("-hold_jid", "7")
    assert dialect.after_success_options([(0,), (1,)], records) == ("-hold_jid_ad", "7")
    assert dialect.after_success_options([(1,), (0,)], records) == ("-hold_jid", "7")
    assert dialect.after_success_options([(0,), (1,), (2,)], records) == ("-hold_jid", "7,8")
    assert [call.argv for call in dialect.release_calls([7, 8])] == [("/sge/qrls", "7", "8")]
