"""What the writer of scripts adds is the same on every batch system."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.scripts import render_script

from longshore.contract.service import RunPaths
from longshore.errors import ConfigError
from longshore.services.batch.engine_job import engine_script
from longshore.services.batch.script_writer import ScriptWriter
from longshore.services.batch.service import BatchService
from longshore.services.lsf.service import LsfService
from longshore.services.sge.service import SgeService
from longshore.services.slurm.service import SlurmService

RUN = RunPaths(Path("/data/run"))
SERVICES: list[type[BatchService]] = [SlurmService, SgeService, LsfService]


@pytest.mark.parametrize("service", SERVICES)
def test_a_temporary_directory_lies_in_the_scratch_of_the_site(service: type[BatchService]) -> None:
    line = "\nTMPDIR='/scratch/'\"${USER:?}\" && export TMPDIR && set -- "
    assert line.replace("'/scratch/'", "/scratch/") in render_script(service, site={"scratch": "/scratch/$USER"})
    assert "TMPDIR" not in render_script(service)


@pytest.mark.parametrize("service", SERVICES)
def test_a_name_has_the_prefix_of_the_site_and_ends_in_the_tag(service: type[BatchService]) -> None:
    writer = ScriptWriter(service().dialect({}), RUN, {service.name: {"repo_key": "a b-"}}, "")
    assert writer.name("k7f3a-1-1") == "a_b-k7f3a-1-1"


@pytest.mark.parametrize("service", SERVICES)
def test_an_engine_is_no_job_without_a_template_for_it(service: type[BatchService]) -> None:
    with pytest.raises(ConfigError, match=f"'{service.name}.engineAs: job' is not possible"):
        engine_script(service().dialect({}), RUN, {}, "", run_token="k7f3a-1", by="submit", command=["longshore"])


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_key_is_refused_and_keys_of_the_kit_are_known(service: type[BatchService]) -> None:
    dialect = service().dialect({})
    dialect.check_job({"maxpendtime": "1h", "container": "x", "directives": []})
    with pytest.raises(ConfigError, match=f"'{service.name}' has no key 'maxpendtimes'") as caught:
        dialect.check_job({"maxpendtimes": "1h"})
    assert "maxpendtime" in caught.value.hint
