"""Parallel environments that can start pilots on several hosts, and those that cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from longshore.errors import ConfigError
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.service import SgeService, find_unfit

SMP = """\
pe_name            smp
slots              9999
start_proc_args    /bin/true
allocation_rule    $pe_slots
control_slaves     FALSE
job_is_first_task  TRUE
"""
MPI = "pe_name mpi8\nallocation_rule    8\ncontrol_slaves     TRUE\n"


@pytest.mark.parametrize(
    ("text", "cpus", "messages"),
    [
        (MPI, 8, []),
        (MPI, 1, ["with 1 processor each: its allocation_rule is '8'"]),
        (SMP, 4, ["control_slaves is FALSE", "with 4 processors each: its allocation_rule is '$pe_slots'"]),
        ("", 4, ["control_slaves is not set", "its allocation_rule is ''"]),
    ],
)
def test_what_pilots_on_several_hosts_need(text: str, cpus: int, messages: list[str]) -> None:
    found = [each.message for each in find_unfit(text, cpus)]
    assert len(found) == len(messages)
    assert all(words in message for words, message in zip(messages, found, strict=True))


def test_the_way_out_names_the_processors_of_a_fixed_rule() -> None:
    (unmet,) = find_unfit(MPI, 4)
    assert unmet.hint == (
        "Name one with the rule 4 under 'sge.nodesEnvironment', or give pilots as many processors: pilot: {cpus: 8}. "
        "Else raise 'pilot.count' instead of 'pilot.nodes'."
    )


def ask(own: dict[str, Any], pilot: dict[str, Any] | None) -> list[str]:
    """Return the calls that ask for what pilots of a site need."""
    settings = {"sge": own} | ({"pilot": pilot} if pilot else {})
    return [" ".join(question.call.argv) for question in SgeService().pilot_questions(settings)]


def test_the_cluster_is_asked_only_for_pilots_on_several_hosts() -> None:
    own, pilot = {"nodesEnvironment": "mpi8"}, {"cpus": 8, "nodes": 2}
    assert ask(own, pilot) == ["qconf -spl", "qconf -sp mpi8"]
    assert ask(own, None) == ask(own, {"cpus": 8}) == []
    assert ask(own, {"nodes": 2}) == ask(own, pilot), "pilots have a number of processors by default"
    # A pattern of names is left to Grid Engine.
    assert ask({"nodesEnvironment": "mpi*"}, pilot) == []


def test_an_environment_that_does_not_exist() -> None:
    own = {"nodesEnvironment": "mpi8"}
    listed, _ = SgeService().pilot_questions({"sge": own, "pilot": {"cpus": 8, "nodes": 2}})
    assert listed.parse("mpi8\nsmp\n") == ()
    (unmet,) = listed.parse("mpi4\nsmp\n")
    assert unmet.message == "there is no parallel environment 'mpi8'"


def test_a_site_that_names_none_is_told_which_there_are() -> None:
    (listed,) = SgeService().pilot_questions({"sge": {}, "pilot": {"cpus": 8, "nodes": 2}})
    (unmet,) = listed.parse("mpi4\nsmp\n")
    assert unmet.message == "pilots on several hosts need a parallel environment: 'sge.nodesEnvironment' is missing"
    assert unmet.hint == "Name one of mpi4, smp: 'qconf -sp NAME' shows its allocation_rule."
    assert [each.hint for each in listed.parse("")] == [""]


def test_hosts_come_from_the_file_of_the_job(tmp_path: Path) -> None:
    launcher = SgeDialect({"nodesEnvironment": "mpi8", "bin": "/opt/sge/bin"}).node_launcher(2, 8)
    assert launcher.start == ("/opt/sge/bin/qrsh", "-inherit", "-nostdin", "-noshell", "-V")
    assert launcher.hint == "'mpi8' must have 'allocation_rule 8'."
    hosts = tmp_path / "pe_hostfile"
    hosts.write_text("n1 4 all.q@n1 UNDEFINED\nn1 4 fast.q@n1 UNDEFINED\nn2 8 all.q@n2 <NULL>\n", "ascii")
    said = subprocess.run(
        ["/bin/sh", "-c", f"echo {launcher.hosts}"], env={"PE_HOSTFILE": str(hosts)}, capture_output=True, check=True
    )
    assert said.stdout == b"n1 n1 n2\n"


def test_a_site_without_such_an_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"pilots on 2 hosts .*: 'sge.nodesEnvironment' is missing") as caught:
        SgeDialect({}).node_launcher(2, 8)
    assert "'allocation_rule 8' and 'control_slaves TRUE'" in (caught.value.hint or "")
