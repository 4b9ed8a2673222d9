"""File transfer for jobs that do not see the run directory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.services.htcondor.rendering import context, rendered

from longshore.contract.service import RunPaths
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.services.htcondor.check import check

SITE = {"fileSystem": "transfer"}
FILES = {
    "graph": File(name="graph", path="graph.qg"),
    "there": File(name="there", path="/cvmfs/x/table.csv"),
    "far": File(name="far", path="/home/me/list.txt", transfer=True),
    **{f"out{number}": File(name=f"out{number}", path=f"results/out{number}.fits") for number in (1, 2)},
}


def _job(number: int, *, inputs: tuple[str, ...] = ("graph", "there", "far")) -> Job:
    words = ("/bin/work", "<FILE:graph>", "<FILE:there>", "<FILE:far>", f"<FILE:out{number}>")
    settings = JobSettings(label="a", working_directory="/home/me")
    return Job(name=f"a{number}", label="a", command=words, settings=settings, inputs=inputs, outputs=(f"out{number}",))


@pytest.mark.parametrize("file_system", ["transfer", "scratch"])
def test_inputs_and_outputs_of_a_job_are_transferred(file_system: str) -> None:
    site = context({"fileSystem": file_system})
    text = rendered(Workflow("w", Dag.by_name([_job(1), _job(2)]), files=FILES), site)["wms/run.dag"]
    lines = [line.strip() for line in text.splitlines()]
    assert "initialdir = /data/runs/one" in lines
    assert "should_transfer_files = YES" in lines
    assert "transfer_input_files = /data/runs/one/graph.qg,/home/me/list.txt" in lines
    assert "transfer_output_files = out$(to).fits" in lines
    assert 'transfer_output_remaps = "out$(tr).fits"' in lines
    assert 'arguments = "./graph.qg /cvmfs/x/table.csv ./list.txt ./out$(a).fits"' in lines
    assert 'VARS j0 n="a1" o="00" a="1" to="1" tr="1.fits=/data/runs/one/results/out1"' in lines
    assert "LONGSHORE_JOB_RUN_DIR=. " in text


def test_nothing_is_transferred_on_a_shared_file_system() -> None:
    text = rendered(Workflow("w", Dag.by_name([_job(1)]), files=FILES), context())["wms/run.dag"]
    assert "should_transfer_files = NO" in text
    assert "transfer_input_files" not in text
    assert "/data/runs/one/graph.qg /cvmfs/x/table.csv /home/me/list.txt /data/runs/one/results/out1.fits" in text


def test_programs_of_the_run_are_transferred_and_only_outputs_return() -> None:
    final = Job(
        name="finalJob",
        label="finalJob",
        command=("<ENV:LONGSHORE_JOB_RUN_DIR>/final_job.bash",),
        settings=JobSettings(label="finalJob"),
    )
    text = rendered(Workflow("w", Dag.by_name([]), final=final), context(SITE))["wms/run.dag"]
    assert "transfer_input_files = /data/runs/one/final_job.bash\n" in text
    assert 'transfer_output_files = ""\n' in text
    assert "./final_job.bash" in text


def test_files_that_cannot_be_transferred_are_reported() -> None:
    files = {**FILES, "twin": File(name="twin", path="other/graph.qg")}
    (problem,) = check(Workflow("w", Dag.by_name([_job(1, inputs=("graph", "twin"))]), files=files), context(SITE))
    assert "two files named 'graph.qg'" in problem.message
    odd = {**FILES, "odd": File(name="odd", path="a,b")}
    (problem,) = check(Workflow("w", Dag.by_name([_job(1)]), files=odd), context(SITE))
    assert "'a,b' cannot be transferred" in problem.message
    assert check(Workflow("w", Dag.by_name([_job(1)]), files=odd), context()) == []
    blank = {**FILES, "blank": File(name="blank", path="made of it/two words")}
    assert check(Workflow("w", Dag.by_name([_job(1)]), files=blank), context(SITE)) == []


@pytest.mark.parametrize("sign", [",", ";", "=", "\t", "$", '"', "/ ", " /"])
def test_a_run_directory_with_separators_in_its_path_is_reported(sign: str) -> None:
    ctx = msgspec.structs.replace(context(SITE), paths=RunPaths(Path(f"/data/a{sign}b/one")))
    (problem,) = check(Workflow("w", Dag.by_name([_job(1)]), files=FILES), ctx)
    assert problem.fatal
    assert f"files in '/data/a{sign}b/one' cannot be transferred" in problem.message
    assert "'submitPath'" in problem.hint
    program = ("<ENV:LONGSHORE_JOB_RUN_DIR>/final_job.bash",)
    final = Job(name="f", label="f", command=program, settings=JobSettings(label="f"))
    assert [each.key for each in check(Workflow("w", Dag.by_name([]), final=final), ctx)] == ["submitPath"]
    # Where nothing is transferred from there or to it, its path is as good as any.
    far = {"far": FILES["far"]}
    alone = Job(name="a", label="a", command=("true",), settings=JobSettings(label="a"), inputs=("far",))
    assert check(Workflow("w", Dag.by_name([alone]), files=far), ctx) == []
