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
from longshore.model.workflow import MIB, Job, JobSettings, Request, Workflow
from longshore.services.batch.records import BatchRecord
from longshore.services.batch.script_writer import job_spec
from longshore.services.sge.cluster import listed_names, parse_capacity, parse_limits, parse_queues, resource_names
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.service import SgeService
from longshore.sites.profile import executor_settings
from longshore.sites.requests import find_unmet_requests

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
        ({"bin": None}, "'sge.bin' is missing"),
        ({"root": ""}, "'sge.root' is missing"),
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
    assert parse_limits(text) == {"short.q": 600.0, "mixed": 7200.0}
    assert listed_names("smp\nmpi\n") == ("smp", "mpi")


QUEUES = """\
CLUSTER QUEUE                   CQLOAD   USED    RES  AVAIL  TOTAL aoACDS  cdsuE
--------------------------------------------------------------------------------
all.q                             2.81      0      0      8      8      0      0
short.q                           2.81      0      0      0      8      0      8
"""


def test_queues_and_the_largest_host() -> None:
    assert {name: queue.state for name, queue in parse_queues(QUEUES).items()} == {"all.q": "UP", "short.q": "DOWN"}
    assert parse_queues("") == {}
    hosts = "   hl:num_proc=2.000000\n   hl:mem_total=23.5G\n   hl:num_proc=16.000000\n   hl:mem_total=8G\n"
    assert parse_capacity(hosts) == {"cpus": 16, "memory": round(23.5 * 1024**3)}
    assert parse_capacity("") is None


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
