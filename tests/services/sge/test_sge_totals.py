"""What a job is read to ask of Grid Engine is what its script asks qsub for, on all slots together."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.services.scripts import render_script

from longshore.contract.executor import Batch
from longshore.contract.service import RunPaths
from longshore.model.workflow import MIB, NodeSize, Request, total_request
from longshore.services.batch.script_writer import job_spec
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.service import SgeService

RUN = RunPaths(Path("/data/run"))
SITE = {"sge": {"mem_resource": "h_vmem", "parallelEnvironment": "smp", "nodesEnvironment": "mpi", "root": "/opt"}}


@given(
    cpus=st.integers(1, 8),
    memory_mib=st.integers(1, 9000),
    nodes=st.integers(1, 3),
    environment=st.none() | st.integers(1, 16),
    raw_mib=st.none() | st.integers(1, 9000),
)
def test_a_script_asks_for_what_is_counted(
    cpus: int, memory_mib: int, nodes: int, environment: int | None, raw_mib: int | None
) -> None:
    lines = [f"-pe smp {environment * nodes}"] if environment else []
    lines += [f"-l h_vmem={raw_mib}M"] if raw_mib else []
    own = {"directives": lines, **({"nodeCount": nodes} if nodes > 1 else {})}
    request = Request(cpus=cpus, memory_b=memory_mib * MIB)
    text = render_script(SgeService, own, request=request, site=SITE, run=RUN)
    slots = int(re.findall(r"^#\$ -pe \S+ (\d+)$", text, re.MULTILINE)[-1]) if "-pe" in text else 1
    each = int(re.findall(r"h_vmem=(\d+)M", text)[-1])
    dialect = SgeDialect(SITE["sge"])
    batch = Batch(id="1", tag="t", request=request, members=(), settings=own)
    total = total_request(dialect.allocations(job_spec(dialect, batch, SITE)), NodeSize())
    assert total.cpus == slots
    assert total.memory_b is not None
    # Each slot has whole megabytes of what the job asked for.
    assert total.memory_b <= each * slots * MIB < total.memory_b + slots * MIB * (0 if raw_mib else 1) + MIB
