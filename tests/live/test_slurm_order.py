"""What two runs at once have to do with each other while Slurm runs their jobs: limits, orders, and their outputs."""

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


def test_two_live_runs_write_the_same_files_only_if_the_user_insists(bare_site: SlurmSite) -> None:
    path = bare_site.folder / "run.yaml"
    task = "{command: 'until test -e {go}; do sleep 0.2; done; echo x >> {out}', outputs: {out: out.txt}}"
    path.write_text(
        f"computeSite: cluster\nrequestMemory: 50\ngo: {bare_site.folder}/go\npipeline: {{tasks: {{one: {task}}}}}\n",
        "utf-8",
    )
    first = bare_site.cli("submit", path, "--json").json
    refused = bare_site.cli("submit", path)
    said = f"run '{first['id']}' is live and writes the same files, such as '{bare_site.folder}/out.txt'"
    assert (refused.returncode, said in refused.stderr) == (6, True), refused.stderr
    second = bare_site.cli("submit", path, "--share-outputs", "--json")
    assert second.returncode == 0, second.stderr
    (bare_site.folder / "go").touch()
    for each in (first, second.json):
        assert bare_site.ended(each["submit_dir"])["state"] == "SUCCEEDED"
    third = bare_site.cli("submit", path, "--json")
    assert third.returncode == 0, f"neither is live any more: {third.stderr}"
    assert bare_site.ended(third.json["submit_dir"])["state"] == "SUCCEEDED"
    assert (bare_site.folder / "out.txt").read_text("utf-8") == "x\n" * 3
