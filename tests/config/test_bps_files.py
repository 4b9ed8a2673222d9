"""Configurations as BPS's guide shows them lint clean, or with warnings that are right."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from longshore.config.schema import Severity
from longshore.plan.lint_file import lint_file

FILES = Path(__file__).resolve().parents[1] / "data" / "bps"
SERVICE = "no 'wmsServiceClass' is named: BPS would use HTCondor here"
BUTLER = "the command uses '{butlerConfig}', which nothing defines"
NO_PAYLOAD = "error: no payload is named"
LSST = ("CTRL_MPEXEC_DIR", "DAF_BUTLER_DIR", "DRP_PIPE_DIR", "AP_PIPE_DIR")
"""What the set-up of LSST's software puts into the environment."""
EXPECTED = {
    "memory.yaml": [NO_PAYLOAD, "'pipetasks' is read as 'pipetask'"],
    "variables.yaml": [NO_PAYLOAD, "nothing uses 'submitRoot'", "nothing uses 'runQuantumExec'"],
    "init.yaml": [NO_PAYLOAD, BUTLER],
    "retries.yaml": [NO_PAYLOAD],
    "quantum_graph.yaml": [NO_PAYLOAD, BUTLER],
    "final_job.yaml": [NO_PAYLOAD, SERVICE, BUTLER],
    "cluster.yaml": [NO_PAYLOAD],
    "custom.yaml": ["error: executable '"],
    # The plug-in's own keys are not judged: lint does not import it. Where it cannot be there, that is told.
    "parsl_sites.yaml": []
    if find_spec("lsst")
    else ["error: 'pipelineYaml' names the file", "error: the service 'lsst.ctrl.bps.parsl.ParslService' cannot be"],
    "packed.yaml": [
        "error: 'pipelineYaml' names the file '/opt/lsst/pipelines/Demo/ApPipe.yaml', which does not exist",
        "the environment has no variable 'WEEKLY', which is needed when the run is submitted",
        "'2:30' is 150 here, as BPS reads it",
    ],
    "old.yaml": [
        "the environment has no variable 'OBS_DEMO_DIR'",
        "error: 'pipelineYaml' names the file",
        "nothing describes the site 'pool', and jobs run there without settings of a site",
        "the environment has no variable 'CHECK_DIR'",
        "error: 'outCollection' is deprecated. Replace all references to it with 'outputRun'",
        "the command uses '{qgraph_file}', which nothing defines",
        "'lsst.ctrl.bps.wms.htcondor.htcondor_service.HTCondorService' is an old name",
        "nothing defines the variable 'qgraphfile'",
    ],
}


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.yaml")))
def test_what_is_said_of_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in LSST:
        monkeypatch.setenv(variable, "/opt/lsst")
    found = lint_file(FILES / name, now=0).findings
    said = [f"{'error: ' if each.severity is Severity.ERROR else ''}{each.message}" for each in found]
    assert len(said) == len(EXPECTED[name])
    assert [text for text, start in zip(said, EXPECTED[name], strict=True) if not text.startswith(start)] == []
    assert all(each.severity in {Severity.ERROR, Severity.WARNING} for each in found)


def test_the_environment_that_a_file_leans_on_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in LSST:
        monkeypatch.delenv(variable, raising=False)
    found = lint_file(FILES / "final_job.yaml", now=0).findings
    assert "the environment has no variable 'CTRL_MPEXEC_DIR', which is needed when the run is submitted" in [
        each.message for each in found
    ]
    assert not any("DAF_BUTLER_DIR" in each.message for each in found), "commands wait for the job's environment"
