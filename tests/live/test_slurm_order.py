"""Limits and orders that the engine obeys while Slurm runs the jobs: over two runs at once, one group after another."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.runs import SlurmSite

pytestmark = pytest.mark.live

YAML = """\
computeSite: cluster
pipeline:
  dimensions: {visit: [2, 1], detector: [1, 2]}
  tasks:
    isr:
      dimensions: [visit, detector]
      command: "echo $(date +%s.%N) + {visit} >> {signs}; sleep 0.5; echo $(date +%s.%N) - {visit} >> {signs}"
requestMemory: 50
concurrencyLimit: tape
concurrencyLimits: {tape: 1}
ordering: {by_visit: {labels: isr, dimensions: visit, implementation: noop}}
"""


def test_two_runs_obey_their_orders_within_one_limit(bare_site: SlurmSite) -> None:
    folder, names = bare_site.folder, ("first", "second")
    runs = []
    for name in names:
        path = folder / f"{name}.yaml"
        path.write_text(f"{YAML}signs: {folder}/signs-{name}\nsubmitPath: {name}\n", "utf-8")
        ran = bare_site.cli("submit", path, "--json")
        assert ran.returncode == 0, ran.stderr
        runs.append(Path(ran.json["submit_dir"]))
    for run in runs:
        assert bare_site.ended(run)["state"] == "SUCCEEDED"
    told = []
    for name in names:
        lines = (folder / f"signs-{name}").read_text("utf-8").splitlines()
        own = sorted((float(line.split()[0]), *line.split()[1:]) for line in lines)
        assert [visit for _, _, visit in own] == ["1"] * 4 + ["2"] * 4
        told += own
    now = most = 0
    for _, sign, _ in sorted(told):
        now += 1 if sign == "+" else -1
        most = max(most, now)
    assert most == 1
