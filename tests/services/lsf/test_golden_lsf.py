"""The scripts of batches, letter by letter: one page per thing that a job may ask for.

``REGENERATE_GOLDEN=1`` in the environment writes what Longshore makes now, to be looked at before it is committed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from tests.services.lsf.lsf_scripts import script

from longshore.contract.context import RunPaths
from longshore.errors import ConfigError
from longshore.model.workflow.request import MIB, Request

GOLDEN = Path(__file__).with_name("golden")
GIB: Final = 1024 * MIB

CASES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "array": {"members": 25, "request": Request(cpus=1, memory_b=2000 * MIB, walltime_s=5400)},
    "request": {
        "request": Request(
            cpus=4, memory_b=2000 * MIB, disk_b=10 * GIB, walltime_s=90, resources={"gpus": 2, "lic_a": 1}
        )
    },
    "memory-per-task": {
        "site": {"lsf": {"memoryPer": "task", "memoryUnit": "GB", "selectMemory": True, "hardMemory": True}},
        "request": Request(cpus=4, memory_b=10 * GIB),
    },
    "memory-of-old-versions": {"site": {"lsf": {"memoryPer": "none"}}, "request": Request(memory_b=GIB)},
    "place": {
        "own": {
            "userGroup": "astro",
            "application": "sim",
            "serviceClass": "gold",
            "hosts": ["hostA", "hostB"],
            "priority": 50,
            "exclusive": True,
            "resource": ["select[haswell]", "span[ptile=2]"],
        },
        "queue": "short",
        "accountingGroup": "survey",
    },
    "mail": {"mailTo": "jdoe@example.org", "whenToMail": "Complete"},
    "directives": {
        "site": {"directives": ["#BSUB -app sim"], "account": "general", "lsf": {"group": "/longshore"}},
        "own": {"directives": ["-app sim", "-W 5"], "requeue": True},
        "request": Request(walltime_s=3600),
    },
    # Document 003: the executor lsf.batch has the queue, and the test the directives.
    "buildtest": {
        "own": {"directives": ["-W 10", "-nnodes 1", "-P gen014ecpci"]},
        "queue": "batch",
        "request": Request(memory_b=50 * MIB),
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_what_it_was(name: str) -> None:
    text = script(**CASES[name])
    path = GOLDEN / f"{name}.sh"
    if os.environ.get("REGENERATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
    subprocess.run(["/bin/sh", "-n", path], check=True)


def test_there_is_no_page_of_nothing() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == CASES.keys()


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"bsub": ["-J mine"]}, "'bsub' cannot have '-J'"),
        ({"directives": ["-w done(1)"]}, "'bsub' cannot have '-w'"),
        ({"memoryPer": "core"}, "'lsf.memoryPer' must be one of job, host, task, none, not 'core'"),
        ({"memoryUnit": "PB"}, "'lsf.memoryUnit' must be one of MB, KB, GB, TB"),
        ({"hosts": "a\nb"}, "has no room for '\\n'"),
    ],
)
def test_a_value_that_cannot_be_written_is_refused(own: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        script(own)
    assert words in caught.value.message


def test_a_directory_whose_name_lsf_would_change_is_refused() -> None:
    with pytest.raises(ConfigError, match="LSF replaces '%J' in paths"):
        script(run=RunPaths(Path("/data/a%J")))
    with pytest.raises(ConfigError, match="no name of a resource"):
        script(request=Request(resources={"a]": 1}))
