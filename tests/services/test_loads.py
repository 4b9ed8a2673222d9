"""What each workload manager knows of its load, from answers as its programs give them."""

from __future__ import annotations

import pytest

from longshore.services.sge.cluster import parse_load as parse_sge
from longshore.services.slurm.cluster import parse_load as parse_slurm

QUEUES = """CLUSTER QUEUE                   CQLOAD   USED    RES  AVAIL  TOTAL aoACDS  cdsuE
--------------------------------------------------------------------------------
all.q                             0.10      2      0      6      8      0      0
long.q                            -NA-      0      0      0      4      0      4
"""


def test_slots_of_grid_engine() -> None:
    assert parse_sge(QUEUES) == {"cpus_free": 6.0, "cpus_total": 12.0}


@pytest.mark.parametrize("text", ["", "error: no such queue\n", QUEUES.splitlines()[0]])
def test_another_answer_of_grid_engine_says_nothing(text: str) -> None:
    assert parse_sge(text) == {}


def test_processors_and_nodes_of_slurm() -> None:
    assert parse_slurm("3/5/0/8|1/2/1/4\n", "2\n4\n") == {
        "cpus_free": 5.0,
        "cpus_total": 8.0,
        "nodes_free": 2.0,
        "nodes_total": 4.0,
        "cpus_waiting": 6.0,
    }


@pytest.mark.parametrize("text", ["", "sinfo: error", "1/2|x", "a/b/c/d|1/1"])
def test_another_answer_of_slurm_says_nothing(text: str) -> None:
    assert parse_slurm(text, "3\n") == {}
