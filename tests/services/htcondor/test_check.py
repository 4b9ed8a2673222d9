"""Effect of every key on HTCondor, and reasons of refusals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.progress_notes import ProgressNotes
from tests.services.htcondor.rendering import context, job, rendered

from longshore.config.profile import ATTRIBUTE_KEYS, REQUEST_KEYS
from longshore.contract.service import Context, PingReport, Problem
from longshore.errors import ServiceError
from longshore.model.tasks import Dag
from longshore.model.workflow import (
    MIB,
    Job,
    JobRules,
    JobSettings,
    Request,
    RetryOn,
    SuccessIf,
    Workflow,
)
from longshore.plan.lint_file import lint_file
from longshore.plan.submission import submit
from longshore.services.htcondor.check import KEY_EFFECTS, REFUSED_KEYS, check
from longshore.services.htcondor.render.settings import (
    DAGMAN_SETTINGS,
    JOB_KEYS,
    JOB_MAPS,
    UNUSED_KEYS,
    dagman_settings,
    max_jobs,
)

GIB = 1024 * MIB
OF_JOBS = {
    *(*REQUEST_KEYS, *ATTRIBUTE_KEYS, *JOB_KEYS, *(name.partition(".")[0] for name in JOB_MAPS)),
    *("environment", "numberOfRetries", "retryUnlessExit", "retryUnstartable", "retryOn"),
    "retryOnTransfer",
    *(
        "retryOnPreempted",
        "retryOnMemory",
        "retryOnTime",
        "memoryMultiplier",
        "memoryGrowth",
        "memoryLimit",
        "requestMemoryMax",
        "walltimeMultiplier",
    ),
    *("requestWalltimeMax", "enforceMemory", "memoryGrace", "maxLogSize", "successIf", "keepTmp", "keepLogs"),
    *("nodeCount", "retryDelay", "retryDelayMax", "retryOnLost"),
    *(
        "packing",
        "resumeTasks",
        "checkOutputs",
        "killGrace",
        "killSignals",
        "maxFastFailures",
        "fastFailureTime",
        "limitThreads",
        "directives",
    ),
    *("workingDirectory", "container", "inheritEnvironment", "fileSystem", "setup", "htcondor", "subDirTemplate"),
}


def test_every_key_of_a_job_is_documented() -> None:
    assert {*KEY_EFFECTS, *REFUSED_KEYS, *UNUSED_KEYS} >= OF_JOBS
    assert not set(KEY_EFFECTS) & set(REFUSED_KEYS)
    assert not {*KEY_EFFECTS, *REFUSED_KEYS} & set(UNUSED_KEYS)


def _problems(ctx: Context | None = None, **settings: Any) -> list[Problem]:
    return check(Workflow("w", Dag.by_name([job("a", **settings)])), ctx or context())


def test_ordinary_settings_have_no_problem() -> None:
    assert (
        _problems(attributes={"priority": 3, "category": "x"}, service_settings={"profile.condor": {"+X": "1"}}) == []
    )


@pytest.mark.parametrize(
    ("settings", "fatal", "words"),
    [
        ({"rules": JobRules(success_if=SuccessIf(exit=(0, 3)))}, True, "only exit code 0 is a success"),
        ({"rules": JobRules(retry_on=RetryOn(log="x"))}, True, "'retryOn.log'"),
        ({"service_settings": {"nodecount": 2}}, True, "'htcondor' has no key 'nodecount'"),
        ({"service_settings": {"nodeCount": 1}}, True, "'htcondor' has no key 'nodeCount'"),
        (
            {"service_settings": {"nodeCount": 2}},
            True,
            "('htcondor.nodeCount' is '2'): HTCondor gives each job",
        ),
        (
            {"service_settings": {"profile.condor": {"Universe": "Parallel"}}},
            True,
            "('profile.condor.Universe' is 'Parallel')",
        ),
        (
            {"service_settings": {"profile.condor": {"machine_count": 4}}},
            True,
            "('profile.condor.machine_count' is '4')",
        ),
        ({"service_settings": {"directives": ["machine_count = 2"]}}, True, "('directives machine_count' is '2')"),
        ({"request": Request(resources={"nodes": 2})}, True, "('requestResources.nodes' is '2')"),
        ({"service_settings": {"profile.condor": {"log": "x"}}}, True, "'profile.condor' cannot set 'log'"),
        ({"service_settings": {"profile.condor": {"no good": "x"}}}, True, "the name of no command"),
        ({"service_settings": {"profile.condor": {"universe": "local"}}}, False, "in which HTCondor counts no ends"),
        ({"service_settings": {"profile.condor": {"rank": "a\nb"}}}, True, "'rank' must be one line"),
        ({"service_settings": {"directives": ["queue 3"]}}, True, "'directives' cannot set 'queue 3'"),
        ({"service_settings": {"attrs": {"x": [1]}}}, True, "'attrs.x' must be text"),
    ],
)
def test_unsupported_settings_are_reported(settings: dict[str, Any], fatal: bool, words: str) -> None:
    (problem,) = _problems(**settings)
    assert problem.fatal is fatal
    assert words in problem.message


def test_an_invalid_pattern_of_machines_is_reported() -> None:
    (problem,) = _problems(context(run={"executeMachinesPattern": "*worker*"}))
    assert problem.fatal
    assert "'executeMachinesPattern' is no regular expression" in problem.message


def test_a_request_larger_than_any_machine_is_refused() -> None:
    probe = PingReport(service="htcondor", ok=True, message="", capacity={"cpus": 8, "memory": 16 * GIB})
    ctx = _with(probe)
    large = Request(cpus=9, memory_b=17 * GIB, resources={"gpus": 1})
    problems = _problems(ctx, request=large)
    assert [problem.key for problem in problems] == ["requestCpus", "requestMemory"]
    assert "asks for 17408 MiB of 'memory', and the largest machine of the pool has 16384 MiB" in problems[1].message


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        (None, ""),
        (
            PingReport(service="htcondor", ok=False, message="no schedd."),
            "what the machines of the pool have is not known (no schedd)",
        ),
        (PingReport(service="htcondor", ok=True, message="", capacity={"cpus": 8}), "no machine of the pool says"),
        (PingReport(service="htcondor", ok=True, message="", capacity={"memory": 16 * GIB}), ""),
    ],
)
def test_unlimited_memory_growth_is_reported_once(probe: PingReport | None, why: str) -> None:
    grows: dict[str, Any] = {"request": Request(memory_b=GIB), "number_of_retries": 3}
    grows["attributes"] = {"memoryMultiplier": 2.0}
    jobs = [job(f"a{number}", label="a", **grows) for number in range(3)]
    jobs += [job(name, **grows) for name in ("b", "c")]
    jobs.append(job("d", **grows | {"attributes": {"memoryMultiplier": 2.0, "requestMemoryMax": 2 * GIB}}))
    jobs.append(job("e", attributes={"memoryMultiplier": 2.0}))
    found = check(Workflow("w", Dag.by_name(jobs)), _with(probe))
    assert [problem.fatal for problem in found] == ([False] if why else [])
    assert all("the memory of 'a' and of 2 other labels grows" in problem.message for problem in found)
    assert all(why in problem.message for problem in found)


def _with(probe: PingReport | None) -> Context:
    ctx = context()
    return type(ctx)(settings={}, site=ctx.site, paths=ctx.paths, templates={}, probe=probe)


def test_tasks_are_counted_by_their_labels() -> None:
    settings = JobSettings(label="a")
    jobs = [
        job("one", label="a"),
        *(
            Job(
                name=f"of_{many}", label="a", command="true", settings=settings, tasks=3, quanta=(("x", many), ("y", 2))
            )
            for many in (1, 5)
        ),
    ]
    text = rendered(Workflow("w", Dag.by_name(jobs)), context())["wms/run.dag"]
    assert 'My.bps_job_quanta = "a:1"' in text
    assert 'My.bps_job_quanta = "x:$(q);y:2"' in text
    assert 'q="5"' in text
    assert 'SET_JOB_ATTR bps_run_quanta = "a:1;x:6;y:4"' in text


# ------------------------------------------------------------------------------------------------ settings of the run


@pytest.mark.parametrize(
    ("given", "words", "hint"),
    [
        ({"DAGMAN_MAX_JOBS_IDEL": 3}, "no setting of DAGMan", "Did you mean 'DAGMAN_MAX_JOBS_IDLE'?"),
        ({"DAGMAN_MAX_JOBS_IDLE": "many"}, "must be a whole number", ""),
        ({"DAGMAN_USE_JOIN_NODES": 3}, "must be true or false", ""),
        ({"DAGMAN_DEFAULT_NODE_LOG": "x"}, "cannot set 'DAGMAN_DEFAULT_NODE_LOG'", "Leave it out."),
        ([1], "'wmsConfig' must be a map", ""),
    ],
)
def test_settings_of_dagman_are_typed(given: Any, words: str, hint: str) -> None:
    (problem,) = _problems(context(run={"wmsConfig": given}))
    assert words in problem.message
    assert problem.hint.startswith(hint)


def test_settings_of_dagman_are_rendered() -> None:
    given = {"dagman_max_jobs_idle": 7, "DAGMAN_GENERATE_SUBDAG_SUBMITS": True}
    assert dagman_settings(context(run={"wmsConfig": given})) == [
        ("DAGMAN_GENERATE_SUBDAG_SUBMITS", "true"),
        ("DAGMAN_MANAGER_JOB_APPEND_GETENV", "TRUE"),
        ("DAGMAN_MAX_JOBS_IDLE", "7"),
        ("DAGMAN_MAX_SUBMIT_ATTEMPTS", "11"),
    ]
    own = dagman_settings(context(run={"wmsConfig": {"DAGMAN_MAX_SUBMIT_ATTEMPTS": 3}}))
    assert ("DAGMAN_MAX_SUBMIT_ATTEMPTS", "3") in own
    assert all(name.isupper() for name in DAGMAN_SETTINGS)


@pytest.mark.parametrize("given", [{"heavy": "x"}, {"heavy": 0}, {"heavy": True}, [3]])
def test_numbers_of_jobs_of_a_category_are_numbers(given: Any) -> None:
    (problem,) = _problems(context({"htcondor": {"maxJobs": given}}))
    assert "'htcondor.maxJobs" in problem.message


# ---------------------------------------------------------------------------------------------------- what is written


def _description(ctx: Context | None = None, **settings: Any) -> str:
    return rendered(Workflow("w", Dag.by_name([job("a", **settings)])), ctx or context())["wms/run.dag"]


def test_user_lines_come_last() -> None:
    own = {
        "attrs": {"Night": "x y", "Deep": True},
        "profile.condor": {"+Proj": '"s"', "request_memory": "5GB", "stream_output": True, "rank": None},
        "directives": ["use_oauth_services = box"],
        "overwriteJobFiles": True,
    }
    text = _description(service_settings=own, request=Request(memory_b=100 * MIB))
    lines = [line.strip() for line in text[: text.index("\n}")].splitlines()]
    assert lines[-5:] == [
        *('My.Night = "x y"', "My.Deep = true", '+Proj = "s"', "request_memory = 5GB", "stream_output = true")
    ] or lines[-6:] == [
        *('My.Night = "x y"', "My.Deep = true", '+Proj = "s"', "request_memory = 5GB", "stream_output = true"),
        "use_oauth_services = box",
    ]
    assert "$(n).$(Cluster).log" in text


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("none", "getenv = HOME, LANG, LOGNAME, PATH, SHELL, TZ, USER\n"),
        (["LSST_*", "GITHUB_TOKEN"], "!*ENCRYPTION_KEY*, LSST_*, GITHUB_TOKEN\n"),
        ("all", "!*TOKEN*, *\n"),
    ],
)
def test_names_are_inherited_and_values_never_written(rule: Any, expected: str) -> None:
    assert expected in _description(context(executor={"inherit": rule}))


def test_notification_needs_an_address() -> None:
    assert "notif" not in _description()
    assert "notification = Complete" in _description(attributes={"mailTo": "x@y", "whenToMail": "complete"})


def test_a_job_that_ends_the_run_is_not_tried_again_first() -> None:
    text = _description(attributes={"abortOnValue": 9}, number_of_retries=3)
    assert "member(ExitCode, {9,126,127})" in text
    assert "ABORT-DAG-ON j0 9\n" in text


def test_settings_of_a_job_hold_for_its_kind_alone() -> None:
    settings = JobSettings(label="a")
    assert "request_memory" not in _description()
    assert settings.request.memory_b is None


def test_numbers_of_the_run_hold_unless_the_services_own_map_has_others() -> None:
    ctx = context({"htcondor": {"maxJobs": {"heavy": 2}}}, max_jobs={"heavy": 9, "light work": 3})
    assert max_jobs(ctx) == {"heavy": 2, "light_work": 3}


def test_without_bindings_a_run_is_refused_before_its_graph_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "htcondor2", None)
    (tmp_path / "condor_config").touch()
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "condor_config"))
    (tmp_path / "DRP.yaml").write_text("description: x\ntasks: {isr: {class: lsst.ip.isr.IsrTask}}\n", "utf-8")
    (tmp_path / "run.yaml").write_text(
        "wmsServiceClass: lsst.ctrl.bps.htcondor.HTCondorService\npipelineYaml: DRP.yaml\nbutlerConfig: repo\n"
        f"inCollection: c\nmemoryMultiplier: 2\ncreateQuantumGraph: 'touch {tmp_path}/made'\n",
        "utf-8",
    )
    said = ProgressNotes()
    with pytest.raises(ServiceError, match="needs HTCondor's Python bindings") as caught:
        submit(tmp_path / "run.yaml", progress=said)
    assert caught.value.exit_status == 4
    assert lint_file(tmp_path / "run.yaml", with_probe=True).exit_status() == 4
    assert not (tmp_path / "made").exists()
    assert not any("pool" in note for note in said.notes)
