"""A profile that is written from a real cluster passes its check; a wrong one is named with its mend."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from tests.command import Cli
from tests.live.condor_pools import CondorPool
from tests.live.pools import SlurmPool
from tests.live.sge_pools import SgePool

pytestmark = pytest.mark.live
OWN = "computeSite: new\npipeline: {tasks: {one: {command: 'true'}}}\nrequestMemory: 60\n"


def written(cli: Cli, folder: Path, service: str) -> Path:
    """Write a profile, check it, and return its file."""
    made = cli("site", "init", "new", "--wms-service-class", service, "--output", folder, "--json")
    assert made.returncode == 0, made.stderr
    checked = cli("site", "check", "new", "--site-path", folder, "--json")
    assert checked.returncode == 0, checked.stdout
    assert (checked.json["ok"], checked.json["problems"]) == (True, [])
    path = Path(made.json["path"])
    assert path.read_text("utf-8") == made.json["text"]
    again = cli("site", "init", "new", "--wms-service-class", service, "--output", folder)
    assert again.returncode == 7
    assert "exists already" in again.stderr
    (folder / "run.yaml").write_text(f"{OWN}submitPath: {folder}/run\n", "utf-8")
    ran = cli("submit", folder / "run.yaml", "--site-path", folder, "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    return path


def test_a_profile_of_slurm(cli: Cli, slurm_pool: SlurmPool, own_environment: Path, tmp_path: Path) -> None:
    profile = yaml.safe_load(written(cli, tmp_path, "slurm").read_text("utf-8"))
    rows = {row["name"]: row for row in profile["partitions"]}
    assert next(iter(rows)) == "main"
    assert rows["short"] == {"name": "short", "nodes": 1, "cpus": 4, "memory": "4000 MiB", "walltime": "0:10:00"}
    assert rows["main"]["resources"] == {"gpus": 2}
    assert profile["limits"]["arraySize"] == 1000


def test_a_profile_of_grid_engine(
    cli: Cli, sge_pool: SgePool, own_environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in sge_pool.env.items():
        monkeypatch.setenv(name, value)
    profile = yaml.safe_load(written(cli, tmp_path, "sge").read_text("utf-8"))
    assert [row["name"] for row in profile["partitions"]] == ["short.q", "all.q"]
    assert profile["sge"]["mem_resource"] == "h_vmem"
    assert profile["sge"]["parallelEnvironment"] == "smp"
    assert profile["limits"]["memory"] == "8192 MiB"
    (tmp_path / "bad.yaml").write_text(
        "inherits: new\nsge: {parallelEnvironment: mpich}\n"
        "partitions: [{name: all.qu}, {name: short.q, walltime: '1:0:0'}]\n"
    )
    done = cli("site", "check", "bad", "--site-path", tmp_path, "--json")
    assert done.returncode == 7
    assert [each["message"] for each in done.json["problems"]] == [
        "there is no partition 'all.qu'",
        "there is no parallel environment 'mpich'",
        "the row 'short.q' of 'partitions' has 'walltime' 1:0:0, and the partition has 0:10:00",
    ]


def test_a_profile_of_a_grid_engine_with_much_of_its_own(
    cli: Cli, sge_pool: SgePool, own_environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several parallel environments, memory that each job must ask for, and queues that do not take its jobs."""
    for name, value in sge_pool.env.items():
        monkeypatch.setenv(name, value)

    def add(option: str, text: str) -> None:
        (tmp_path / "object").write_text(text, "utf-8")
        sge_pool.run("qconf", option, str(tmp_path / "object"))

    complexes, queue, smp = (sge_pool.run("qconf", *words) for words in (["-sc"], ["-sq", "all.q"], ["-sp", "smp"]))
    try:
        add("-Ap", smp.replace("smp", "a_mpi").replace("$pe_slots", "$fill_up"))
        add("-Ap", smp.replace("smp", "a_none"))
        forced = "h_vmem h_vmem MEMORY <= FORCED JOB 0 0"
        add("-Mc", re.sub(r"^h_vmem .*$", forced, complexes, flags=re.MULTILINE))
        for name, key, value in (("talk.q", "qtype", "INTERACTIVE"), ("own.q", "user_lists", "deadlineusers")):
            fields = {"qname": name, "h_rt": "0:5:0", key: value}
            lines = (line.split(maxsplit=1) for line in queue.splitlines())
            add("-Aq", "".join(f"{first} {fields.get(first, rest)}\n" for first, rest in lines))
        profile = yaml.safe_load(written(cli, tmp_path, "sge").read_text("utf-8"))
        assert [row["name"] for row in profile["partitions"]] == ["short.q", "all.q"]
        keys = {key: profile["sge"][key] for key in ("mem_resource", "memoryPer", "parallelEnvironment")}
        assert keys == {"mem_resource": "h_vmem", "memoryPer": "job", "parallelEnvironment": "smp"}
    finally:
        for words in (["-dq", "talk.q"], ["-dq", "own.q"], ["-dp", "a_mpi"], ["-dp", "a_none"]):
            sge_pool.run("qconf", *words, check=False)
        add("-Mc", complexes)


def test_a_profile_of_htcondor(cli: Cli, condor_pool: CondorPool, own_environment: Path, tmp_path: Path) -> None:
    profile = yaml.safe_load(written(cli, tmp_path, "htcondor").read_text("utf-8"))
    assert profile["service"] == "htcondor"
    assert profile["limits"]["cpus"] >= 1
    (tmp_path / "bad.yaml").write_text("inherits: new\nlimits: {cpus: 9999}\n")
    done = cli("site", "check", "bad", "--site-path", tmp_path, "--json")
    assert done.returncode == 7
    (problem,) = done.json["problems"]
    assert problem["message"].startswith("'limits.cpus' is 9999, and the cluster has nodes with ")
    assert problem["hint"].startswith("Write cpus: ")
    assert problem["origin"]["line"] == 2
    wanted = 'profile: {condor: {requirements: \'(OpSys == "LINUX") && (Arch == "VAX")\'}}'
    text = f"{OWN}submitPath: {tmp_path}/far\n{wanted}\n"
    (tmp_path / "far.yaml").write_text(text, "utf-8")
    far = cli("submit", tmp_path / "far.yaml", "--site-path", tmp_path, timeout=300)
    assert 'no slot of the pool meets its requirements: Arch == "VAX"' in far.stderr
    assert "Slots have Arch X86_64" in far.stderr


BROKEN = {
    "a partition that is not there": (
        "partitions: [{name: mian}]",
        7,
        "there is no partition 'mian'",
        "Did you mean 'main'?",
    ),
    "a run time that is too long": (
        'partitions: [{name: short, walltime: "1:00:00"}]',
        7,
        "the row 'short' of 'partitions' has 'walltime' 1:00:00, and the partition has 0:10:00",
        'Write walltime: "0:10:00".',
    ),
    "too many processors": (
        "partitions: [{name: main, cpus: 64}]",
        7,
        "the row 'main' of 'partitions' has 'cpus' 64, and the partition has 4",
        "Write cpus: 4.",
    ),
    "too much memory": (
        "partitions: [{name: main, memory: 64 GiB}]",
        7,
        "the row 'main' of 'partitions' has 'memory' 64 GiB, and its nodes have 4000 MiB",
        "Write memory: 4000 MiB.",
    ),
    "too many nodes": (
        "partitions: [{name: short, nodes: 3}]",
        7,
        "the row 'short' of 'partitions' has 'nodes' 3, and the partition has 1",
        "Write nodes: 1.",
    ),
    "a resource that is not there": (
        "partitions: [{name: short, resources: {gpus: 2}}]",
        7,
        "the row 'short' of 'partitions' has 2 of 'gpus', and its nodes have 0",
        "The cluster has none at all.",
    ),
    "a feature that is not there": (
        "partitions: [{name: main, features: [gpunodes]}]",
        7,
        "the row 'main' of 'partitions' has the feature 'gpunodes', which none of its nodes has",
        "Did you mean 'gpunode'?",
    ),
    "arrays that are too large": (
        "limits: {arraySize: 99999}",
        7,
        "'limits.arraySize' is 99999, and the cluster accepts arrays of 10000",
        "Write arraySize: 10000.",
    ),
    "an account that is not there": (
        "account: tset",
        7,
        "this user may not charge the account 'tset'",
        "Did you mean 'test'?",
    ),
    "a QOS that is not there": ("qos: hihg", 7, "there is no QOS 'hihg'", "Did you mean 'high'?"),
    "a licence that is not there": (
        "slurm: {licence: lic_c}",
        7,
        "there is no licence 'lic_c'",
        "Did you mean 'lic_b'?",
    ),
    "an unknown key": ("slurm: {partiton: main}", 3, "'slurm' has no key 'partiton'", "Did you mean 'partition'?"),
    "a disabled site": ("disabled: moved", 3, "the site 'broken' is disabled: moved", "Choose another site"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_profile_is_named_with_its_mend(
    cli: Cli, slurm_with_accounting: SlurmPool, tmp_path: Path, what: str
) -> None:
    text, status, message, hint = BROKEN[what]
    (tmp_path / "broken.yaml").write_text(f"service: slurm\n{text}\n", "utf-8")
    env = {**os.environ, "SLURM_CONF": str(slurm_with_accounting.conf)}
    done = cli("site", "check", "broken", "--site-path", tmp_path, "--json", env=env)
    assert done.returncode == status
    errors = [each for each in done.json["problems"] if each["severity"] == "error"]
    assert [each["message"] for each in errors] == [message]
    assert hint in errors[0]["hint"]
    assert errors[0]["origin"]["file"].endswith("broken.yaml")
    assert not done.json["ok"]


def test_a_cluster_that_does_not_answer(cli: Cli, slurm_with_accounting: SlurmPool, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    shutil.copy(slurm_with_accounting.conf, conf)
    conf.write_text(conf.read_text("utf-8").replace("SlurmctldPort=", "SlurmctldPort=1 #"), "utf-8")
    (tmp_path / "broken.yaml").write_text(f"service: slurm\nslurm: {{config: {conf}}}\n", "utf-8")
    done = cli("site", "check", "broken", "--site-path", tmp_path, timeout=120)
    assert done.returncode == 4
    assert "the controller does not answer" in done.stdout
