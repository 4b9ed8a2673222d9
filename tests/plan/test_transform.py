"""Clusters become jobs with values of their own, in the clusters' order; equal settings are shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.plan.graphs import workflow_of

from longshore.config.interpolate import Scope
from longshore.config.merge import to_node
from longshore.config.profile import JobProfile, compile_profile
from longshore.config.search import Config
from longshore.contract.algorithms import ClusteringSettings
from longshore.errors import ConfigError, Origin, PreparationError
from longshore.graphs.declarations import PER_JOB
from longshore.jobs.scripts import join_commands
from longshore.model.tasks import Cluster, ClusteredGraph, ClusterMember, Dag, File, Scalar, Task, TaskGraph
from longshore.model.workflow import MIB, Job, JobSettings
from longshore.plan.clustering import cluster_single_tasks
from longshore.plan.jobs import MAX_NODE_IDS, SpecialJobs, compile_profiles, free_names, transform

HERE = Origin("here.yaml", 1, 1, "file")


def tasks() -> TaskGraph:
    """Two chains of two tasks."""
    isr = [
        Task(name=f"isr_{visit}", label="isr", data_id={"visit": visit}, command="run isr", outputs=(f"out{visit}",))
        for visit in (1, 2)
    ]
    cal = [
        Task(
            name=f"cal_{visit}",
            label="cal",
            data_id={"visit": visit, "band": "r"},
            command="run",
            inputs=(f"out{visit}",),
        )
        for visit in (1, 2)
    ]
    files = {f"out{visit}": File(name=f"out{visit}", path=f"data/{visit}.fits") for visit in (1, 2)}
    return TaskGraph(name="g", dag=Dag([*isr, *cal], [(0, 2), (1, 3)]), files=files)


def together(graph: TaskGraph) -> ClusteredGraph:
    """All tasks of one visit in one cluster."""
    isr1, isr2, cal1, cal2 = graph.dag.nodes
    clusters = [
        Cluster(name="v1", label="visit", tags={"visit": 1}, tasks=(isr1, cal1)),
        Cluster(name="v2", label="visit", tags={"visit": 2}, tasks=(isr2, cal2)),
    ]
    return ClusteredGraph(name="g", dag=Dag(clusters, []), source=graph)


def test_the_names_a_job_has_values_of_its_own_for() -> None:
    assert free_names(cluster_single_tasks(tasks(), ClusteringSettings())) == {
        ("isr", "isr", "isr"): PER_JOB | {"visit"},
        ("cal", "cal", "cal"): PER_JOB | {"visit", "band"},
    }
    assert free_names(together(tasks())) == {
        ("visit", "visit", "isr"): PER_JOB | {"visit"},
        ("visit", "visit", "cal"): PER_JOB | {"visit", "band"},
    }


def test_jobs_have_the_order_files_and_attributes_of_their_clusters() -> None:
    workflow = workflow_of(cluster_single_tasks(tasks(), ClusteringSettings()), {})
    assert workflow.name == "w"
    assert [job.name for job in workflow] == ["isr_1", "isr_2", "cal_1", "cal_2"]
    assert workflow.parents("cal_2") == ["isr_2"]
    assert workflow["isr_1"].outputs == workflow["cal_1"].inputs == ("out1",)
    assert workflow.files["out2"].path == "data/2.fits"
    assert workflow.attributes["bps_operator"] == "me"
    assert workflow["cal_1"].tags == {"visit": 1, "band": "r"}
    assert workflow["cal_1"].command == "run"


def test_a_command_of_the_users_replaces_that_of_the_source() -> None:
    workflow = workflow_of(
        cluster_single_tasks(tasks(), ClusteringSettings()),
        {
            "runQuantumCommand": "do {label} {jobName}",
            "pipetask": {"cal": {"runQuantumCommand": ["cal", "{visit}{band}"]}},
        },
    )
    assert workflow["isr_2"].command == "do isr isr_2"
    assert workflow["cal_2"].command == ("cal", "2r")


def test_variables_may_have_a_value_per_job() -> None:
    workflow = workflow_of(
        cluster_single_tasks(tasks(), ClusteringSettings()), {"environment": {"ALL": "x", "EACH": "v{visit}"}}
    )
    one, two = workflow["isr_1"], workflow["isr_2"]
    assert one.settings.environment == {"ALL": "x"}
    assert (one.environment, two.environment) == ({"EACH": "v1"}, {"EACH": "v2"})


def test_jobs_of_a_label_share_their_settings() -> None:
    workflow = workflow_of(cluster_single_tasks(tasks(), ClusteringSettings()), {"requestCpus": 2})
    assert workflow["isr_1"].settings is workflow["isr_2"].settings
    assert workflow["isr_1"].settings.request.cpus == 2
    assert workflow["isr_1"].settings.label == "isr"
    assert workflow["cal_1"].settings.label == "cal"


def test_requests_may_differ_from_job_to_job() -> None:
    graph = TaskGraph(
        name="g",
        dag=Dag([Task(name=f"t{n}", label="l", data_id={"size": n // 2}, command="x") for n in range(4)], []),
    )
    workflow = workflow_of(cluster_single_tasks(graph, ClusteringSettings()), {"requestMemory": "{size}000"})
    requests = [workflow[f"t{n}"].settings.request.memory_b for n in range(4)]
    assert requests == [None, None, 1000 * MIB, 1000 * MIB]
    # Those that ask for the same go on sharing.
    assert workflow["t2"].settings is workflow["t3"].settings
    assert workflow["t1"].settings is not workflow["t2"].settings


def test_invalid_request_of_one_job_is_refused() -> None:
    task = Task(name="t", label="l", data_id={"size": "huge"}, command="x")
    with pytest.raises(ConfigError, match="requestMemory"):
        workflow_of(
            cluster_single_tasks(TaskGraph(name="g", dag=Dag([task], [])), ClusteringSettings()),
            {"requestMemory": "{size}"},
        )


def test_a_task_without_a_command_is_an_error() -> None:
    task = Task(name="t", label="l")
    with pytest.raises(PreparationError, match="task 't' has no command") as raised:
        workflow_of(cluster_single_tasks(TaskGraph(name="g", dag=Dag([task], [])), ClusteringSettings()), {})
    assert "pipetask: {l: {runQuantumCommand: ...}}" in raised.value.hint


def test_cluster_stops_at_the_first_failed_task() -> None:
    workflow = workflow_of(together(tasks()), {})
    job = workflow["v1"]
    assert job.command == join_commands([("run isr", 1), ("run", 1)])
    assert (job.tasks, job.inputs, job.outputs) == (2, ("out1",), ("out1",))


def test_a_task_of_a_cluster_has_its_own_values() -> None:
    job = workflow_of(together(tasks()), {"runQuantumCommand": ["work", "{label}", "{jobLabel}", "{jobName}"]})["v2"]
    assert job.command == join_commands([("work isr visit v2", 1), ("work cal visit v2", 1)])


def special(name: str) -> Job:
    return Job(name=name, label=name, command="x", settings=JobSettings(label=name))


def test_the_init_job_is_before_all_others_and_the_last_one_after() -> None:
    jobs = SpecialJobs(init=special("init"), last=special("last"), final=special("final"))
    workflow = workflow_of(cluster_single_tasks(tasks(), ClusteringSettings()), {}, jobs)
    assert [job.name for job in workflow] == ["init", "isr_1", "isr_2", "cal_1", "cal_2", "last", "final"]
    assert workflow.parents("isr_1") == workflow.parents("isr_2") == ["init"]
    assert workflow.parents("cal_1") == ["isr_1"]
    assert sorted(workflow.parents("last")) == ["cal_1", "cal_2"]
    assert workflow.final
    assert workflow.final.name == "final"


def test_a_cluster_has_the_values_of_its_labels_together() -> None:
    settings = {
        "requestWalltime": 60,
        "pipetask": {"isr": {"requestMemory": 100}, "cal": {"requestMemory": 300, "requestCpus": 2}},
        "cluster": {"visit": {"queue": "q"}},
    }
    one, two = workflow_of(together(tasks()), settings)
    assert one.settings is two.settings, "alike, and worked out once"
    assert one.settings.label == "visit"
    assert one.settings.attributes["queue"] == "q"
    request = one.settings.request
    assert (request.memory_b, request.cpus, request.walltime_s) == (300 * MIB, 2, 120)


def test_command_in_a_cluster_uses_its_task_values() -> None:
    settings = {"pipetask": {"cal": {"runQuantumCommand": "cal {band} {visit}"}}}
    assert workflow_of(together(tasks()), settings)["v1"].command == join_commands([("run isr", 1), ("cal r 1", 1)])


def test_conflicting_labels_of_a_cluster_are_refused() -> None:
    settings: dict[str, Any] = {"pipetask": {"isr": {"queue": "a"}, "cal": {"queue": "b"}}}
    with pytest.raises(ConfigError, match="Inconsistent value for queue in cluster visit"):
        workflow_of(together(tasks()), settings)
    settings["cluster"] = {"visit": {"queue": "c"}}
    assert workflow_of(together(tasks()), settings)["v1"].settings.attributes["queue"] == "c"


def test_a_variable_whose_values_the_tasks_of_a_cluster_share() -> None:
    job = workflow_of(together(tasks()), {"environment": {"VISIT": "{visit}", "WHO": "{jobName}"}})["v2"]
    assert job.environment == {"VISIT": "2", "WHO": "v2"}
    with pytest.raises(ConfigError, match=r"Inconsistent value for environment.LABEL in cluster visit"):
        workflow_of(together(tasks()), {"environment": {"LABEL": "{label}"}})


def test_the_section_that_made_a_cluster_gives_its_values() -> None:
    task = Task(name="t", label="isr", command="x")
    cluster = Cluster(name="c", label="other", tasks=(task,), section="mine")
    clustered = ClusteredGraph(name="g", dag=Dag([cluster], []), source=TaskGraph(name="g", dag=Dag([task], [])))
    job = workflow_of(clustered, {"cluster": {"mine": {"queue": "q"}}})["c"]
    assert (job.settings.attributes["queue"], job.label, job.settings.label) == ("q", "other", "other")


def test_values_are_looked_up_per_kind_and_not_per_cluster() -> None:
    counts = [(1, 2), (2, 1), (1, 2), (1, 2), (2, 1), (1, 2)]
    clusters, looked_up = [], []
    for number, (isr, cal) in enumerate(counts):
        these = [Task(name=f"{number}i{each}", label="isr", command="x") for each in range(isr)]
        these += [Task(name=f"{number}c{each}", label="cal", command="x") for each in range(cal)]
        clusters.append(Cluster(name=f"c{number}", label="c", tasks=tuple(these)))
    graph = TaskGraph(name="g", dag=Dag([task for cluster in clusters for task in cluster.tasks], []))
    clustered = ClusteredGraph(name="g", dag=Dag(clusters, []), source=graph)
    config = Config(to_node({"pipetask": {"isr": {"requestDisk": 10}, "cal": {"requestDisk": 1}}}, HERE))

    def compiled(member: ClusterMember, free: frozenset[str]) -> JobProfile:
        looked_up.append(member.label)
        return compile_profile(config, member.label, Scope(free=free), cluster=member.section)

    profiles = compile_profiles(clustered, compiled)
    assert looked_up == ["isr", "cal"]
    assert len(profiles) == 2
    jobs = list(transform(clustered, profiles, name="w", attributes={}, special=SpecialJobs()))
    assert [(job.settings.request.disk_b or 0) // MIB for job in jobs] == [12, 21, 12, 12, 21, 12]
    assert len({id(job.settings) for job in jobs}) == 2


def quanta(ids: str, commands: dict[str, Any]) -> str:
    """The command of a cluster of tasks with ids, labelled by the letters they begin with."""
    these = tuple(Task(name=each, label=each[0], node_id=each, data_id={"visit": 1}) for each in ids.split())
    cluster = Cluster(name="cl", label="cl", tags={"visit": 1}, tasks=these)
    graph = TaskGraph(name="g", dag=Dag(these, []))
    workflow = workflow_of(ClusteredGraph(name="g", dag=Dag([cluster], []), source=graph), commands)
    command = workflow["cl"].command
    assert isinstance(command, str)
    return command


RUN = "run {qgraphNodeId}"


def test_a_command_takes_the_ids_of_all_tasks_of_a_job_sorted() -> None:
    assert quanta("b2 a3 a1", {"runQuantumCommand": RUN}) == "run a1,a3,b2"


def test_commands_that_differ_beyond_the_id_stay_separate() -> None:
    command = quanta("a2 a1 b1 b2", {"runQuantumCommand": f"{RUN} {{label}}"})
    assert command == join_commands([("run a1,a2 a", 2), ("run b1,b2 b", 2)])


def test_the_order_of_such_commands_is_that_of_the_tasks() -> None:
    settings = {"runQuantumCommand": RUN, "pipetask": {"c": {"runQuantumCommand": "other"}}}
    assert quanta("a2 a1 c1 a4 a3", settings) == join_commands([("run a1,a2", 2), ("other", 1), ("run a3,a4", 2)])


def test_ids_are_split_at_the_argument_limit() -> None:
    ids = [f"a{number:035}" for number in range(2 * MAX_NODE_IDS + 1)]
    commands = [line for line in quanta(" ".join(ids), {"runQuantumCommand": RUN}).splitlines() if "run a" in line]
    assert [line.count(",") + 1 for line in commands] == [MAX_NODE_IDS, MAX_NODE_IDS, 1]
    assert max(map(len, commands)) < 128 * 1024


def test_a_job_of_one_task_takes_its_id() -> None:
    task = Task(name="u1", label="isr", node_id="u1", data_id={"visit": 1})
    clustered = cluster_single_tasks(TaskGraph(name="g", dag=Dag([task], [])), ClusteringSettings())
    settings = {"runQuantumCommand": ["run", "{qgraphNodeId}", "{visit}"], "environment": {"NODE": "{qgraphNodeId}"}}
    job = workflow_of(clustered, settings)["u1"]
    assert (job.command, job.environment) == (("run", "u1", "1"), {"NODE": "u1"})


def test_tasks_are_counted_per_label() -> None:
    single = workflow_of(cluster_single_tasks(tasks(), ClusteringSettings()), {})
    assert single["isr_1"].quanta_counts == {"isr": 1}
    assert single.quanta_counts() == {"isr": 2, "cal": 2}
    final = Job(name="last", label="last", command="x", settings=JobSettings(label="last"), quanta=None)
    packed = workflow_of(together(tasks()), {}, SpecialJobs(final=final))
    assert packed["v1"].quanta_counts == {"cal": 1, "isr": 1}
    assert packed.quanta_counts() == {"cal": 2, "isr": 2}
    assert packed["last"].quanta_counts == {}


SIZES: Mapping[str, Mapping[Scalar, Scalar]] = {"sample.size_mb": {1: 100, 2: 250.5}}


def by_size(settings: dict[str, Any], *, clustered: bool = False, size: int = 2) -> list[JobSettings]:
    """Settings of the jobs of samples of two sizes; with `clustered`, one job of all."""
    graph = TaskGraph(
        name="g",
        dag=Dag(
            [
                Task(name=f"t{number}", label="t", data_id={"sample": number % 2 + 1}, command="run")
                for number in range(size)
            ],
            [],
        ),
        columns=SIZES,
    )
    clusters = cluster_single_tasks(graph, ClusteringSettings())
    if clustered:
        tasks = tuple(graph.dag.nodes)
        clusters = ClusteredGraph(
            name="g", dag=Dag([Cluster(name="c", label="c", tags={}, tasks=tasks)], []), source=graph
        )
    return [job.settings for job in workflow_of(clusters, settings)]


def test_requests_may_differ_by_a_column_of_a_table() -> None:
    one, two = by_size(
        {"requestMemory": "{sample.size_mb} * 3", "requestCpus": "max(1, round({sample.size_mb} / 100))"}
    )
    assert [each.request.memory_b for each in (one, two)] == [300 * MIB, int(751.5 * MIB)]
    assert [each.request.cpus for each in (one, two)] == [1, 3]
    (both,) = by_size({"requestMemory": "{sample.size_mb} * 3", "requestDisk": "{sample.size_mb} GB"}, clustered=True)
    assert (both.request.memory_b, both.request.disk_b) == (int(751.5 * MIB), int(350.5 * 1024 * MIB))
    settings = {
        "requestWalltime": "bpsEval(max, [120, {sample.size_mb}])",
        "requestResources": {"gpu": "{gpus}"},
        "gpus": "int({sample.size_mb} / 100)",
    }
    by_call = by_size(settings)
    assert [(each.request.walltime_s, each.request.resources["gpu"]) for each in by_call] == [(120, 1), (250.5, 2)]


def test_a_request_is_evaluated_once_per_value() -> None:
    settings = by_size({"requestMemory": "{sample.size_mb} * 3"}, size=50)
    assert len({id(each) for each in settings}) == 2


def test_an_amount_that_is_no_number_is_an_error_at_its_place() -> None:
    with pytest.raises(ConfigError, match=r"'100 \* x' is no arithmetic") as caught:
        by_size({"requestMemory": "{sample.size_mb} * x"})
    assert caught.value.origin == HERE


def test_commands_and_variables_may_use_a_column() -> None:
    graph = TaskGraph(
        name="g", dag=Dag([Task(name="t", label="t", data_id={"sample": 2}, command="run")], []), columns=SIZES
    )
    settings = {
        "runQuantumCommand": "run {sample.size_mb} {{sample.size_mb}}",
        "environment": {"S": "{sample.size_mb}"},
    }
    (job,) = workflow_of(cluster_single_tasks(graph, ClusteringSettings()), settings)
    assert (job.command, job.environment) == ("run 250.5 {sample.size_mb}", {"S": "250.5"})
