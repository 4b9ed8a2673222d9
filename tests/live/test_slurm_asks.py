"""What jobs ask for arrives at a real cluster: raw options, launchers, components, containers, names with any sign."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import Cli
from tests.live.pools import SlurmPool
from tests.live.runs import until

pytestmark = pytest.mark.live

NASTY = "a 'b' \"c\" %j \\d #e $HOME é"
Submit = Callable[..., Mapping[str, str]]


@pytest.fixture
def logs(cli: Cli, slurm_pool: SlurmPool, tmp_path: Path) -> Submit:
    """Runs tasks, each a label with a command, to a good end; returns what each said."""

    def run(tasks: Mapping[str, str], *options: str, folder: str = "run", **more: Any) -> Mapping[str, str]:
        here = tmp_path / folder
        here.mkdir()
        site = {
            "service": "slurm",
            "slurm": {"config": str(slurm_pool.conf), "pollInterval": 0.5},
            **more.pop("site", {}),
        }
        said = {
            "computeSite": "here",
            "site": {"here": site},
            "requestMemory": 50,
            "numberOfRetries": 0,
            "pipeline": {
                "dimensions": {"n": ["x"]},
                "tasks": {label: {"dimensions": ["n"], "command": command} for label, command in tasks.items()},
            },
            **more,
        }
        (here / "run.yaml").write_text(yaml.safe_dump(said), "utf-8")
        done = cli("submit", "run.yaml", "--wait", *options, "--set", "submitPath=submit", cwd=here)
        assert done.returncode == 0, done.stdout + done.stderr
        return {path.parts[-3]: path.read_text("utf-8") for path in (here / "submit").glob("logs/*/*/*.log")}

    return run


def test_any_sign_may_be_in_a_path(logs: Submit) -> None:
    assert logs({"a": 'basename "$(dirname "$LONGSHORE_JOB_RUN_DIR")"'}, folder=NASTY) == {"a": f"{NASTY}\n"}


def test_raw_options_and_the_command_line_win(logs: Submit, slurm_pool: SlurmPool) -> None:
    said = logs(
        {"a": "echo $SLURM_JOB_PARTITION $SLURM_CPUS_PER_TASK", "b": "echo $SLURM_JOB_PARTITION $SLURM_NNODES"},
        "--backend-options=-c 2",
        slurm={"partition": "main"},
        pipetask={"a": {"slurm": {"partition": "short"}}, "b": {"sbatch": ["-p short", "#SBATCH -N 1", "-t 00:05"]}},
        directives=['--comment="{label} #1"'],
    )
    assert said == {"a": "short 2\n", "b": "short 1\n"}
    shown = slurm_pool.run("scontrol", "--oneliner", "show", "job")
    assert "Comment=a #1" in shown
    (line,) = [line for line in shown.splitlines() if "Comment=b #1" in line]
    assert "TimeLimit=00:01:00" in line, "minutes and seconds, rounded up"


def test_tasks_and_components_are_started_together(logs: Submit) -> None:
    said = logs(
        {"mpi": "echo $SLURM_PROCID of $SLURM_NTASKS in $BOX", "het": "echo $SLURM_PROCID"},
        container="env BOX=it",
        pipetask={
            "mpi": {"slurm": {"tasks": 4, "tasksPerNode": 2, "nodeCount": 2, "launcher": "srun"}},
            "het": {"slurm": {"launcher": "srun", "gres1": "gpu:1", "tasks1": 2, "cpu1": 2}},
        },
    )
    assert sorted(said["mpi"].splitlines()) == [f"{number} of 4 in it" for number in range(4)]
    assert sorted(said["het"].splitlines()) == ["0", "1", "2"]


def test_a_launcher_stands_in_front_of_a_container(
    logs: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Programs that do of it what counts here: as many tasks as are asked for, and a box around each.
    programs = {
        "mpirun": '[ "$1" = -n ] || exit 64; n=$2; shift 2; while [ $((n -= 1)) -ge 0 ]; do RANK=$n "$@" || exit; done',
        "apptainer": '[ "$1 $2" = "exec image.sif" ] || exit 64; shift 2; BOX=it exec "$@"',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    said = logs(
        {"mpi": "echo $RANK of $SLURM_NTASKS on $SLURM_JOB_NUM_NODES in $BOX"},
        container="apptainer exec image.sif",
        slurm={"nodeCount": 4, "tasksPerNode": 2, "tasks": 8, "launcher": "mpirun"},
    )
    assert sorted(said["mpi"].splitlines()) == [f"{number} of 8 on 4 in it" for number in range(8)]


def test_reservation_key_of_the_work_and_mail(logs: Submit, slurm_pool: SlurmPool) -> None:
    words = ("starttime=now", "duration=5", "users=root", "nodes=n1", "flags=ignore_jobs")
    slurm_pool.run("scontrol", "create", "reservation", "reservationname=night", *words)
    try:
        said = logs(
            {"a": 'echo "$SLURM_JOB_RESERVATION $SLURMD_NODENAME $SLURM_JOB_ID"'},
            slurm={"reserv": "night", "wckey": "survey", "mailUser": "jdoe@example.org", "mailType": ["END", "FAIL"]},
        )
    finally:
        slurm_pool.run("scontrol", "delete", "reservationname=night", check=False)
    reservation, node, number = said["a"].split()
    assert (reservation, node) == ("night", "n1")
    shown = slurm_pool.run("scontrol", "--oneliner", "show", "job", number)
    assert "MailUser=jdoe@example.org MailType=END,FAIL" in shown
    if slurm_pool.accounting:
        # The run does not wait for accounting, which has the key a moment later.
        words = ("--noheader", "--parsable2", "--allocations", f"--jobs={number}", "--format=wckey")
        until(lambda: slurm_pool.run("sacct", *words).split() == ["survey"], "the key of the work in accounting")


def test_resources_are_licences_or_generic(logs: Submit, slurm_pool: SlurmPool) -> None:
    logs({"a": "true"}, requestResources={"lic_a": 1, "gpus": 1})
    shown = slurm_pool.run("scontrol", "--oneliner", "show", "job").splitlines()[-1]
    assert "Licenses=lic_a:1" in shown
    assert "gres:gpu:1" in shown


def test_a_state_that_is_expected(logs: Submit) -> None:
    logs(
        {"a": "exit 1", "b": "exit 1", "c": "exit 0"},
        pipetask={
            "a": {"successIf": {"slurm_job_state_codes": "FAILED"}},
            "b": {"status": {"slurm_job_state_codes": "FAILED"}},
            "c": {"status": {"returncode": [3], "slurm_job_state_codes": "COMPLETED"}},
        },
    )


def test_a_site_has_a_template_of_its_own(logs: Submit, tmp_path: Path) -> None:
    template = tmp_path / "mine.j2"
    head = "#!/bin/bash\n{% for line in job.lines %}\n#SBATCH {{ line }}\n{% endfor %}\n"
    template.write_text(f"{head}export MINE=here\n{{{{ job.run }}}}\n", "utf-8")
    assert logs({"a": "echo $MINE"}, site={"templates": {"batch.sh": str(template)}}) == {"a": "here\n"}


def test_only_what_a_site_lets_jobs_inherit_reaches_them(logs: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    command = 'echo "$MINE-$MY_TOKEN-$OTHER"; [ "$SLURM_JOB_ID" != 77 ]'
    monkeypatch.setenv("OTHER", "2")
    assert logs({"a": command}) == {"a": "1--2\n"}
    assert logs({"a": command}, folder="2", inheritEnvironment=["MINE", "MY_TOKEN"]) == {"a": "1-secret-\n"}


def test_one_cluster_of_several_is_named(logs: Submit, slurm_pool: SlurmPool) -> None:
    if not slurm_pool.accounting:
        pytest.skip("--clusters needs slurmdbd")
    slurm = {"config": str(slurm_pool.conf), "clusters": "testclu", "pollInterval": 0.5}
    assert logs({"a": "echo $SLURM_CLUSTER_NAME"}, site={"slurm": slurm}) == {"a": "testclu\n"}
