"""What cannot become a batch is said before anything is written, with the name of the job and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import longshore.services.slurm
from longshore.config.includes import read_yaml
from longshore.config.merge import plain_map
from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.service import Context, PingReport, Problem, RunPaths, Site
from longshore.errors import ConfigError
from longshore.model.tasks import Dag
from longshore.model.workflow import (
    MIB,
    Job,
    JobGroup,
    JobSettings,
    Ordering,
    Request,
    Workflow,
)
from longshore.services.batch.check import check_native_mode
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.sites.profile import executor_settings

FOLDER = Path(longshore.services.slurm.__file__).parent


def context(site: Mapping[str, Any] | None = None, root: str = "/data/run", **more: Any) -> Context:
    texts = template_texts(SlurmService) | {"longshore-job": shipped_path("bin", "longshore-job").read_text("utf-8")}
    return Context(
        settings={"executor": executor_settings("slurm", site or {})},
        site=Site(name="here", settings=site or {}),
        paths=RunPaths(Path(root)),
        templates=texts | more,
    )


def problems(ctx: Context, **more: Any) -> list[Problem]:
    job = Job(name="job_1", label="a", command="true", settings=JobSettings(label="a", **more))
    return SlurmService().check(Workflow("w", Dag.by_name([job]), attributes={}), ctx)


def test_valid_settings_have_no_problems() -> None:
    site = {"slurm": {"qos": "normal", "gres1": "gpu:1"}, "directives": ["-C x"], "partitions": [{"name": "p"}]}
    assert problems(context(site), service_settings={"qos": "high", "directives": ["-C x"], "container": "env"}) == []


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ({"qoss": "x"}, "no key 'qoss'"),
        ({"gres2": "gpu:1"}, "says nothing of 1"),
        ({"nice_factor": -1}, "nice_factor"),
        ({"omit": "job-name"}, "cannot leave out 'job-name'"),
        ({"maxpendtime": "soon"}, "slurm.maxpendtime"),
        ({"pollCeiling": 1, "pollInterval": 10}, "pollCeiling"),
        ({"onSubmitError": "nobody"}, "onSubmitError"),
    ],
)
def test_what_a_site_says_wrong(site: Mapping[str, Any], words: str) -> None:
    (found,) = problems(context({"slurm": site}))
    assert found.fatal
    assert words in found.message


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"qoss": "x"}, "job 'job_1': 'slurm' has no key 'qoss'"),
        ({"gres3": "gpu:1"}, "says nothing of 1"),
        ({"partition": "a\nb"}, "no room"),
        ({"omit": ["--array"]}, "cannot leave out 'array'"),
    ],
)
def test_invalid_settings_of_jobs_are_problems(own: Mapping[str, Any], words: str) -> None:
    (found,) = problems(context(), service_settings=own)
    assert found.fatal
    assert words in found.message
    assert (found.job, found.key) == ("job_1", "slurm")
    assert found.hint


def test_the_example_site_has_no_problems() -> None:
    site = plain_map(read_yaml(shipped_path("config", "sites", "slurm-cluster.yaml")))
    assert site["service"] == "slurm"
    assert problems(context(site)) == []


def test_jobs_of_one_run_have_one_cluster() -> None:
    ctx = context({"slurm": {"clusters": "a"}})
    assert problems(ctx, service_settings={"clusters": "a"}) == []
    (found,) = problems(ctx, service_settings={"clusters": "b"})
    assert (
        found.message == "job 'job_1': 'slurm.clusters' is 'b', and that of the run's site 'a': a run has one cluster"
    )


@pytest.mark.parametrize(
    ("slurm", "words"),
    [
        ({"engineAs": "pilot"}, "must be 'process' or 'job'"),
        ({"engineAs": "job", "engineJob": {"partitio": "x"}}, "no key 'partitio'"),
        ({"engineAs": "job", "engineJob": {"partition": "a\nb"}}, "no room"),
        ({"mode": "dag"}, "must be 'engine' or 'native'"),
    ],
)
def test_an_engine_that_cannot_be(slurm: Mapping[str, Any], words: str) -> None:
    (found,) = problems(context({"slurm": slurm}))
    assert found.fatal
    assert words in found.message


def test_a_native_run_refuses_an_ordering() -> None:
    job = Job(name="a", label="a", command="true", settings=JobSettings(label="a"))
    ordering = Ordering(name="by_visit", dimensions=("visit",), groups=(JobGroup(key=(1,), jobs=("a",)),))
    workflow = Workflow("w", Dag.by_name([job]), orderings=(ordering,))
    (found,) = check_native_mode(workflow, context({"slurm": {"mode": "native"}}), SlurmDialect({}))
    assert found.fatal
    assert "'ordering' wants ('by_visit')" in found.message
    assert not list(check_native_mode(workflow, context(), SlurmDialect({})))


def test_a_fence_of_a_native_run_is_told() -> None:
    _, found = problems(context({"slurm": {"mode": "native", "fence": True}}))
    assert (found.fatal, found.message) == (
        False,
        "'slurm.fence' means nothing with 'slurm.mode: native': no job has a second attempt",
    )


def test_a_native_run_warns_of_what_it_lacks() -> None:
    (found,) = problems(context({"slurm": {"mode": "native"}}))
    assert not found.fatal
    assert "no job is tried again" in found.message


def test_a_path_that_no_script_can_hold() -> None:
    (found,) = problems(context(root="/data/a\nb"))
    assert "no room" in found.message


def test_a_library_is_of_no_use() -> None:
    (found,) = problems(context({"slurm": {"lib_slurm": "libslurm.so"}}))
    assert not found.fatal
    assert "'lib_slurm' is not used" in found.message


def test_a_template_that_is_none() -> None:
    ctx = context()
    broken = msgspec.structs.replace(ctx, templates={**ctx.templates, "batch.sh": "{{ job.nothing }}"})
    (found,) = problems(broken)
    assert "template 'batch.sh'" in found.message


def test_jobs_of_one_profile_are_judged_once() -> None:
    shared = JobSettings(label="a", service_settings={"qoss": "x"}, request=Request(cpus=9))
    jobs = [Job(name=f"job_{number}", label="a", command="true", settings=shared) for number in range(3)]
    probe = PingReport(service="slurm", ok=True, message="", capacity={"cpus": 4, "memory": MIB})
    ctx = msgspec.structs.replace(context({"setup": {"submit": ["module load slurm"]}}), probe=probe)
    found = SlurmService().check(Workflow("w", Dag.by_name(jobs), attributes={}), ctx)
    assert [problem.key for problem in found] == ["slurm", "requestCpus"]


def workflow_with_requests(count: int, distinct: int, **more: Any) -> Workflow:
    usual = JobSettings(label="a", **more)
    settings = [
        msgspec.structs.replace(usual, request=Request(memory_b=(1 + number) * MIB)) for number in range(distinct)
    ]
    jobs = [
        Job(name=f"job_{number}", label="a", command="true", settings=settings[number % distinct])
        for number in range(count)
    ]
    return Workflow("w", Dag(jobs, parents=[[] for _ in jobs]))


def test_settings_that_differ_in_amounts_are_judged_once_for_all_their_jobs() -> None:
    workflow = workflow_with_requests(50, 20, service_settings={"qoss": "x"})
    (found,) = SlurmService().check(workflow, context())
    assert (found.job, found.key, found.jobs) == ("job_0", "slurm", 50)


def test_requests_of_nearly_every_job_are_noted_for_they_make_arrays_of_one() -> None:
    (found,) = SlurmService().check(workflow_with_requests(3000, 1500), context())
    assert not found.fatal
    assert "the 3,000 jobs of 'a' have 1,500 different requests" in found.message
    assert SlurmService().check(workflow_with_requests(3000, 200), context()) == []


def test_more_than_the_largest_node_has() -> None:
    probe = PingReport(service="slurm", ok=True, message="", capacity={"cpus": 4, "memory": 4000 * MIB})
    ctx = msgspec.structs.replace(context(), probe=probe)
    assert problems(ctx, request=Request(cpus=4, memory_b=4000 * MIB)) == []
    (found,) = problems(ctx, request=Request(cpus=5))
    assert (found.key, "asks for 5 of 'cpus'" in found.message) == ("requestCpus", True)


def test_options_of_the_command_line_are_keys_of_a_configuration() -> None:
    values = SlurmService().backend_options("-c 4 --mem 2G --tmp=1G -p short : -c 8 --gres gpu:1")
    assert values == {
        "requestCpus": "4",
        "requestMemory": "2G",
        "requestDisk": "1G",
        "slurm": {"partition": "short", "cpu1": "8", "gres1": "gpu:1"},
    }
    assert SlurmService().backend_options("-c 2") == {"requestCpus": "2"}
    with pytest.raises(ConfigError):
        SlurmService().backend_options("--nothing")
