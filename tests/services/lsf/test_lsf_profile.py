"""A profile that is written from the answers of LSF passes its check; a wrong one is named with its mend."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.services.lsf import lsf_programs
from tests.services.lsf.lsf_site import LsfSite

BROKEN = """\
inherits: new
queue: nosuch
lsf: {memoryUnit: GB}
limits: {cpus: 9999, arraySize: 1000}
partitions: [{name: shrt}, {name: short, cpus: 64}]
"""


def test_a_profile_of_lsf(lsf_site: LsfSite, tmp_path: Path) -> None:
    folder, env = tmp_path / "sites", {"LSF_ENVDIR": str(lsf_site.conf)}
    made = lsf_site.cli("site", "init", "new", "--wms-service-class", "lsf", "--output", folder, "--json", env=env)
    assert made.returncode == 0, made.stderr + made.stdout
    profile = yaml.safe_load((folder / "new.yaml").read_text("utf-8"))
    assert (profile["service"], profile["title"]) == ("lsf", "main, a site of lsf")
    # The queue 'night' takes no jobs now.
    assert [(row["name"], row["cpus"]) for row in profile["partitions"]] == [
        ("normal", lsf_programs.SLOTS),
        ("short", lsf_programs.SLOTS),
    ]
    assert profile["limits"]["arraySize"] == 500
    checked = lsf_site.cli("site", "check", "new", "--site-path", folder, "--json", env=env)
    assert (checked.returncode, checked.json["problems"]) == (0, [])


def test_errors_of_a_profile_of_lsf(lsf_site: LsfSite, tmp_path: Path) -> None:
    folder, env = tmp_path / "sites", {"LSF_ENVDIR": str(lsf_site.conf)}
    made = lsf_site.cli("site", "init", "new", "--wms-service-class", "lsf", "--output", folder, env=env)
    assert made.returncode == 0, made.stderr
    (folder / "bad.yaml").write_text(BROKEN, "utf-8")
    checked = lsf_site.cli("site", "check", "bad", "--site-path", folder, "--json", env=env)
    assert checked.returncode == 3, checked.stdout
    assert {(each["message"], each["origin"]["line"]) for each in checked.json["problems"]} == {
        ("there is no partition 'nosuch'", 2),
        ("there is no partition 'shrt'", 5),
        ("the cluster's LSF_UNIT_FOR_LIMITS is MB: set 'lsf.memoryUnit: MB', which is GB", 1),
        ("'limits.cpus' is 9999, and the cluster has nodes with 8", 4),
        ("'limits.arraySize' is 1000, and the cluster accepts arrays of 500", 4),
        ("the row 'short' of 'partitions' has 'cpus' 64, and the partition has 8", 5),
    }
