"""Init and final jobs, as in BPS, on the graph of its tests."""

from __future__ import annotations

import pytest
from tests.plan.graphs import graph, workflow_of

from longshore.config.final_job import WhenRun, read_final_commands, read_when_run
from longshore.config.interpolate import DEFAULT_SCOPE
from longshore.config.merge import LayerRank, make_layer, merge_layers
from longshore.config.profile import JobProfile
from longshore.config.search import INIT_LABEL, Config
from longshore.contract.algorithms import ClusteringSettings
from longshore.errors import ConfigError, PreparationError
from longshore.model.report import FINAL_LABEL
from longshore.model.workflow import JobSettings, Workflow
from longshore.plan.clustering import cluster_single_tasks
from longshore.plan.jobs import SpecialJobs, final_job, final_script, init_job

JOBS = cluster_single_tasks(graph(), ClusteringSettings(name_template="{D1}_{D2}", node_ids=False))
FINAL_JOB = final_job(
    JobProfile(settings=JobSettings(label=FINAL_LABEL)), [("qgraphFile", "<FILE:q>"), ("butlerConfig", "b")]
)


def config(**final: object) -> Config:
    return Config(merge_layers([make_layer({"finalJob": final}, "run.yaml", LayerRank.USER)]))


def workflow(special: SpecialJobs) -> Workflow:
    return workflow_of(JOBS, {"runQuantumCommand": "do"}, special)


def test_the_final_script() -> None:
    lines = read_final_commands(config(command1="gather ${qgraphFile}", command2="", command3="end"), DEFAULT_SCOPE)
    assert final_script(lines, ["qgraphFile", "butlerConfig"]) == (
        "#!/bin/bash\n\nset -e\nset -x\nqgraphFile=$1\nbutlerConfig=$2\ngather ${qgraphFile}\n\nend\n"
    )
    assert FINAL_JOB.command[2:] == ("<FILE:q>", "b")


def test_a_final_job_without_a_command() -> None:
    with pytest.raises(PreparationError, match="the final job has no command") as caught:
        read_final_commands(config(command1="", whenRun="ALWAYS"), DEFAULT_SCOPE)
    assert "finalJob.whenRun" in caught.value.hint


def test_final_job_after_success_waits_for_all_leaves() -> None:
    found = workflow(SpecialJobs(last=FINAL_JOB))
    assert found.final is None
    assert sorted(found.parents(FINAL_LABEL)) == sorted(
        job.name for job in found if job.label in {"T2b", "T4", "T5"}
    ), "all sinks, and nothing else"
    assert workflow(SpecialJobs(final=FINAL_JOB)).final is FINAL_JOB


def test_init_job_precedes_all_roots() -> None:
    init = init_job(JobProfile(settings=JobSettings(label=INIT_LABEL), command=()))
    found = workflow(SpecialJobs(init=init))
    children = sorted(found.graph.successors(INIT_LABEL))
    assert children == sorted(job.name for job in found if job.label in {"T1", "T5"})
    assert len(children) == 6
    assert len(found) == 19


@pytest.mark.parametrize("when", WhenRun)
def test_when_it_runs(when: WhenRun) -> None:
    assert read_when_run(config(whenRun=when.value, command1="x")) is when


def test_a_workflow_in_its_place_is_refused() -> None:
    assert read_when_run(config(implementation="JOB", command1="x")) is WhenRun.ALWAYS
    with pytest.raises(ConfigError, match=r"'finalJob\.implementation' must be JOB, not 'WORKFLOW'"):
        read_when_run(config(implementation="WORKFLOW", command1="x"))
