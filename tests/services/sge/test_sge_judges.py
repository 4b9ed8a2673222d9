"""Ping, the check of a site, lint and submit give one verdict on a Grid Engine, by answers that one gave."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.command import Cli

ANSWERS: Final = r"""#!/bin/sh
# Stands in for each program of a Grid Engine 8.1.9 with one host of eight slots and 8 GiB of h_vmem.
refuse() { printf '%s\nExiting.\n' "$1" >&2; exit 1; }
case "${0##*/} $*" in
"qconf -sconf") printf 'max_aj_tasks 75000\nmax_u_jobs 0\nreporting_params accounting=true reporting=false\n' ;;
"qconf -sc") printf '%s\n' \
  '#name  shortcut type   relop requestable consumable default urgency' \
  'gpu    gpu      INT    <=    YES         JOB        0       0' \
  'h_rt   h_rt     TIME   <=    YES         NO         0:0:0   0' \
  'h_vmem h_vmem   MEMORY <=    YES         YES        256M    0' ;;
"qconf -spl") printf 'mpi\nsmp\n' ;;
"qconf -sp "*) [ "$2" = smp ] && rule='$pe_slots' || rule='$fill_up'
  printf 'pe_name %s\nallocation_rule %s\n' "$2" "$rule" ;;
"qconf -sprjl") printf 'no project list defined\n' >&2; exit 1 ;;
"qconf -sq *") for queue in all.q own.q; do
  printf 'qname %s\nslots 8\npe_list mpi smp\nh_rt INFINITY\nh_vmem INFINITY\n' $queue; done ;;
"qstat -help") printf 'SGE 8.1.9\nusage: qstat [options]\n' ;;
"qstat -g c") printf '%s\n' \
  'CLUSTER QUEUE                   CQLOAD   USED    RES  AVAIL  TOTAL aoACDS  cdsuE' \
  '--------------------------------------------------------------------------------' \
  'all.q                             1.66      0      0      8      8      0      0' \
  'own.q                             1.66      0      0      8      8      0      0' ;;
"qhost "*) printf '%s\n' \
  "<host name='global'><hostvalue name='mem_total'>-</hostvalue></host>" \
  "<host name='node'><hostvalue name='num_proc'>2</hostvalue><hostvalue name='mem_total'>23.5G</hostvalue>" \
  "<resourcevalue name='slots' dominance='hc'>8.000000</resourcevalue>" \
  "<queue name='all.q'><queuevalue qname='all.q' name='qtype_string'>BIP</queuevalue>" \
  "<queuevalue qname='all.q' name='slots_used'>0</queuevalue>" \
  "<queuevalue qname='all.q' name='slots'>8</queuevalue></queue></host>" ;;
"qstat -xml "*) printf '<job_info></job_info>\n' ;;
"qacct "*) printf 'error: job name longshore-ping not found\n' >&2; exit 1 ;;
"qsub -w v -l h_vmem=1000000G")
  offer='because it offers only hc:h_vmem=8.000G'
  refuse "Unable to run job: Job 1 (-l h_vmem=1000000G) cannot run at host \"node\" $offer
verification: no suitable queues" ;;
"qsub -w v"*)
  case "$(cat)" in *own.q*)
    refuse 'Unable to run job: Job 3 cannot run in queue "own.q" because it is not contained in its user list
verification: no suitable queues' ;;
  *gpu=9*)
    refuse 'Unable to run job: Job 2 (-l gpu=9) cannot run at host "node" because it offers only hc:gpu=2.000000
verification: no suitable queues' ;;
  esac
  printf 'verification: found suitable queue(s)\n' ;;
*) refuse "nobody recorded: ${0##*/} $*" ;;
esac
"""
SITE: Final = "service: sge\nsge: {mem_resource: h_vmem, parallelEnvironment: smp}\nrequestMemory: 60\n"
RUN: Final = "computeSite: here\nsitePath: .\npipeline: {tasks: {a: {command: 'true'}}}\n"


@pytest.fixture
def sge_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins in the PATH, and a folder for a site and a run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("qsub", "qconf", "qstat", "qhost", "qacct"):
        (programs / name).write_text(ANSWERS, "utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("SGE_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(RUN, "utf-8")
    return tmp_path


def test_ping_tells_hosts_and_slots_and_the_largest_job(cli: Cli, sge_programs: Path) -> None:
    Path("here.yaml").write_text(SITE, "utf-8")
    done = cli("ping", "--config", "run.yaml")
    assert done.returncode == 0, done.stdout
    assert "partitions: all.q: up, 1 host, 8 slots, any time; own.q: up, 8 slots, any time\n" in done.stdout
    assert "largest job: cpus 8, memory 8 GiB\n" in done.stdout
    assert "projects: none\n" in done.stdout
    checked = cli("site", "check", "here", "--site-path", ".")
    assert (checked.returncode, checked.stdout) == (0, "here: ok: the controller answers\n")


def test_a_new_profile_has_queues_that_take_jobs_and_passes_its_check(cli: Cli, sge_programs: Path) -> None:
    made = cli("site", "init", "here", "--wms-service-class", "sge", "--output", ".")
    assert made.returncode == 0, made.stderr
    profile = yaml.safe_load(Path("here.yaml").read_text("utf-8"))
    assert profile["partitions"] == [{"name": "all.q", "nodes": 1, "cpus": 8, "memory": "8192 MiB"}]
    assert (profile["limits"]["cpus"], profile["limits"]["memory"]) == (8, "8192 MiB")
    keys = {key: profile["sge"].get(key) for key in ("mem_resource", "memoryPer", "parallelEnvironment")}
    assert keys == {"mem_resource": "h_vmem", "memoryPer": None, "parallelEnvironment": "smp"}
    checked = cli("site", "check", "here", "--site-path", ".")
    assert (checked.returncode, checked.stdout) == (0, "here: ok: the controller answers\n")


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("account: nosuch", "there is no project 'nosuch'"),
        ("directives: ['-P nosuch']", "there is no project 'nosuch'"),
        ("sge: {parallelEnvironment: nosuch}", "there is no parallel environment 'nosuch'"),
        ("sge: {mem_resource: nosuch}", "there is no resource 'nosuch'"),
        ("sge: {tmp_resource: nosuch}", "there is no resource 'nosuch'"),
        ("requestResources: {nosuch: 1}", "there is no resource 'nosuch'"),
        ("sge: {hard: '-q nosuch.q'}", "there is no partition 'nosuch.q'"),
        ("partitions: [{name: nosuch.q}]", "there is no partition 'nosuch.q'"),
        ("requestMemory: 12000", "12000 MiB of 'memory', and the largest node has 8192 MiB"),
        ("requestCpus: 9", "9 of 'cpus', and the largest node has 8"),
        ("requestResources: {gpu: 9}", '(-l gpu=9) cannot run at host "node" because it offers only hc:gpu=2'),
    ],
)
def test_all_judges_name_what_the_cluster_does_not_have(cli: Cli, sge_programs: Path, own: str, message: str) -> None:
    Path("base.yaml").write_text(SITE, "utf-8")
    Path("here.yaml").write_text(f"inherits: base\n{own}\n", "utf-8")
    asked = cli("ping", "--config", "run.yaml")
    checked = cli("site", "check", "here", "--site-path", ".")
    ran = cli("submit", "run.yaml")
    for done, text in ((asked, asked.stdout), (checked, checked.stdout), (ran, ran.stderr)):
        assert message in text
        # One cause is told once.
        assert "holds it" not in text
        assert done.returncode == 7, text
