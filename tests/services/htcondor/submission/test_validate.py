"""A DAG that cannot work is refused before its submission."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.services.htcondor.rendering import context, job, rendered, some_of_everything

from longshore.errors import SubmissionRefusedError
from longshore.model.tasks import Dag
from longshore.model.workflow import MIB, Request, Workflow
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.services.htcondor.submission.validate import validate_dag

pytest.importorskip("htcondor2", reason="HTCondor's bindings are not installed")
DAG = Path("/data/run.dag")


@pytest.fixture(autouse=True)
def _no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.environ.get("CONDOR_CONFIG"):
        monkeypatch.setenv("CONDOR_CONFIG", "/dev/null")


def _try(workflow: Workflow, more: str = "") -> None:
    text = rendered(workflow, context())["wms/run.dag"] + more
    validate_dag(DAG, text.splitlines(keepends=True), CondorClient(), is_folder=lambda path: path != "/nowhere")


def _one(**own: Any) -> Workflow:
    return Workflow(
        "w",
        Dag.by_name(
            [job("a", service_settings=own, request=Request(memory_b=100 * MIB, disk_b=MIB), number_of_retries=1)]
        ),
    )


def test_rendered_dags_are_valid() -> None:
    _try(some_of_everything())
    _try(_one(**{"profile.condor": {"request_memory": "5 GB", "requirements": 'Machine != "x"', "+A": '"b"'}}))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"profile.condor": {"requirements": "(((Machine"}}, "'requirements' is no expression: (((Machine"),
        ({"profile.condor": {"+Project": '"open'}}, "is no expression"),
        ({"profile.condor": {"request_memory": "5 GX"}}, "'request_memory' is no expression: 5 GX"),
        ({"profile.condor": {"environment": '"A=\'b"'}}, "'environment' has a quote that is not closed"),
        ({"releaseExpr": "HoldReasonCode =="}, "'periodic_release' is no expression"),
        ({"directives": ["rank = +"]}, "'rank' is no expression: +"),
    ],
)
def test_an_invalid_description_is_refused(own: dict[str, Any], words: str) -> None:
    with pytest.raises(SubmissionRefusedError, match="of the submit description 'jobs/a'") as caught:
        _try(_one(**own))
    assert words in caught.value.message
    assert "line 10" in caught.value.message


def test_a_missing_directory_is_refused() -> None:
    nowhere = msgspec.structs.replace(job("a").settings, working_directory="/nowhere")
    with pytest.raises(
        SubmissionRefusedError, match="'jobs/a' would run in '/nowhere', which is no directory on this host"
    ):
        _try(Workflow("w", Dag.by_name([msgspec.structs.replace(job("a"), settings=nowhere)])))


def test_an_invalid_dag_is_refused() -> None:
    with pytest.raises(SubmissionRefusedError) as caught:
        _try(_one(), "PARENT j0 CHILD j9\nPRIORITY j8 1\n")
    assert "there is no node 'j9' (and 1 more like it)" in caught.value.message
    assert str(DAG) in caught.value.message


@pytest.mark.parametrize("node", ["j0", "ALL_NODES"])
def test_appended_variables_are_validated(node: str) -> None:
    _try(_one(), f'VARS {node} APPEND request_memory="5 GB"\n')
    with pytest.raises(SubmissionRefusedError, match="'request_memory' is no expression: 5 GX"):
        _try(_one(), f'VARS {node} APPEND request_memory="5 GX"\n')
