"""Configurations as BPS's guide shows them lint clean, or with warnings that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.app.lint import lint_file

FILES = Path(__file__).resolve().parents[1] / "data" / "bps"
SERVICE = "no 'wmsServiceClass' is named: BPS would use HTCondor here"
BUTLER = "the command uses '{butlerConfig}', which nothing defines"
EXPECTED = {
    "memory.yaml": ["'pipetasks' is read as 'pipetask'"],
    "variables.yaml": ["nothing uses 'submitRoot'", "nothing uses 'runQuantumExec'"],
    "init.yaml": [BUTLER],
    "retries.yaml": [],
    "quantum_graph.yaml": [BUTLER],
    "final_job.yaml": [SERVICE, BUTLER],
    "cluster.yaml": [],
    "custom.yaml": [],
}


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.yaml")))
def test_what_is_said_of_a_file(name: str) -> None:
    found = lint_file(FILES / name, options={}, sets=(), now=0).findings
    assert [str(each.severity) for each in found] == ["warning"] * len(EXPECTED[name])
    for finding, message in zip(found, EXPECTED[name], strict=True):
        assert finding.message.startswith(message)
