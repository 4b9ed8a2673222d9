"""Ping of a cluster of LSF's stand-ins."""

from __future__ import annotations

import pytest
from tests.services.lsf.lsf_site import LsfSite

from longshore.services.batch.dialect import HostOffer
from longshore.services.lsf.cluster import parse_hosts, parse_limits, parse_slots


def test_ping_shows_the_status_of_queues_and_the_sources(lsf_site: LsfSite) -> None:
    lsf_site.describe("queue: normal\n")
    done = lsf_site.cli("ping", "--config", lsf_site.write(""), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    details = done.json["details"]
    assert details["partitions"] == "night: open:inactive; normal: up; short: up"
    assert done.json["capacity"] == {"cpus": 8, "memory": round(31.2 * 1024**3)}
    assert (details["version"], details["cluster"], details["unit of limits"]) == ("10.1.0.8", "main", "MB")
    assert {details[name] for name in ("bjobs", "bhist", "bacct")} == {"works"}


@pytest.mark.parametrize(
    ("site", "own", "message"),
    [
        ("queue: nowhere\n", "", "there is no partition 'nowhere'"),
        ("", "bsub: ['-q nowhere']", "there is no partition 'nowhere'"),
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


@pytest.mark.parametrize(("site", "own"), [("queue: night\n", ""), ("", "bsub: ['-q night']")])
def test_a_queue_that_is_closed_now_is_noted(lsf_site: LsfSite, site: str, own: str) -> None:
    lsf_site.describe(site, own)
    done = lsf_site.cli("ping", "--config", lsf_site.write(""), "--json")
    assert (done.returncode, done.json["ok"]) == (0, True)
    assert done.json["notes"] == ["the partition 'night' is open:inactive: jobs wait until that changes"]


def test_ping_says_that_the_daemons_do_not_answer(lsf_site: LsfSite) -> None:
    done = lsf_site.cli("ping", "--config", lsf_site.write(""), "--json", env={"STAND_IN_WORDS": "down"})
    assert done.returncode != 0
    assert done.json["message"] == "the controller does not answer: Cannot connect to LSF. Please wait ..."


LIMITS = """\
QUEUE: normal
  -- The default queue.

PARAMETERS/STATISTICS
PRIO NICE STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV
 30   20  Open:Active       -    -    -    -     0     0     0     0     0    0

DEFAULT LIMITS:
 RUNLIMIT
 60.0 min of hostA

MAXIMUM LIMITS:
 RUNLIMIT
 1440.0 min of hostA

------------------------------------------------------------------------------
QUEUE: short
MAXIMUM LIMITS:
 CPULIMIT
 20.0 min of hostA
 RUNLIMIT
 10.0 min
-----
QUEUE: night
MAXIMUM LIMITS:
 TASKLIMIT
 1 2 16
 FILELIMIT DATALIMIT STACKLIMIT CORELIMIT MEMLIMIT
  20000 K   20000 K   2048 K     20000 K   5 G

SCHEDULING PARAMETERS
"""
HOSTS = """\
HOST_NAME                       type       model  cpuf ncpus maxmem maxswp server RESOURCES
hostA                         X86_64      Xeon  116.1     8  31.2G     4G    Yes (mg big)
hostB                         X86_64      Xeon  116.1     8  31.2G     4G    Yes (big mg)
hostC                         X86_64      Xeon  116.1     -      -     4G    Yes ()
hostD                         X86_64      Xeon  116.1     8      -      -    Yes ()
login                         X86_64      Xeon  116.1    64   255G     4G     No ()
"""

SLOTS = """\
HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV
hostA              ok              -       4      1      1      0      0      0
hostB              closed_Full     -      16     16     16      0      0      0
hostC              ok              -       -      0      0      0      0      0
"""


def test_limits_of_queues_and_kinds_of_hosts() -> None:
    limits = parse_limits(LIMITS)
    assert {name: each.walltime_s for name, each in limits.items()} == {
        "normal": 86400.0,
        "short": 600.0,
        "night": None,
    }
    night, normal = limits["night"], limits["normal"]
    assert (night.max_cpus, night.max_memory_b) == (16, 5 * 1024**3)
    assert (normal.max_cpus, normal.max_memory_b) == (None, None)
    assert parse_limits("") == {}
    group, away = parse_hosts(HOSTS)
    assert (group.count, group.names, group.cpus) == (2, ("hostA", "hostB"), 8)
    assert group.features == {"mg", "big"}
    assert (away.names, away.cpus, away.memory_b) == (("hostD",), 8, None)
    assert parse_hosts("") == ()


def test_the_slots_of_a_host_are_not_its_processors() -> None:
    assert parse_slots(SLOTS) == {"hostA": HostOffer(cpus=4), "hostB": HostOffer(cpus=16)}
    assert parse_slots("") == {}


@pytest.mark.parametrize("own", ["bsub: ['-n 64']", "bsub: ['-n 2,64', '-R span[hosts=1]']"])
def test_slots_on_several_hosts_and_ranges_of_them_are_no_fault(lsf_site: LsfSite, own: str) -> None:
    lsf_site.describe("", own)
    done = lsf_site.cli("ping", "--config", lsf_site.write(""))
    assert done.returncode == 0, done.stdout


def test_slots_on_one_host_are_those_of_a_host(lsf_site: LsfSite) -> None:
    lsf_site.describe("", "bsub: ['-n 64', '-R span[hosts=1]']")
    done = lsf_site.cli("ping", "--config", lsf_site.write(""))
    assert "64 of 'cpus', and the largest node has 8" in done.stdout


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ("queue: nrmal\n", "there is no partition 'nrmal'"),
        ("requestCpus: 99\n", "asks for 99 of 'cpus', and the largest node has 8"),
    ],
)
def test_submit_refuses_what_the_cluster_does_not_have(lsf_site: LsfSite, site: str, message: str) -> None:
    lsf_site.describe(site)
    done = lsf_site.cli("submit", lsf_site.write(""))
    assert done.returncode == 7
    assert message in done.stderr
