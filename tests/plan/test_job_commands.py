"""Split commands equal the words of a shell, and quoted text round-trips."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.jobs.commands import (
    SHELL,
    add_user_lines,
    command_argv,
    command_program,
    full_command,
    insert_run_folder,
    job_variables,
    shell_assignment,
    shell_line,
    shell_program,
    substitute_files,
    substitute_inherited,
    substitute_variables,
)
from longshore.model.tasks import Command
from longshore.model.workflow import MIB, JobSettings, Request

SHELLS = [shell for shell in ("dash", "bash", "ksh", "mksh") if shutil.which(shell)]
quickly = settings(max_examples=examples(60))

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
benign = st.text(st.sampled_from("aZ09 \t-_=+,./:%@^é世\u00a0\u2003"), max_size=24)
"""Lines of signs that need no shell, or hardly any."""
awkward = st.text(st.sampled_from("ab \t\n'\"\\$`*?[]~#!;&|<>(){}=%-\r\v\x7f"), max_size=16)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that prints its arguments, each with a NUL behind it."""
    path = tmp_path_factory.mktemp("bin") / "echo0"
    path.write_text("#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done\n", "utf-8")
    path.chmod(0o755)
    return str(path)


def printed(argv: tuple[str, ...], **environment: str) -> list[bytes]:
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, env={"PATH": os.environ["PATH"], **environment})
    return done.stdout.split(b"\0")[:-1]


def encoded(given: tuple[str, ...]) -> list[bytes]:
    return [word.encode() for word in given]


@quickly
@given(benign)
def test_split_line_equals_the_words_of_the_shell(echo: str, rest: str) -> None:
    line = f"{echo} {rest}"
    argv = command_argv(line)
    assert argv[0] == echo
    assert printed((SHELL, "-c", line)) == encoded(argv[1:])


@quickly
@given(awkward)
def test_line_with_shell_syntax_goes_to_the_shell(echo: str, rest: str) -> None:
    line = f"{echo} {rest}"
    argv = command_argv(line)
    if argv[:2] != (SHELL, "-c"):
        assert printed((SHELL, "-c", line)) == encoded(argv[1:])


@pytest.mark.parametrize("shell", SHELLS)
@quickly
@given(
    st.from_regex(r"[a-zA-Z0-9_+,./:%@^é-]{1,8}( [a-z=+-]{1,5})?", fullmatch=True).filter(
        lambda line: line[0] not in "+-"
    )
)
def test_the_first_word_of_a_line_that_is_split_is_a_program(shell: str, line: str) -> None:
    if command_argv(line)[:2] != (SHELL, "-c"):
        assert_is_a_program(shell, line)


def assert_is_a_program(shell: str, line: str) -> None:
    """Hold that a shell looks for a program: with nothing on its path it finds none."""
    where = shutil.which(shell)
    assert where
    done = subprocess.run([where, "-c", line], env={"PATH": "/nonexistent"}, capture_output=True, check=False, cwd="/")
    assert done.returncode in (126, 127), (line, done)


WORDS_OF_THE_SHELL = """
    ! . : [ { } alias bg break case cd command continue do done echo elif else esac eval exec exit export false
    fc fg fi for getopts hash if in jobs kill local newgrp printf pwd r read readonly return set shift source test
    then time times trap true type ulimit umask unalias unset until wait while
"""


@pytest.mark.parametrize("word", WORDS_OF_THE_SHELL.split())
@pytest.mark.parametrize("shell", SHELLS)
def test_words_of_the_shell_are_left_to_it(shell: str, word: str) -> None:
    argv = command_argv(f"{word} x")
    if argv == (word, "x"):
        # These are programs too, and do the same.
        assert word in {"true", "false"}
    else:
        assert argv == (SHELL, "-c", f"{word} x")


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("run a  b\tc ", ("run", "a", "b", "c")),
        ("  run", ("run",)),
        ("./run --x=1", ("./run", "--x=1")),
        ("", (SHELL, "-c", "")),
        ("  ", (SHELL, "-c", "  ")),
        ("A=1 run", (SHELL, "-c", "A=1 run")),
        (" A+=1 run", (SHELL, "-c", " A+=1 run")),
        ("run a\nrun b", (SHELL, "-c", "run a\nrun b")),
        ("run 'a b'", (SHELL, "-c", "run 'a b'")),
        ("run $A", (SHELL, "-c", "run $A")),
        ("run ~/a", (SHELL, "-c", "run ~/a")),
        ("run a*", (SHELL, "-c", "run a*")),
        ("run \r", (SHELL, "-c", "run \r")),
        ("%1", (SHELL, "-c", "%1")),
    ],
)
def test_lines(line: str, argv: tuple[str, ...]) -> None:
    assert command_argv(line) == argv


def test_words_are_taken_as_they_are() -> None:
    assert command_argv(("echo", "$A", "")) == ("echo", "$A", "")


@quickly
@given(st.lists(words, max_size=4).map(tuple))
def test_words_as_a_line_come_out_as_they_went_in(echo: str, given: tuple[str, ...]) -> None:
    assert printed((SHELL, "-c", shell_line((echo, *given)))) == encoded(given)


@pytest.mark.parametrize("name", ["echo", "test", "if", "A=1", "{", "kill", "source"])
def test_a_program_named_as_something_of_the_shells_is_still_the_program(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.write_text('#!/bin/sh\nprintf "it is me: %s\\\\n" "$1"\n', "utf-8")
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    line = shell_line((name, "a\\nb"))
    if name == "A=1":
        # What `env` would take for an assignment it must not be given.
        assert not line.startswith("env")
    done = subprocess.run([SHELL, "-c", line], env={"PATH": path}, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode() == "it is me: a\\nb\n"


def test_empty_command_starts_nothing() -> None:
    assert subprocess.run([SHELL, "-c", shell_line(())], capture_output=True, check=False).returncode == 127


@quickly
@given(
    st.lists(
        st.one_of(words, st.sampled_from(["<ENV:X>", "a<ENV:X>b", "<ENV:Y>'<ENV:X>", "<ENV:NONE>", "<ENV:1>"]))
    ).map(tuple),
    words,
)
def test_variables_are_filled_in_alike_with_and_without_a_shell(echo: str, given: tuple[str, ...], value: str) -> None:
    environment = {"X": value, "Y": "$X ; `y`"}
    filled = substitute_variables((echo, *given), environment)
    assert isinstance(filled, tuple)
    assert printed(filled) == printed((SHELL, "-c", shell_line((echo, *given))), **environment)


names = st.sampled_from(["X", "Y", "OWN", "UNSET"])
values = st.lists(words | awkward | names.map("<ENV:{}>".format), max_size=5).map("".join)


@quickly
@pytest.mark.parametrize("shell", SHELLS)
@given(value=values, x=words | awkward, y=values, own=values)
@example("<ENV:X>'<ENV:X><ENV:Y>\n", "$Y `y` '\"\n", "<ENV:X>", "<ENV:X>")
def test_inherited_variables_are_substituted_with_and_without_a_shell(
    echo: str, shell: str, value: str, x: str, y: str, own: str
) -> None:
    inherited = {"X": x, "Y": y}
    filled = substitute_inherited({"X": value}, {**inherited, "OWN": own})
    line = shell_assignment("X", value, {"OWN": own})
    # A shell that minds variables which are not set, as that of the table of jobs does.
    assert printed((shell, "-euc", f"{echo} {line}"), **inherited) == encoded((f"X={filled['X']}",))


def test_inherited_variables_are_substituted_once() -> None:
    given = {"PATH": "<ENV:HOME>/bin:<ENV:PATH>", "A": "<ENV:PATH>", "B": "$HOME <ENV:NO>.", "C": "<ENV:TEXT>"}
    inherited = {"PATH": "/bin", "HOME": "/me", "TEXT": "<ENV:HOME>"}
    assert substitute_inherited(given, inherited) == {
        "PATH": "/me/bin:/bin",
        "A": "/bin",
        "B": "$HOME .",
        "C": "<ENV:HOME>",
    }


def test_variables_of_lines_are_the_shells_affair() -> None:
    assert substitute_variables("run <ENV:X>", {"X": "1"}) == "run <ENV:X>"
    assert substitute_variables(("run", "<ENV:X>/<ENV:X>", "<ENV:Z>"), {"X": "1"}) == ("run", "1/1", "")


def test_files_are_named_by_their_paths() -> None:
    paths = {"in": "/data/my in", "out": "some/out"}
    words = substitute_files(("run", "<FILE:in>", "-o<FILE:out>", "<FILE:other>"), paths)
    assert words == ("run", "/data/my in", "-o<ENV:LONGSHORE_JOB_RUN_DIR>/some/out", "<FILE:other>")
    line = substitute_files("run <FILE:in> > <FILE:out>", paths)
    assert line == "run '/data/my in' > \"${LONGSHORE_JOB_RUN_DIR-}\"/some/out"
    assert substitute_files("run x", paths) == "run x"


@pytest.mark.parametrize(
    ("command", "program"),
    [("run a", "run"), ("run $A", None), (("run", "$A"), "run"), ("cd x", None), (("/bin/sh", "-c", "run"), "/bin/sh")],
)
def test_the_program_of_a_command(command: str | tuple[str, ...], program: str | None) -> None:
    assert command_program(command) == program


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("awkk '$3 > 50' in > out", "awkk"),
        ("python3 ${PWD}/x.py", "python3"),
        ("  tool|sort", "tool"),
        ("./x.sh 2>&1", "./x.sh"),
        ("tool", None),
        ("set -e; tool > out", None),
        ("if true; then tool; fi", None),
        ("shopt -s nullglob; ls *", None),
        ("module load tool && tool", None),
        ("A=1 tool > out", None),
        ("tool() { echo $1; }; tool x", None),
        ("tool () { echo $1; }; tool x", None),
        ("$TOOL x > out", None),
        ("'my tool' x", None),
        ("tool$X > out", None),
        ("<FILE:x> > out", None),
        ("(tool > out)", None),
        (("tool", ">"), None),
    ],
)
def test_the_first_program_of_a_line_for_the_shell(command: str | tuple[str, ...], program: str | None) -> None:
    assert shell_program(command) == program


def test_all_values_of_a_job_reach_it_as_variables() -> None:
    request = Request(
        cpus=3, memory_b=5 * MIB + 1, disk_b=7 * MIB, walltime_s=60.0, resources={"gpu": 2, "lic.ense-é": 0}
    )
    assert job_variables(name="a/b c", label="l", attempt=4, request=request, run_dir="/runs/x y") == {
        "LONGSHORE_JOB_NAME": "a/b c",
        "LONGSHORE_JOB_LABEL": "l",
        "LONGSHORE_JOB_ATTEMPT": "4",
        "LONGSHORE_JOB_RUN_DIR": "/runs/x y",
        "LONGSHORE_JOB_CPUS": "3",
        "LONGSHORE_JOB_MEMORY_MB": "5",
        "LONGSHORE_JOB_DISK_MB": "7",
        "LONGSHORE_JOB_RESOURCE_GPU": "2",
        "LONGSHORE_JOB_RESOURCE_LIC_ENSE__": "0",
    }


def test_absent_request_has_no_variable() -> None:
    variables = job_variables(name="a", label="l", attempt=1, request=Request(), run_dir="/")
    assert not [name for name in variables if name.endswith("_MB")]


@pytest.mark.parametrize("command", ["exit 3", ("sh", "-c", "exit 3")])
def test_user_lines_share_a_shell_and_the_last_always_runs(command: Command) -> None:
    script = add_user_lines(command, "MINE=set", 'echo "after $MINE"')
    done = subprocess.run([SHELL, "-c", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "after set\n")


@pytest.mark.parametrize(
    ("command", "before", "after", "status", "said"),
    [
        (("echo", "it's"), "", "", 0, "it's\n"),
        (("echo", "it's"), "true", "", 0, "it's\n"),
        ("echo $MINE", "MINE=1", "true", 0, "1\n"),
        ("echo one", "false", "echo after", 1, ""),
        ("echo one", "", "sh -c 'exit 4'", 4, "one\n"),
        ("sh -c 'exit 5'", "true", "sh -c 'exit 4'", 5, ""),
        ("echo one # a remark", "true # another", "echo two # a third", 0, "one\ntwo\n"),
    ],
)
def test_exit_status_of_user_lines(command: Command, before: str, after: str, status: int, said: str) -> None:
    line = shell_line(add_user_lines(command, before, after))
    done = subprocess.run([SHELL, "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, said)


def test_a_command_in_full_is_set_up_first_and_started_by_its_launcher() -> None:
    settings = JobSettings(
        label="a", setup=("module load x",), launcher="srun", attributes={"preCmdline": "a", "postCmdline": "b"}
    )
    assert str(full_command(("work", "1"), settings)).splitlines() == [
        "module load x",
        "a",
        '_status=$?; [ "$_status" -eq 0 ] || exit "$_status"',
        "(",
        "srun work 1",
        ")",
        "_status=$?",
        "b",
        '_after=$?; [ "$_status" -eq 0 ] || exit "$_status"; exit "$_after"',
    ]
    assert full_command(("work", "1"), JobSettings(label="a")) == ("work", "1")


@given(st.text(alphabet="/binshc -\t;ex it$true=%", max_size=20) | st.just("/bin/sh -c x"))
def test_the_program_of_a_line_is_its_first_word_unless_a_shell_runs_it(line: str) -> None:
    words = command_argv(line)
    assert command_program(line) == (None if words[:2] == ("/bin/sh", "-c") else words[0])


RUN_FOLDER_PLACES = [
    'printf "%s\\n" ${LONGSHORE_JOB_RUN_DIR}/x',
    'printf "%s\\n" "${LONGSHORE_JOB_RUN_DIR}"/x',
    'printf "%s\\n" "${LONGSHORE_JOB_RUN_DIR-}/x"',
    'printf "%s\\n" <ENV:LONGSHORE_JOB_RUN_DIR>/x',
    'printf "%s\\n" \\"\'"\'${LONGSHORE_JOB_RUN_DIR}/x',
]


@pytest.mark.parametrize("line", RUN_FOLDER_PLACES)
@pytest.mark.parametrize("root", ["/runs/plain", "/runs/two words", '/runs/it\'s $HOME `x` "y" (1)'])
def test_the_run_directory_is_one_word_wherever_it_stands(line: str, root: str) -> None:
    printed = subprocess.run(
        ["/bin/sh", "-c", insert_run_folder(line, Path(root))], capture_output=True, text=True, check=True
    ).stdout
    assert printed.endswith(f"{root}/x\n")
    assert printed.count("\n") == 1


def test_the_run_directory_in_the_line_of_another_shell_is_one_word() -> None:
    line = shell_line(("sh", "-c", 'printf "%s." "${LONGSHORE_JOB_RUN_DIR}/x"'))
    words = ["/bin/sh", "-c", insert_run_folder(line, Path("/two words"))]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "/two words/x."
