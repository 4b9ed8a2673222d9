"""Options of qsub for what a job asks for; the lines of open-lmake's page on back ends word by word."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.services.scripts import render_script

from longshore.config.plugins import template_texts
from longshore.contract.executor import Batch, Urgency
from longshore.contract.service import RunPaths
from longshore.errors import ConfigError
from longshore.model.workflow import MIB, Request
from longshore.services.batch.engine_job import engine_script
from longshore.services.batch.script import job_name
from longshore.services.batch.script_writer import job_spec
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.options import plain_name, read_priority
from longshore.services.sge.service import SgeService

RUN = RunPaths(Path("/data/u/it's, a: run"))


script = partial(render_script, SgeService, run=RUN)


def lines(text: str) -> list[str]:
    found = [line.removeprefix("#$ ") for line in text.splitlines() if line.startswith("#$ ")]
    return found[found.index("-r n") + 1 :] if "-r n" in found else found


@pytest.mark.parametrize(
    ("site", "request_", "line"),
    [
        ({"cpu_resource": "cpu_r"}, Request(cpus=2), "-l cpu_r=2"),
        ({"mem_resource": "mem_r"}, Request(memory_b=10 * MIB), "-l mem_r=10"),
        ({"tmp_resource": "tmp_r"}, Request(disk_b=100 * MIB), "-l tmp_r=100"),
    ],
)
def test_the_names_of_open_lmakes_page(site: dict[str, str], request_: Request, line: str) -> None:
    assert lines(script(request=request_, site={"sge": site})) == [line]
    assert lines(script(request=request_)) == [], "without a name, a resource is not passed"


def test_hard_comes_before_soft_and_all_else_between() -> None:
    own = {"hard": "-l arch=lx-amd64 -q 'a q'", "soft": ["-l fast=1", "-q b.q"], "directives": ["#$ -R y", "-tc 3"]}
    request = Request(resources={"lic_a": 2, "gpu": 1}, walltime_s=90.5)
    assert lines(script(own, request=request)) == [
        "-l h_rt=91",
        "-l gpu=1",
        "-l lic_a=2",
        '-hard -l arch=lx-amd64 -q "a q"',
        "-R y",
        "-tc 3",
        "-soft -l fast=1 -q b.q",
    ]


@pytest.mark.parametrize(
    ("own", "memory"),
    [
        ({"mem_resource": "h_vmem"}, "-l h_vmem=667M"),
        ({"mem_resource": "h_vmem", "memoryPer": "job"}, "-l h_vmem=2000M"),
        ({"mem_resource": "mem_r", "memoryPer": "slot"}, "-l mem_r=667"),
    ],
)
def test_memory_is_divided_by_slots_and_has_a_unit_where_numbers_are_bytes(own: dict[str, str], memory: str) -> None:
    request = Request(cpus=3, memory_b=2000 * MIB)
    assert lines(script({**own, "parallelEnvironment": "smp"}, request=request)) == ["-pe smp 3", memory]


def test_one_processor_needs_no_parallel_environment() -> None:
    assert lines(script({"parallelEnvironment": "smp"}, request=Request(cpus=1))) == []


def test_each_of_several_hosts_has_the_slots_and_the_memory_of_a_request() -> None:
    own = {"mem_resource": "h_vmem", "parallelEnvironment": "smp", "nodesEnvironment": "mpi3"}
    request = Request(cpus=3, memory_b=3000 * MIB)
    assert lines(script({**own, "nodeCount": 2}, request=request)) == ["-pe mpi3 6", "-l h_vmem=1000M"]
    assert lines(script({**own, "nodeCount": 2}, request=Request(cpus=1)))[0] == "-pe mpi3 2"
    assert lines(script({**own, "nodeCount": 1}, request=request))[0] == "-pe smp 3"
    dialect = SgeDialect({})
    spec = job_spec(dialect, Batch(id="0", tag="b", request=request, members=()), {"sge": {**own, "nodeCount": 2}})
    (asked,) = dialect.allocations(spec)
    assert (asked.nodes, asked.cpus_per_node, asked.memory_b) == (2, 3, 3000 * MIB)
    assert asked.names["parallel environment"] == ("mpi3",)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"nodeCount": 2}, "pilots on 2 hosts need a parallel environment: 'sge.nodesEnvironment' is missing"),
        ({"nodeCount": "two", "nodesEnvironment": "mpi3"}, "'sge.nodeCount' must be a whole number above 0, not 'two'"),
    ],
)
def test_several_hosts_without_an_environment_are_refused(own: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        script(own, request=Request(cpus=3))


def test_the_first_queue_of_the_site_that_holds_a_job() -> None:
    rows = [{"name": "short.q", "walltime": 600}, {"name": "long.q", "account": "big"}]
    assert lines(script(request=Request(walltime_s=60), site={"partitions": rows})) == ["-q short.q", "-l h_rt=60"]
    found = lines(script(request=Request(walltime_s=900), site={"partitions": rows, "account": "general"}))
    assert found == ["-q long.q", "-P big", "-l h_rt=900"]
    assert lines(script(queue="other.q", site={"partitions": rows})) == ["-q other.q"]


def test_queue_project_and_mail() -> None:
    found = lines(script(queue="long.q", accountingGroup="survey", mailTo="a@example.org", whenToMail="Always"))
    assert found == ["-q long.q", "-P survey", "-M a@example.org", "-m bea"]
    assert lines(script(site={"account": "general"})) == ["-P general"]


def test_the_head_and_the_body_of_an_array() -> None:
    head, body = script(members=3, site={"sge": {"repo_key": "survey:"}}).split("# Batch k7f3a-1-1. ")
    assert head.splitlines() == [
        "#!/bin/sh",
        '#$ -N "survey;k7f3a-1-1"',
        "#$ -S /bin/sh",
        "#$ -V",
        "#$ -wd /",
        "#$ -j y",
        "#$ -o /dev/null",
        "#$ -w e",
        "#$ -r n",
        "#$ -t 1-3",
    ]
    assert "cd -- '/data/u/it'\"'\"'s, a: run' || exit 100\n" in body
    assert "set -- -g -x '99 100' -m \"$SGE_TASK_ID\" -e " in body


@pytest.mark.parametrize(
    ("tag", "key", "name"),
    [
        ("k7f3a-1-1", "", "k7f3a-1-1"),
        ("k7f3a-1-1", "a:b@c/d\\e*f?g", "a;bac_d_e_f_gk7f3a-1-1"),
        ("9a", "", "j9a"),
        ("9a", "ä ö#", "j_9a"),
    ],
)
def test_names_that_grid_engine_accepts(tag: str, key: str, name: str) -> None:
    assert job_name(tag, key, plain_name) == name


def test_long_names_stay_different_and_end_in_their_tag() -> None:
    first, second = (job_name("k7f3a-1-1", "x" * length, plain_name) for length in (200, 201))
    assert len(first) == len(second) == 120
    assert first != second
    assert first.endswith("k7f3a-1-1")


@pytest.mark.parametrize(
    ("own", "slack_s", "priority"),
    [
        ({}, 7200.0, 0),
        ({"default_prio": -100}, None, -100),
        ({"default_prio": -100, "priority": 0}, 7200.0, 0),
        ({"use_priority": True}, -5.0, 0),
        ({"use_priority": True}, 3600.0, -511),
        ({"use_priority": True, "default_prio": -1000}, 3600.0, -1023),
        ({"use_priority": True}, 1e9, -1023),
    ],
)
def test_priorities(own: dict[str, Any], slack_s: float | None, priority: int) -> None:
    assert read_priority(own, slack_s) == priority


def test_a_priority_of_0_is_not_said_and_others_are() -> None:
    assert lines(script({"priority": 0})) == []
    assert lines(script({"priority": -5})) == ["-p -5"]


def test_more_pressure_is_more_urgent() -> None:
    site = {"sge": {"use_priority": True}}
    found = []
    for pressure in (100.0, 9000.0):
        urgency = Urgency(pressure_s=pressure, end_at=time.time() + 10_000)
        (line,) = lines(script(site=site, urgency=urgency))
        found.append(int(line.removeprefix("-p ")))
    assert -1023 < found[0] < found[1] < 0


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"priority": -2000}, "'sge.priority' must be a whole number from -1023 to 0, not '-2000'"),
        ({"default_prio": "low"}, "'sge.default_prio' must be"),
        ({"memoryPer": "node"}, "'sge.memoryPer' must be 'slot' or 'job', not 'node'"),
        ({"hard": "arch=x y"}, "'arch=x' is no option: it does not begin with '-'"),
        ({"hard": "-cwd x"}, "cannot have the option '-cwd'"),
        ({"soft": "-l"}, "the option '-l' needs a value"),
        ({"soft": "-l -q"}, "the option '-l' needs a value"),
        ({"soft": "-l 'x"}, "cannot be split into words"),
        ({"directives": ["-N x # y"]}, "has no room for '#'"),
        ({"hard": '-q "a\'b\\" c"'}, "both kinds of quotes"),
    ],
)
def test_settings_that_cannot_be_written_are_refused(own: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        script(own, request=Request(memory_b=MIB) if "memoryPer" in own else None)
    assert said in str(raised.value)


def test_the_engine_as_a_job_is_warned_and_started_again() -> None:
    site = {"sge": {"mem_resource": "h_vmem", "engineJob": {"hard": "-q long.q", "time": "1:00:00"}}}
    template = template_texts(SgeService)["engine.sh"]
    words = ("longshore", "run")
    text = engine_script(SgeDialect({}), RUN, site, template, run_token="k7f3a", by="submit", command=words)
    assert "#$ -r y\n" in text
    assert lines(text)[-4:] == ["-l s_rt=3480", "-l h_vmem=1024M", "-l h_rt=3600", "-hard -q long.q"]
    assert 'exec longshore run --by "$_by"' in text
    assert "_by=submit\n[ ! -e '/data/u/it'\"'\"'s, a: run/" in text


def test_the_memory_of_a_job_is_divided_by_the_slots_of_a_raw_line() -> None:
    own = {"directives": ["-pe mpi 8"]}
    site = {"sge": {"mem_resource": "h_vmem", "parallelEnvironment": "smp"}}
    found = lines(script(own, request=Request(cpus=2, memory_b=4096 * MIB), site=site))
    assert found == ["-l h_vmem=512M", "-pe mpi 8"]
