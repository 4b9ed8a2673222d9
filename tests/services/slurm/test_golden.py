"""The scripts of batches, letter by letter: one page per thing that a job may ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from tests.services.scripts import assert_golden, check_shell
from tests.services.slurm.scripts import script

from longshore.model.workflow import MIB, Request

GOLDEN = Path(__file__).with_name("golden")
GIB: Final = 1024 * MIB

CASES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "array": {"members": 25, "request": Request(cpus=1, memory_b=2 * GIB, walltime_s=5400)},
    "request": {
        "request": Request(
            cpus=4, memory_b=3 * GIB, disk_b=10 * GIB, walltime_s=90, resources={"gpus": 2, "lic_a": 1, "fpga": 1}
        )
    },
    "mpi": {"own": {"nodeCount": 2, "tasksPerNode": 4, "tasks": 8, "launcher": "srun", "exclusive": True}},
    "place": {
        "own": {
            "partition": "long",
            "qos": "high",
            "reservation": "night",
            "features": ["haswell", "ssd"],
            "nodes": "n[1-4]",
            "excludes": ["n7", "n8"],
            "wckey": "survey",
        }
    },
    "rank": {"own": {"priority": 1000, "nice": 50}},
    "mail": {"mailTo": "jdoe@example.org", "whenToMail": "Complete"},
    "mail-own": {"own": {"mailUser": "jdoe", "mailType": ["END", "FAIL"]}},
    "account": {"queue": "short", "accountingGroup": "survey"},
    "gres": {"own": {"gres": ["gpu:a100:1", "shard:4"], "licences": ["matlab:1", "idl"]}},
    "heterogeneous": {
        "own": {
            "cpu": 1,
            "mem": "2G",
            "cpu1": 8,
            "gres1": "gpu:1",
            "partition1": "gpu",
            "tasks1": 2,
            "launcher": "srun",
        },
        "request": Request(walltime_s=3600),
        "site": {"directives": ["--hint=nomultithread"], "account": "general"},
    },
    "partition-from-table": {
        "site": {
            "account": "general",
            "qos": "normal",
            "partitions": [
                {"name": "short", "walltime": "1:00:00", "features": ["haswell"]},
                {"name": "whole", "exclusive": True, "qos": "large", "features": ["haswell", "ssd"]},
            ],
        },
        "own": {"features": "haswell&ssd"},
    },
    "directives": {
        "site": {
            "directives": ["--constraint=skylake", "#SBATCH --hint=nomultithread"],
            "slurm": {"qos": "normal"},
            "qos": "normal",
        },
        "own": {"directives": ["--constraint=skylake", "--hint=nomultithread", "--switches=1"], "qos": None},
    },
    "omitted": {"own": {"omit": ["mem", "--export", "no-requeue", "comment"]}, "request": Request(memory_b=GIB)},
    "requeued": {"own": {"requeue": True}, "site": {"slurm": {"repo_key": "survey:"}}},
    "burst-buffer": {
        "own": {
            "BB": ["#BB create_persistent name=data capacity=1TB", "destroy_persistent name=old"],
            "DW": "jobdw type=scratch capacity=10GB\nstage_in type=file source=/data/a destination=$DW_JOB_STRIPED/a",
            "sbatch": ["--hint=nomultithread"],
        },
    },
    "burst-buffer-heterogeneous": {"own": {"DW": ["jobdw capacity=1GB"], "cpu0": 1, "cpu1": 2}},
    "buildtest": {
        "site": {"slurm": {"qos": "debug", "clusters": "cori"}},
        "own": {"directives": ["-t 00:05", "-C haswell", "-N 1"]},
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_what_it_was(name: str) -> None:
    text = script(**CASES[name])
    assert_golden(GOLDEN / f"{name}.sh", text)
    assert script(**CASES[name]) == text, "the same input gives the same text"


def test_there_is_no_page_of_nothing() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_one_for_the_shell(name: str) -> None:
    check_shell(GOLDEN / f"{name}.sh")
