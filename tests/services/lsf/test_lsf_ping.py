"""Ping of a cluster of LSF's stand-ins."""

from __future__ import annotations

import pytest
from tests.services.lsf.lsf_site import LsfSite


def test_ping_shows_the_status_of_queues_and_the_sources(lsf_site: LsfSite) -> None:
    lsf_site.describe("queue: normal\n")
    done = lsf_site.cli("ping", "--config", lsf_site.write(""), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    details = done.json["details"]
    assert details["partitions"] == "night: open:inactive; normal: up; short: up"
    assert (details["version"], details["cluster"], details["unit of limits"]) == ("10.1.0.8", "main", "MB")
    assert {details[name] for name in ("bjobs", "bhist", "bacct")} == {"works"}


@pytest.mark.parametrize(
    ("site", "own", "message"),
    [
        ("queue: night\n", "", "the partition 'night' is open:inactive"),
        ("queue: nowhere\n", "", "there is no partition 'nowhere'"),
        ("", "bsub: ['-q night']", "the partition 'night' is open:inactive"),
        ("", "memoryUnit: GB", "the cluster's LSF_UNIT_FOR_LIMITS is MB: set 'lsf.memoryUnit: MB', which is GB"),
    ],
)
def test_ping_fails_for_a_queue_or_a_unit_that_jobs_cannot_use(
    lsf_site: LsfSite, site: str, own: str, message: str
) -> None:
    lsf_site.describe(site, own)
    done = lsf_site.cli("ping", "--config", lsf_site.write(""), "--json")
    assert done.returncode != 0, done.stdout + done.stderr
    assert done.json["message"] == message


def test_ping_says_that_the_daemons_do_not_answer(lsf_site: LsfSite) -> None:
    done = lsf_site.cli("ping", "--config", lsf_site.write(""), "--json", env={"STAND_IN_WORDS": "down"})
    assert done.returncode != 0
    assert done.json["message"] == "the controller does not answer: Cannot connect to LSF. Please wait ..."
