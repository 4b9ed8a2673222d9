"""Parsing of rendered DAGs, and errors in others."""

from __future__ import annotations

import pytest
from tests.services.htcondor.rendering import context, rendered, some_of_everything

from longshore.services.htcondor.submission.validate import parse_dag

HEAD = "SUBMIT-DESCRIPTION d {\n  executable = /bin/true\n}\nJOB a d\nJOB b d\n"


def test_rendered_dags_are_parsed() -> None:
    workflow = some_of_everything()
    found = parse_dag(rendered(workflow, context())["wms/run.dag"].splitlines(keepends=True))
    assert found.faults == []
    assert len(found.nodes) == len(workflow)
    assert found.final == "final"
    assert found.descriptions["jobs/isr"].nodes == 3
    assert found.descriptions["jobs/isr"].longest_values["mem"] == "4096"
    assert "request_cpus = $(cpus:2)\n" in found.descriptions["jobs/isr"].text
    assert found.descriptions["jobs/sum"].longest_values["v"] == "'sum it''s $'('all)'"
    assert found.parents["j6"] == ["j3", "j4", "j5"]


def test_the_worst_of_several_values_is_the_one_with_most_quotes() -> None:
    text = HEAD + 'VARS a x="long and plain" My.Y="\\"t\\""\nVARS b x="\\"\\"" \nVARS ALL_NODES APPEND z="1"\n'
    found = parse_dag(text.splitlines()).descriptions["d"]
    assert found.longest_values == {"x": '""', "My.Y": '"t"'}
    assert found.appended_values == {"z": "1"}


def test_other_commands_of_dagman_are_accepted() -> None:
    more = (
        "PRE_SKIP a 3\nDONE b\nSAVE_POINT_FILE a here\nJOBSTATE_LOG log\nSPLICE s s.dag\nSUBDAG EXTERNAL t t.dag\n"
        "PARENT a CHILD s t\nPARENT s CHILD b\nRETRY s+c 3\nCONNECT s s\n"
    )
    found = parse_dag((HEAD + more).splitlines(keepends=True))
    assert found.faults == []
    assert list(found.nodes) == ["a", "b", "s", "t"]


@pytest.mark.parametrize(
    ("more", "line", "message"),
    [
        ("JOB a d\n", 6, "there are two nodes 'a'"),
        ("JOB c\n", 6, "the node 'c' has no description"),
        ("JOB c e\n", 0, "the node 'c' has the description 'e', which does not exist"),
        ("PARENT a CHILD c\n", 6, "there is no node 'c'"),
        ("PARENT a\n", 6, "an edge has no parent, or no child"),
        ("PARENT a CHILD b\nPARENT a CHILD b\n", 0, "the edge from 'a' to 'b' exists twice"),
        ("PARENT a CHILD b\nPARENT b CHILD a\n", 0, "the nodes 'b', 'a' are in a cycle"),
        ("PRIORITY c 1\n", 6, "there is no node 'c'"),
        ("SCRIPT POST c x\n", 6, "there is no node 'c'"),
        ('VARS c x="1"\n', 6, "there is no node 'c'"),
        ('VARS a x="1\n', 6, "the variables of 'a' cannot be read"),
        ('VARS a after0="b c"\n', 6, "there is no node 'c'"),
        ('VARS a after0="b"\nPARENT a CHILD b\n', 0, "the nodes 'a', 'b' are in a cycle"),
        ("FINAL f d\nFINAL g d\n", 7, "'g' is a second final node"),
        ("FINAL f d\nPARENT a CHILD f\n", 7, "the final node 'f' is in an edge"),
        ("PRE_SKIP c 1\n", 6, "there is no node 'c'"),
        ("DONE c\n", 6, "there is no node 'c'"),
        ("RETRY a+c 1\nRETRY s+c 1\n", 7, "there is no node 's+c'"),
        ("REJECT\n", 6, "'REJECT' makes DAGMan refuse the DAG"),
        ("JOBS c d\n", 6, "'JOBS' is no command of a DAG"),
        ("SUBMIT-DESCRIPTION d {\n}\n", 6, "there are two descriptions 'd'"),
        ("SUBMIT-DESCRIPTION e {\n", 6, "the description 'e' has no end"),
    ],
)
def test_faults_have_their_line(more: str, line: int, message: str) -> None:
    faults = parse_dag((HEAD + more).splitlines(keepends=True)).faults
    assert [fault for fault in faults if fault.line == line and fault.message.startswith(message)]
    assert parse_dag(HEAD.splitlines(keepends=True)).faults == []
