"""A value reaches a command unchanged, with any characters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.config.interpolate import Scope
from longshore.config.merge import to_node
from longshore.config.profile import compile_profile
from longshore.config.search import Config
from longshore.contract.algorithms import ClusteringSettings
from longshore.errors import Origin
from longshore.jobs.commands import command_argv, shell_line, substitute_files, substitute_variables
from longshore.model.tasks import Command, Dag, Task, TaskGraph
from longshore.plan.clustering import cluster_single_tasks
from longshore.plan.jobs import SpecialJobs, compile_profiles, transform

HERE = Origin("here.yaml", 1, 1, "file")
TELL = (sys.executable, "-I", "-S", "-c", "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))")
# What an operating system can hand to a program: any text without NUL.
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
hostile = words | st.sampled_from(
    [
        *("a b", "it's", '"', "$HOME", "`id`", "\n", "*", "~", "-n", ";exit", "a\tb", "{x}", "%s", "\\"),
        *("<ENV:HOME>", "a<ENV:HOME>'b", "<FILE:raw>", "'<FILE:raw>", "ENV:HOME", "FILE:raw"),
    ]
)


def jobs_of(
    command: Any, data_id: dict[str, Any], paths: dict[str, tuple[str, ...]], *, is_pipeline: bool = False
) -> Any:
    """The one job of a task with that command, which a pipeline or the configuration has."""
    task = Task(name="t", label="T", data_id=data_id, paths=paths)
    clustered = cluster_single_tasks(TaskGraph(name="g", dag=Dag([task], [])), ClusteringSettings())
    config = Config(to_node({} if is_pipeline else {"runQuantumCommand": command}, HERE))
    own = to_node(command, HERE) if is_pipeline else None
    profiles = compile_profiles(
        clustered, lambda member, free: compile_profile(config, member.label, Scope(free=free), command=own)
    )
    workflow = transform(clustered, profiles, name="w", attributes={}, special=SpecialJobs())
    return workflow["t"]


def with_files(command: Command) -> Command:
    """A command with the paths of files, which are filled in later."""
    return substitute_files(command, {"raw": "/no where"})


def filled(command: Command) -> Command:
    """A command with what is filled in later."""
    return substitute_variables(with_files(command), {"HOME": "/no/home"})


def told(argv: tuple[str, ...]) -> list[str]:
    """What a program was given, as it tells itself."""
    done = subprocess.run(argv, capture_output=True, check=True, cwd=Path("/"))
    return done.stdout.decode().split("\0")


@settings(max_examples=examples(60))
@given(value=hostile, files=st.lists(hostile, min_size=1, max_size=3))
def test_in_a_line_for_the_shell(value: str, files: list[str]) -> None:
    line = " ".join(map(shell_line, [(word,) for word in TELL])).replace("{", "{{").replace("}", "}}")
    job = jobs_of(f"{line} {{x}} {{many}}", {"x": value}, {"many": tuple(files)})
    assert told(command_argv(filled(job.command))) == [value, *files]


@settings(max_examples=examples(60))
@given(value=hostile, files=st.lists(hostile, min_size=1, max_size=3))
def test_in_a_list_of_words(value: str, files: list[str]) -> None:
    job = jobs_of([*TELL, "{x}", "{many}", "<{x}>"], {"x": value}, {"many": tuple(files)})
    assert told(command_argv(filled(job.command))) == [value, *files, f"<{value}>"]
    assert told(("/bin/sh", "-c", shell_line(with_files(job.command)))) == [value, *files, f"<{value}>"]


@settings(max_examples=examples(40))
@given(value=hostile)
def test_beside_what_is_filled_in_later(value: str) -> None:
    job = jobs_of([*TELL, "<ENV:HOME>/{x}", "<FILE:raw>", "x={x}<FILE:raw> it's"], {"x": value}, {})
    env = {"HOME": "/no/home"}
    done = subprocess.run(command_argv(filled(job.command)), capture_output=True, check=True, cwd=Path("/"), env=env)
    assert done.stdout.decode().split("\0") == [f"/no/home/{value}", "/no where", f"x={value}/no where it's"]


@given(value=st.integers(-(10**9), 10**9))
def test_a_number_keeps_its_format(value: int) -> None:
    assert jobs_of("prog {x:06}", {"x": value}, {}).command == f"prog {value:06}"


@settings(max_examples=examples(60))
@given(value=words.filter(lambda text: "\n" not in text))
def test_a_format_is_applied_before_the_shell_sees_it(value: str) -> None:
    line = " ".join(map(shell_line, [(word,) for word in TELL])).replace("{", "{{").replace("}", "}}")
    job = jobs_of(f"{line} {{x:.3}} {{x:>25}} {{n:>4}}", {"x": value, "n": 7}, {})
    assert told(command_argv(filled(job.command))) == [f"{value:.3}", f"{value:>25}", "   7"]


QUOTED = [
    ("{x}", "{}"),
    ('"{x}"', "{}"),
    ("'{x}'", "{}"),
    ("a_\"{x}\"_'{x}'.b", "a_{0}_{0}.b"),
    ('"@RG ID:{x}"', "@RG ID:{}"),
    ('"s/^/cup {x} of /"', "s/^/cup {} of /"),
    ("'$1 == \"{x}\"'", '$1 == "{}"'),
    ("\"'{x}'\"", "'{}'"),
    ("\\'{x}\\'", "'{}'"),
    ('"\\\\{x}\\""', '\\{}"'),
    ('"$(printf \'%s.\' \'{x}\' "{x}" {x}; echo "(")"', "{0}.{0}.{0}.("),
    ('"${HOME%/*}{x}$((1 + (2)))"', "/home{}3"),
    ("\"$(sh -c 'printf %s. {x}')\"", "{}."),
    ('"$(sh -c "printf %s. {x}")"', "{}."),
    ('"$(sh <<\'END\'\nprintf %s. "{x}" {x}\nEND\n)"', "{0}.{0}."),
    ("\"$(eval 'printf %s.' \"'b'\")\"'{x}'", "b.{}"),
    ("\"$(printf %s. '{x}' # )'\n)\"", "{}."),
    ("it'is' # 'it {x}\\\n: \"'{x}\"", "itis"),
]
"""Words of a line, and what the program is given."""


@pytest.mark.parametrize(("word", "expected"), QUOTED)
@settings(max_examples=examples(8))
@given(value=hostile)
def test_in_quotation_marks_a_value_is_exactly_the_value(word: str, expected: str, value: str) -> None:
    line = " ".join(map(shell_line, [(each,) for each in TELL])).replace("{", "{{").replace("}", "}}")
    job = jobs_of(f"HOME=/home/no; {line} {word}", {"x": value}, {}, is_pipeline=True)
    assert told(command_argv(filled(job.command))) == [expected.format(value)]


PIECES = [
    *("{x}", '"a{x}b"', "'{x}'", '"it\'s {x}"', "'say \"{x}'", '"$(printf %s "{x}" {x})"', "\"$(printf %s 'y{x}')\""),
    *('"$(printf %s "{x}")"', '\\"', "\\'", '"\\""', " ", "a", "'a'", "${Y%.*}", '"${#Y}"', '"$((1 + (1)))"'),
    *("#", "\\ ", '"$(sh -c "printf %s {x}")"', "=", '"\\{x}"', "\\{x}", '"$"', "'$'"),
]
"""Pieces of lines, each complete in itself."""
SPECIAL = ["a b", "it's", '"', "$HOME", "`id`", "a\nb", "*", "\\", ";exit 3", "$(id)", "#", "a)", " ", "\\$"]


@settings(max_examples=examples(100))
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12), value=st.sampled_from(SPECIAL))
def test_in_any_line_a_value_takes_the_place_of_a_plain_one(pieces: list[str], value: str) -> None:
    text = f"printf '<%s>' {''.join(pieces)} {{x}}\nprintf '{{x}}'%s \"{{x}}\""
    plain, special = (jobs_of(text, {"x": each}, {}, is_pipeline=True).command for each in ("QQQ", value))
    runs = [
        subprocess.run(["/bin/sh", "-c", each], capture_output=True, cwd="/", check=True) for each in (plain, special)
    ]
    assert runs[1].stdout.decode() == runs[0].stdout.decode().replace("QQQ", value)


def test_several_files_in_quotation_marks_are_one_word() -> None:
    files = {"many": ("a", "b c"), "none": ()}
    command = jobs_of('cat "{many}" \'{many}\' {many} "{none}" > x', {}, files, is_pipeline=True).command
    assert command == "cat \"a b c\" 'a b c' a 'b c' \"\" > x"


@pytest.mark.parametrize(
    "line",
    [
        "cat <<END > {x}\n{x}\nEND\n",
        "n=`wc -l < {x}`",
        "echo ${Y:-{x}}",
    ],
)
def test_where_quotation_marks_are_not_known_values_are_quoted_as_words(line: str) -> None:
    assert jobs_of(line, {"x": "a b"}, {}, is_pipeline=True).command == line.replace("{x}", "'a b'")


def test_a_value_in_a_comment_cannot_end_it() -> None:
    command = jobs_of("true # {x}", {"x": "a\nexit 3"}, {}, is_pipeline=True).command
    assert command == "true # a exit 3"


def test_a_command_for_tasks_of_bps_is_as_in_bps() -> None:
    assert jobs_of('echo "{x}"', {"x": "a b"}, {}).command == "echo \"'a b'\""
