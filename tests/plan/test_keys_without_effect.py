"""Of each key, on each service: it changes what the run does there, or a note names it.

What a run does is what its service gets of it: the files that are rendered, the scripts of batches, the limits and
rules of attempts, and the settings that an engine and its executor read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshore.config.layers import Overrides
from longshore.config.lint import RunService, find_keys_without_effect
from longshore.config.schemas import configuration_schema, site_schema
from longshore.engine.policy.retry import make_retry_rules
from longshore.engine.run.members import make_attempt_limits
from longshore.errors import LongshoreError
from longshore.jobs.commands import full_command
from longshore.model.workflow import Job, Workflow
from longshore.plan.acquire import acquire_run
from longshore.plan.clustering import cluster_run
from longshore.plan.configuration import read_draft
from longshore.plan.lint import lint_configuration
from longshore.plan.resolved_run import ResolvedRun, resolve_run
from longshore.plan.run_plan import plan_run
from longshore.plan.site_choice import resolve_at_chosen_site
from longshore.progress import QuietProgress, RecordingProgress
from longshore.services.batch.check import batch_of
from longshore.services.batch.pilots.setup import pilots_executor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.batch.script_writer import ScriptWriter
from longshore.services.batch.service import BatchService
from longshore.services.batch.settings import own_map
from longshore.services.htcondor.render.settings import UNUSED_KEYS
from longshore.services.local.executor import LocalExecutor

SERVICES: Final = ("local", "slurm", "sge", "lsf", "htcondor")
_NAMES: Final = "cpu_resource mem_resource tmp_resource parallelEnvironment"
_SITES: Final[dict[str, dict[str, Any]]] = {
    "sge": {"sge": {"bin": "/opt/sge/bin", "root": "/opt/sge", **dict.fromkeys(_NAMES.split(), "some")}},
}
"""What the site of a service needs so that a request can have an effect there."""

EVERYWHERE: Final = frozenset(
    word
    for line in """
    # What the jobs are, and which place and service they have.
    bpsGenerateConfig computeSite fallback convertFrom siteSelection computeCloud expectedRunTime wfformat pipeline
    pipelineYaml graphFile graphSource maxTasks includeConfigs allowFunctions wmsServiceClass sitePath clusterAlgorithm
    clusterRunTime templateDataId useNodeIdInClusterName useLazyCommands validateClusteredQgraph replay payloadName
    output outputRun dataQuery runInit butlerConfig inCollection qgraphFile qgraphFileTemplate defaultPreCmdOpts
    qgraphPreCmdOpts updateQgraphPreCmdOpts initPreCmdOpts runPreCmdOpts extraQgraphOptions extraUpdateQgraphOptions
    extraInitOptions extraRunQuantumOptions extraAggregateOptions pipetaskOutput pipetaskInput pipetaskDataQuery
    fileDistributionEndPoint createQuantumGraph updateQuantumGraph bpsUseShared whenSaveJobQgraph executionButler
    # The directory of the run, and what reports of it say.
    operator project campaign uniqProcName submitPath makeIdLink idLinkPath saveClusteredQgraph saveGenericWorkflow
    saveDot umask group
    # The site itself: whether it is chosen, and what its operator lets nobody exceed.
    title inherits hosts disabled service capabilities resourceGraph siteState
    limits.cpus limits.memory limits.walltime
    """.splitlines()
    if "#" not in line
    for word in line.split()
)
"""Keys that act before a service is asked, and so on all alike."""

RETRIES: Final = {"numberOfRetries": 2}
TOGETHER: Final = {"clusterAlgorithm": "dimension_clustering", "cluster": {"both": {"pipetasks": "a, b"}}}
JOB: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "runQuantumCommand": ("echo other", {}),
    "workingDirectory": ("/tmp", {}),
    "requestCpus": (3, {}),
    "requestMemory": (777, {}),
    "requestMemoryMax": (9000, {}),
    "requestDisk": (50, {}),
    "requestWalltime": ("1:30", {}),
    "requestWalltimeMax": ("5:00", {"requestWalltime": "1:00", "walltimeMultiplier": 2}),
    "requestResources": ({"gpus": 1}, {"resources": {"cpus": 8, "gpus": 2}}),
    "environment": ({"NEW": "value"}, {}),
    "limitThreads": (False, {}),
    "numberOfRetries": (4, {}),
    "retryOnMemory": (1, {}),
    "retryOnTime": (7, {"walltimeMultiplier": 2, "requestWalltime": "1:00"}),
    "retryUnlessExit": ([3], RETRIES),
    "retryUnstartable": (True, RETRIES),
    "retryOn": ({"exit": [9]}, {**RETRIES, "retryUnlessExit": [9]}),
    "retryOnPreempted": (3, {}),
    "retryOnTransfer": (9, RETRIES),
    "retryDelay": (17, RETRIES),
    "retryDelayMax": (18, RETRIES),
    "memoryMultiplier": (3, {}),
    "memoryGrowth": ("measured", {}),
    "memoryLimit": (9000, {}),
    "walltimeMultiplier": (3, {"requestWalltime": "1:00"}),
    "enforceMemory": ("all", {}),
    "memoryGrace": ("50%", {"requestMemory": 100}),
    "maxLogSize": ("5M", {}),
    "successIf": ({"exit": [0, 3]}, {}),
    "checkOutputs": ("fresh", {}),
    "keepTmp": (True, {}),
    "keepLogs": ("failed", {}),
    "resumeTasks": (False, TOGETHER),
    "queue": ("long", {}),
    "priority": (5, {}),
    "category": ("heavy", {"maxJobs": {"heavy": 2}}),
    "accountingGroup": ("theirs", {}),
    "accountingUser": ("another", {}),
    "mailTo": ("me@example.org", {}),
    "whenToMail": ("Always", {"mailTo": "me@example.org"}),
    "concurrencyLimit": ("db", {"concurrencyLimits": {"db": 2}}),
    "abortOnValue": (7, {}),
    "abortReturnValue": (8, {"abortOnValue": 7}),
    "preCmdline": ("echo before", {}),
    "postCmdline": ("echo after", {}),
    "packing": ("pilot", {}),
    "preemptible": (False, {}),
    "profile": ({"condor": {"+Mine": "1"}}, {}),
    "attrs": ({"Mine": 1}, {}),
    "directives": (["-v"], {}),
    "container": ("apptainer exec image.sif", {}),
    "status": ({"returncode": 3}, {}),
    "nodeset": ("mine", {}),
    "releaseExpr": ("HoldReasonCode == 3", {}),
    "overwriteJobFiles": (False, {}),
    "htcondor": ({"maxJobs": {"heavy": 1}}, {"category": "heavy"}),
    "sbatch": (["-C fast"], {}),
    "slurm": ({"qos": "fast"}, {}),
    "lsf": ({"application": "small"}, {}),
    "bsub": (["-app small"], {}),
    "sge": ({"hard": "-l arch=lx-amd64"}, {}),
}
"""A value of each key, and what else must be there so that it has an effect where its service uses it."""
RUN: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "resources": ({"cpus": 3}, {}),
    "concurrencyLimits": ({"db": 3}, {"concurrencyLimit": "db"}),
    "maxJobs": ({"heavy": 3}, {"category": "heavy"}),
    "pilot": ({"cpus": 7}, {}),
    "shareMachine": (False, {}),
    "subDirTemplate": ("mine/{label}", {}),
    "remoteBuild": ({"enabled": True}, {}),
    "retryOnLost": (7, {}),
    "killGrace": (33, {}),
    "killSignals": (["INT", "TERM"], {}),
    "maxFastFailures": (3, {}),
    "fastFailureTime": (3, {}),
    "backendOptions": ("", {}),
    "executeMachinesPattern": (".*big.*", {}),
    "provisionResources": (True, {"provisioning": {"provisioningMaxWallTime": "1:00:00"}}),
    "provisioning": ({"provisioningMaxWallTime": "2:00:00"}, {"provisionResources": True}),
    "wmsConfig": ({"DAGMAN_MAX_JOBS_IDLE": 5}, {}),
    "notify": ({"n": {"events": "end", "command": "true"}}, {}),
}
OPTIONS: Final = {"slurm": "-p other", "lsf": "-q other", "sge": "-20"}
SITE: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "account": ("theirs", {}),
    "limits.queued": (5, {}),
    "limits.running": (5, {}),
    "limits.arraySize": (5, {}),
    "limits.submitRate": ("5/min", {}),
    "limits.pollFloor": (90, {}),
    "limits.perUser": ({"jobs": 5}, {}),
    "resources": ({"cpus": 3}, {}),
    "partitions": ([{"name": "other"}], {}),
    "qos": ("fast", {}),
    "directives": (["-v"], {}),
    "setup.submit": (["true"], {}),
    "setup.job": (["true"], {}),
    "modules": (["gcc"], {}),
    "inheritEnvironment": ("none", {}),
    "scratch": ("/tmp", {}),
    "fileSystem": ("scratch", {}),
    "transferCommand": ("cp {source} {target}", {"fileSystem": "scratch"}),
    "container": ("apptainer exec image.sif", {}),
    "templates": ({"batch.sh": "mine.j2"}, {}),
    "htcondor": JOB["htcondor"],
    "slurm": JOB["slurm"],
    "lsf": JOB["lsf"],
    "sge": JOB["sge"],
}


def keys_of(properties: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Each key, and in place of a map whose keys have users or places of their own, these."""
    for key, entry in properties.items():
        below = entry.get("properties", {})
        if key in {"limits", "setup"}:
            yield from keys_of(below, f"{key}.")
        else:
            yield f"{prefix}{key}"


SCHEMA: Final = configuration_schema()
LEVELS: Final = {
    "job": (JOB, tuple(keys_of(SCHEMA["$defs"]["job"]["properties"]))),
    "run": (RUN, tuple(keys_of({**SCHEMA["$defs"]["payload"]["properties"], **SCHEMA["$defs"]["run"]["properties"]}))),
    "site": (SITE, tuple(keys_of(site_schema()["properties"]))),
}
CASES: Final = [(level, key) for level, (samples, _) in LEVELS.items() for key in samples]


def test_each_key_of_the_schema_has_a_case_or_acts_before_a_service_does() -> None:
    for level, (samples, known) in LEVELS.items():
        beyond = {*known} & EVERYWHERE
        assert {*samples} | beyond == {*known} | ({"notify"} if level == "run" else set()), level
        assert not {*samples} & EVERYWHERE, level


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.j2").write_text("#!/bin/sh\n# mine\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODULESHOME", "/opt/modules")
    return tmp_path


def configuration(service: str, values: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """A run of two jobs at a site of a service."""
    here = _merged({"service": service}, _merged(_SITES.get(service, {}), site))
    base = {
        "computeSite": "here",
        **({"resources": {"cpus": 8, "memory": "16G", "disk": "10G"}} if service == "local" else {}),
        "submitPath": "run",
        "payload": {"outputRun": "run"},
        "site": {"here": here},
        "pipeline": {"tasks": {"a": {"command": "true", "outputs": {"o": "o.txt"}}, "b": {"command": "true"}}},
    }
    return _merged(base, values)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(below)
    for key, value in above.items():
        old = found.get(key)
        found[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return found


class Outcome(msgspec.Struct):
    """What a run does, and what was told of it."""

    does: str
    notes: list[str]


def outcome(document: Mapping[str, Any]) -> Outcome:
    """Plan a run without its workload manager."""
    Path("run.yaml").write_text(yaml.safe_dump(dict(document)), "utf-8")
    progress = RecordingProgress(QuietProgress())
    try:
        run = resolve_run(Path("run.yaml"), now=0.0, progress=progress, with_probe=False)
        plan = plan_run(cluster_run(acquire_run(run, progress)), progress)
        does = repr(list(observe(run, plan.workflow)))
    except LongshoreError as error:
        does = f"{error.message} {[each.message for each in error.details]}"
    return Outcome(does=does, notes=progress.notes)


def observe(run: ResolvedRun, workflow: Workflow) -> Iterator[object]:
    """All that a service gets of a run."""
    service, ctx = run.service, run.context
    rendered = {str(each.path): "".join(each.chunks()) for each in service.render(workflow, ctx)}
    engine = dict(ctx.settings)
    if service.name == "htcondor":
        # By this the pool is asked for the largest machine.
        yield rendered, ctx.settings["run"].get("executeMachinesPattern")
        return
    executor = engine.pop("executor")
    del rendered["wms/engine.json"]
    rendered = {path: text for path, text in rendered.items() if not path.startswith(("workflow", "wms/jobs.tsv"))}
    yield rendered, workflow.log_folders
    has_keeper = service.name == "local" or "pilot" in executor
    # Nobody but a keeper asks a job to end before it kills it, and only runs on this machine share it.
    for key, is_read in (("grace_s", has_keeper), ("share_machine", service.name == "local")):
        if not is_read:
            engine.pop(key)
    yield engine
    for job in workflow:
        yield _engine_view(job, has_keeper=has_keeper, preempts=service.name != "local")
    if isinstance(service, BatchService):
        yield from _batch_view(run, workflow, service, executor)
    else:
        yield LocalExecutor(executor).limits
        yield {key: executor.get(key) for key in ("pool", "signals", "grace_s", "inherit", "scratch")}


def _engine_view(job: Job, *, has_keeper: bool, preempts: bool) -> tuple[object, ...]:
    """What an engine reads of a job: its command, its request, and the rules by which its ends are judged."""
    own, rules = job.settings, make_retry_rules(job.settings, retries_on_lost=1, capacity=None)
    if not preempts:
        rules = msgspec.structs.replace(rules, retries_on_preempted=0)
    return (
        full_command(job.command, own), {**own.environment, **job.environment}, own.working_directory,
        own.limit_threads, own.request, rules, own.rules.success_if, own.rules.check_outputs,
        own.rules.resume_tasks, own.rules.staging,
        own.rules.bounds.logs, own.priority, own.category, own.concurrency,
        make_attempt_limits(own.rules.bounds, own.request) if has_keeper else None,
    )  # fmt: skip


def _batch_view(
    run: ResolvedRun, workflow: Workflow, service: BatchService, executor: Mapping[str, Any]
) -> Iterator[object]:
    """What a batch system gets, and how it is called."""
    ctx, dialect = run.context, service.dialect(own_map(service.name, executor))
    writer = ScriptWriter(dialect, ctx.paths, executor, ctx.templates[BATCH_TEMPLATE.name.removesuffix(".j2")])
    yield [writer.text(batch_of(job.settings)) for job in workflow]
    plain = {key: value for key, value in executor.items() if key != "pilot"}
    yield service.executor(plain).limits
    yield executor.get("setup"), executor.get("inherit")
    if "pilot" in executor:
        yield pilots_executor(executor, service.client).rule.pilot
        yield [job.settings.attributes.get("packing") for job in workflow]


def pair(service: str, level: str, key: str, *, pilots: bool = False) -> tuple[Outcome, Outcome]:
    """The run without and with a key."""
    samples, _ = LEVELS[level]
    value, context = samples[key]
    value = OPTIONS.get(service, "-x") if key == "backendOptions" else value
    value = {"run-job": "mine.j2"} if (key, service) == ("templates", "local") else value
    around = {"packing": "pilot", **context} if pilots else context
    for name in reversed(key.split(".")):
        value = {name: value}
    if level == "site":
        return outcome(configuration(service, {}, around)), outcome(configuration(service, {}, _merged(around, value)))
    return outcome(configuration(service, around, {})), outcome(configuration(service, _merged(around, value), {}))


def tells(notes: list[str], key: str) -> bool:
    return any(f"{key}' has no effect" in note or f"'{key}: " in note for note in notes)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(("level", "key"), CASES)
def test_a_key_has_an_effect_or_a_note(level: str, key: str, service: str) -> None:
    without, with_key = pair(service, level, key)
    has_effect, has_note = without.does != with_key.does, tells(with_key.notes, key)
    assert has_effect is not has_note, f"effect: {has_effect}, notes: {with_key.notes}\n{with_key.does[:3000]}"


@pytest.mark.parametrize("service", ["slurm", "sge", "lsf"])
@pytest.mark.parametrize("key", ["enforceMemory", "memoryGrace", "maxLogSize", "killGrace", "killSignals", "pilot"])
def test_keys_of_keepers_have_an_effect_where_jobs_may_run_in_pilots(key: str, service: str) -> None:
    without, with_key = pair(service, "job" if key in JOB else "run", key, pilots=True)
    assert without.does != with_key.does
    assert not tells(with_key.notes, key)


PLACES: Final = {
    "job": ((), ("payload",), ("pipetask", "a"), ("site", "here"), ("finalJob",)),
    "run": ((), ("payload",)),
    "site": (("site", "here"),),
}
SINGLE: Final = frozenset({"backendOptions", "templates", "status", "successIf", "bsub"})
"""Keys that need a value of the service, exclude each other, or are an error on another service."""


def users_of(level: str, key: str) -> frozenset[str]:
    """The users that the schema names; all services for none."""
    *outer, last = key.split(".")
    schema = site_schema() if level == "site" else SCHEMA["$defs"][level]
    for name in outer:
        schema = schema["properties"][name]
    return frozenset(schema["properties"].get(last, {}).get("x-users", SERVICES))


USERS: Final = {case: users_of(*case) for case in CASES if case[1] not in SINGLE}


@st.composite
def placed_keys(draw: st.DrawFn, cases: list[tuple[str, str]]) -> tuple[str, dict[str, Any]]:
    """A key with its value at a place that it may have."""
    level, key = draw(st.sampled_from(cases))
    value = LEVELS[level][0][key][0]
    for name in reversed([*draw(st.sampled_from(PLACES[level])), *key.split(".")]):
        value = {name: value}
    return key, value


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), service=st.sampled_from(SERVICES))
def test_a_configuration_has_a_note_for_each_key_without_effect_and_no_other(data: st.DataObject, service: str) -> None:
    # With pilots, further keys are used.
    used = [case for case, users in USERS.items() if service in users and case[1] != "packing"]
    unused = [case for case, users in USERS.items() if service not in users]
    document = configuration(service, {}, {})
    for _, part in data.draw(st.lists(placed_keys(used), max_size=6)):
        document = _merged(document, part)
    document.pop("maxJobs", None)
    assert _notes(document) == []
    told, part = data.draw(placed_keys(unused))
    notes = _notes(_merged(document, part))
    assert [tells([note], told) for note in notes] == [True], notes


def _notes(document: Mapping[str, Any]) -> list[str]:
    """The notes on keys without effect; what else is wrong with a configuration of any keys is of no interest here."""
    Path("run.yaml").write_text(yaml.safe_dump(dict(document)), "utf-8")
    found = lint_configuration(read_draft(Path("run.yaml"), now=0.0))
    return [each.message for each in found if each.told]


def test_what_no_service_of_ours_uses_is_told_on_each() -> None:
    for service in SERVICES:
        assert tells(_notes(configuration(service, {"remoteBuild": {"enabled": True}}, {})), "remoteBuild")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("queue: long\nrunQuantumCommand: 'echo {queue}'\n", []),
        ("mailTo: ''\nsbatch: []\nslurm: {}\nqueue: null\n", []),
        ("keepTmp: false\npipetask: {a: {keepLogs: all}}\n", []),
        ("pipetask: {a: {mailTo: me}, b: {mailTo: you}}\n", ["pipetask.a.mailTo", "pipetask.b.mailTo"]),
        ("finalJob: {command: 'true', mailTo: me}\n", ["finalJob.mailTo"]),
        ("slurm: {partition: a}\nsge: {hard: -l a=b}\n", ["sge", "slurm"]),
        ("site: {there: {service: slurm, slurm: {partition: a}, queue: b}}\n", []),
        ("site: {here: {setup: {submit: [x], job: [y]}}}\n", ["site.here.setup.submit"]),
    ],
)
def test_what_has_a_note_on_this_machine(text: str, names: list[str]) -> None:
    document = _merged(configuration("local", {}, {}), yaml.safe_load(text))
    document.pop("resources")
    assert [note.split("'")[1] for note in _notes(document)] == names


def test_notes_are_told_by_a_submission_have_their_place_and_are_no_warnings() -> None:
    Path("run.yaml").write_text("computeSite: local\nqueue: long\npipeline: {tasks: {a: {command: x}}}\n", "utf-8")
    progress = RecordingProgress(QuietProgress())
    resolve_run(Path("run.yaml"), now=0.0, progress=progress, with_probe=False)
    (note,) = progress.notes
    assert note == (
        "run.yaml:2:1: 'queue' has no effect: it is for the services 'slurm', 'sge' and 'lsf', and this run's is "
        "'local'. Choose a site of 'slurm', 'sge' or 'lsf' with 'computeSite', or leave it out."
    )
    assert progress.warnings == []


def test_the_reason_of_a_service_is_told() -> None:
    for key, why in (("queue", "HTCondor has no queues"), ("keepLogs", "HTCondor writes the logs, and they stay")):
        (note,) = _notes(configuration("htcondor", {key: "failed"}, {}))
        assert note.startswith(f"'{key}' has no effect on the service 'htcondor': {why}")
    (note,) = _notes(configuration("htcondor", {}, {"limits": {"queued": 3}}))
    assert note.startswith("'site.here.limits.queued' has no effect on the service 'htcondor': DAGMan's own limit is")


def test_the_reasons_of_htcondor_are_of_keys_that_it_does_not_use() -> None:
    keys = {key: USERS.get((level, key), frozenset()) for level, key in CASES}
    assert {key for key in UNUSED_KEYS if "htcondor" in keys[key]} == set()


def test_keys_that_a_fallback_drops_are_told_in_one_note() -> None:
    text = "computeSite: far\nsite: {far: {service: slurm, slurm: {partition: x}, setup: {submit: [y]}}}\n"
    Path("run.yaml").write_text(
        f"{text}mailTo: me\naccountingGroup: us\npipeline: {{tasks: {{a: {{command: x}}}}}}\n", "utf-8"
    )
    progress = RecordingProgress(QuietProgress())
    resolve_at_chosen_site(Path("run.yaml"), Overrides({"fallback": "always"}), now=0.0, progress=progress)
    (note,) = [note for note in progress.notes if "mailTo" in note]
    assert note == (
        "run.yaml:3:1: 'mailTo' and 'accountingGroup' have no effect on this machine, in place of the workload manager"
    )


def test_a_plug_in_of_bps_gets_the_keys_of_bps_and_none_of_an_engine() -> None:
    Path("run.yaml").write_text("queue: a\nmailTo: b\nsuccessIf: {exit: 3}\nkillGrace: 3\nattrs: {a: 1}\n", "utf-8")
    root = read_draft(Path("run.yaml"), now=0.0).config.root
    service = RunService(name="a.plug.in", users=frozenset({"bps"}))
    found = find_keys_without_effect(root, SCHEMA, service)
    assert sorted(each.path for each in found) == [("killGrace",), ("successIf",)]


def test_of_a_service_that_the_schema_does_not_name_only_keys_of_others_are_judged() -> None:
    Path("run.yaml").write_text("queue: a\nslurm: {partition: x}\nshareMachine: false\n", "utf-8")
    root = read_draft(Path("run.yaml"), now=0.0).config.root
    service = RunService(name="berth", users=frozenset({"berth"}), others={"slurm": "slurm"}, is_known=False)
    (found,) = find_keys_without_effect(root, SCHEMA, service)
    assert found.message == "'slurm' has no effect: it is for the service 'slurm', and this run's is 'berth'"


GIVEN: Final = {"extraInitOptions": "x", "inCollection": "a", "dataQuery": "visit = 1", "idLinkPath": "links"}


@pytest.mark.parametrize(
    ("payload", "used", "names"),
    [
        ("pipeline: {tasks: {a: {command: x}}}\n", "", ["--extra-init-options", "--input", "--id-link-path"]),
        ("pipeline: {tasks: {a: {command: 'x {inCollection}'}}}\n", "", ["--extra-init-options", "--id-link-path"]),
        ("pipelineYaml: tasks.yaml\n", "{inCollection}", ["--extra-init-options", "--id-link-path"]),
        (
            "wfformat: w.json\nrunQuantumCommand: x\nmakeIdLink: true\n",
            "",
            ["--extra-init-options", "--input", "--data-query"],
        ),
    ],
)
def test_options_of_bps_without_effect_on_a_payload_have_a_note(payload: str, used: str, names: list[str]) -> None:
    Path("tasks.yaml").write_text(f"tasks: {{a: {{command: 'x {used}'}}}}\n", "utf-8")
    Path("run.yaml").write_text(f"computeSite: local\nwmsServiceClass: local\n{payload}", "utf-8")
    draft = read_draft(Path("run.yaml"), Overrides(GIVEN), now=0.0)
    notes = [each.message for each in lint_configuration(draft) if each.told]
    assert [note.split("'")[1] for note in notes] == names


def test_keys_of_quantum_graphs_are_named_as_they_are_written() -> None:
    text = "payload: {butlerConfig: repo}\nextraQgraphOptions: ''\npipeline: {tasks: {a: {command: x}}}\n"
    Path("run.yaml").write_text(f"computeSite: local\nwmsServiceClass: local\n{text}", "utf-8")
    (found,) = [each for each in lint_configuration(read_draft(Path("run.yaml"), now=0.0)) if each.told]
    assert found.message.startswith("'payload.butlerConfig' has no effect: the payload is no quantum graph")
    assert (found.origin.line, found.origin.column) == (3, 11)


def test_a_template_that_the_service_does_not_have_is_told_with_the_nearest_name() -> None:
    Path("run.yaml").write_text(
        "computeSite: x\nsite: {x: {service: slurm, templates: {bacth.sh: mine.j2, engine.sh: mine.j2}}}\n", "utf-8"
    )
    (found,) = [each for each in lint_configuration(read_draft(Path("run.yaml"), now=0.0)) if each.told]
    assert found.message == "'templates.bacth.sh' has no effect: the service 'slurm' has no such template"
    assert found.hint == "Did you mean 'batch.sh'?"


@pytest.mark.parametrize(
    ("templates", "names"),
    [
        ("{batch.sh: mine.j2}", ["site.x.templates"]),
        ("{longshore-job: mine.j2}", []),
        ("{longshore-job: mine.j2, batch.sh: mine.j2}", ["templates.batch.sh"]),
    ],
)
def test_of_templates_htcondor_has_the_program_of_jobs_alone(templates: str, names: list[str]) -> None:
    text = f"computeSite: x\nsite: {{x: {{service: htcondor, templates: {templates}}}}}\n"
    Path("run.yaml").write_text(text, "utf-8")
    found = [each.message for each in lint_configuration(read_draft(Path("run.yaml"), now=0.0)) if each.told]
    assert [message.split("'")[1] for message in found] == names


RUN_KEYS: Final = {
    "slurm": {"pollInterval": 9, "repo_key": "x", "use_nice": True, "engineAs": "job"},
    "sge": {"onSubmitError": "run", "use_priority": True},
    "lsf": {"fence": True, "envdir": "/elsewhere"},
}


@pytest.mark.parametrize("service", RUN_KEYS)
def test_settings_of_a_run_in_the_map_of_a_label_are_told(service: str) -> None:
    own = RUN_KEYS[service]
    of_label = outcome(configuration(service, {"pipetask": {"a": {service: {**own, "maxpendtime": 60}}}}, {}))
    (note,) = of_label.notes
    words, _, why = note.partition(" of 'a' have no effect: ")
    assert re.findall(r"'([\w.]+)'", words) == [f"{service}.{name}" for name in sorted(own)]
    assert why.startswith("the site sets such keys for the run. Write them below 'site.here.")
    assert outcome(configuration(service, {service: own}, {})).notes == []
    assert outcome(configuration(service, {}, {service: own})).notes == []
