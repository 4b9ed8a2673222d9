"""Ping, the check of a site, lint and submit give one verdict on any profile of Grid Engine: that of qsub."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any, Final

import pytest
import yaml
from tests.depth import DEPTH
from tests.live.sge_pools import SgeSite

pytestmark = pytest.mark.live
RIGHT: Final[dict[str, list[dict[str, Any]]]] = {
    "queue": [{}, {"sge": {"hard": "-q all.q"}}, {"partitions": [{"name": "short.q", "walltime": "0:10:00"}]}],
    "project": [{}, {"account": "known"}],
    "environment": [{}, {"requestCpus": 2}, {"requestCpus": 8}, {"sge": {"parallelEnvironment": "sm*"}}],
    "resource": [{}, {"requestResources": {"gpu": 2}}, {"sge": {"priority": -5}}],
    "memory": [{"requestMemory": 60}, {"requestMemory": 8192}],
    "time": [{}, {"requestWalltime": 300}],
}
"""Parts of profiles that the cluster takes, in any combination."""
WRONG: Final[dict[str, list[dict[str, Any]]]] = {
    "queue": [
        {"sge": {"hard": "-q nowhere.q"}},
        {"sge": {"soft": "-q nowhere.q"}},
        {"partitions": [{"name": "nowhere.q"}]},
        {"sge": {"hard": "-q short.q"}, "requestWalltime": 3600},
    ],
    "project": [{"account": "unknown"}, {"account": "closed"}, {"directives": ["-P unknown"]}],
    "environment": [
        {"sge": {"parallelEnvironment": "unknown"}, "requestCpus": 2},
        {"sge": {"parallelEnvironment": "loose"}, "requestCpus": 2},
        {"requestCpus": 9},
    ],
    "resource": [
        {"requestResources": {"gpu": 3}},
        {"requestResources": {"tape": 1}},
        {"sge": {"hard": "-l lic_a=9"}},
        {"directives": ["-nonsense"]},
    ],
    "memory": [{"requestMemory": 12000}, {"sge": {"mem_resource": "unknown"}}],
}
"""Parts for each of which it refuses jobs."""
SECONDS: Final = {"change": 40.0, "all": 60.0, "night": 600.0}
FEWEST: Final = 4
HARDLY: Final = 2
"""One profile of so many is right."""


@pytest.fixture
def named_things(sge_site: SgeSite) -> SgeSite:
    """A site on a cluster with projects, one of them closed, and a parallel environment that no queue has."""

    def add(option: str, text: str) -> None:
        path = sge_site.folder / "object"
        path.write_text(text, "utf-8")
        sge_site.pool.run("qconf", option, str(path), check=False)

    for name, users in (("known", "NONE"), ("closed", "deadlineusers")):
        add("-Aprj", f"name {name}\noticket 0\nfshare 0\nacl {users}\nxacl NONE\n")
    add("-Ap", sge_site.pool.run("qconf", "-sp", "smp").replace("smp", "loose"))
    return sge_site


def profile(chance: random.Random) -> tuple[dict[str, Any], bool]:
    """Return a profile, and whether the cluster takes its jobs."""
    is_right = not chance.randrange(HARDLY)
    wrong = "" if is_right else chance.choice([*WRONG])
    found: dict[str, Any] = {}
    for key, parts in RIGHT.items():
        found = merged(found, chance.choice(parts if key != wrong else WRONG[key]))
    # A queue of the job's own choice is no row of the table.
    if "partitions" in found and "hard" in found.get("sge", {}):
        del found["partitions"]
    return found, is_right


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return two maps as one, key by key."""
    both = {**first, **second}
    for key in first.keys() & second.keys():
        if isinstance(first[key], dict):
            both[key] = {**first[key], **second[key]}
    return both


def test_all_judges_agree(named_things: SgeSite) -> None:
    site, chance = named_things, random.Random(20)
    config = site.folder / "run.yaml"
    config.write_text("computeSite: cluster\npipeline: {tasks: {a: {command: 'true'}}}\n", "utf-8")
    site.describe()
    plain = yaml.safe_load(site.profile.read_text("utf-8"))
    until, seen = time.monotonic() + SECONDS[DEPTH], {True: 0, False: 0}
    while min(seen.values()) < FEWEST or time.monotonic() < until:
        own, is_right = profile(chance)
        site.profile.write_text(yaml.safe_dump(merged(plain, own)), "utf-8")
        verdicts = {
            "ping": site.cli("ping", "--config", config).returncode,
            "site check": site.cli("site", "check", "cluster").returncode,
            "config lint": site.cli("config", "lint", "--probe", config).returncode,
            "submit": (ran := site.cli("submit", config, "--wait", timeout=120)).returncode,
        }
        assert verdicts == dict.fromkeys(verdicts, 0 if is_right else 7), f"{own}\n{ran.stdout}{ran.stderr}"
        # What is refused is refused before anything is submitted.
        assert is_right or "Run Id" not in ran.stdout, own
        seen[is_right] += 1
