"""The scripts of batches, letter by letter: one page per thing that a job may ask for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from tests.services.scripts import assert_golden, check_shell, render_script

from longshore.contract.service import RunPaths
from longshore.errors import ConfigError
from longshore.model.workflow import MIB, Request
from longshore.services.lsf.service import LsfService

GOLDEN = Path(__file__).with_name("golden")
GIB: Final = 1024 * MIB
script = partial(render_script, LsfService)

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
    "nodes": {"own": {"nodeCount": 3}, "request": Request(cpus=4, memory_b=2000 * MIB, disk_b=GIB)},
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
    path = GOLDEN / f"{name}.sh"
    assert_golden(path, script(**CASES[name]))
    check_shell(path)


def test_there_is_no_page_of_nothing() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == CASES.keys()


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"bsub": ["-J mine"]}, "'bsub' cannot have '-J'"),
        ({"directives": ["-w done(1)"]}, "'bsub' cannot have '-w'"),
        ({"nodeCount": 0.5}, "'lsf.nodeCount' must be a whole number above 0, not '0.5'"),
        ({"memoryPer": "core"}, "'lsf.memoryPer' must be 'job', 'host', 'task' or 'none', not 'core'"),
        ({"memoryUnit": "PB"}, "'lsf.memoryUnit' must be 'MB', 'KB', 'GB' or 'TB', not 'PB'"),
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
