"""Jobs of a label share a description, and each keeps its own command."""

from __future__ import annotations

import pytest
from tests.services.htcondor.rendering import context, job

from longshore.model.tasks import Dag
from longshore.model.workflow import Workflow
from longshore.services.htcondor.render.submit_description import JobGrouper, program_line


@pytest.mark.parametrize(
    "words",
    [
        ("plain", "x"),
        # The sign that the words of a command are put together with to be compared.
        ("a\x1fb", "x"),
        ("\x1f", "x"),
        ("a b", "x"),
    ],
)
def test_commands_that_differ_in_a_sign_are_what_each_would_be_alone(words: tuple[str, ...]) -> None:
    commands = [("/bin/echo", *words, f"x{number}") for number in (1, 2)]
    jobs = [job(f"a{number}", command, label="a") for number, command in enumerate(commands)]
    sorter = JobGrouper(Workflow("w", Dag.by_name(jobs)), context())
    (kind,) = sorter.groups()
    program, text = sorter.program_and_arguments(kind)
    assert [f"{program} {text.before}{own}{text.after}" for own in text.own_parts] == list(map(program_line, commands))
