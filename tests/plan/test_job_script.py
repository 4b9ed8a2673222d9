"""The script that runs a job by hand starts the same words as the engine, for any words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.jobs.scripts import JobScript, StageStep, render_job_script

TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), sys.stdin.read()]))"
signs = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
text = st.text(signs, max_size=20)
names = st.text(signs.filter(lambda sign: sign != "="), min_size=1, max_size=10)

GOLDEN = """\
#!/bin/sh
# Attempt 2 of job 'a b' of run 'k7f3a'.
# Run by hand: the record of the run does not learn of it. Its other variables are those of your shell.
: "${DB_TOKEN:?its value is a secret: set it first}"
umask 0027
CDPATH= cd -- '/data/my run' || exit 126
_tmp=$(mktemp -d) || exit 126
trap 'rm -rf "$_tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
env -- \\
    DB_TOKEN="${DB_TOKEN}" \\
    'WHO=it'"'"'s me' \\
    TMPDIR="$_tmp" \\
    measure 'a $b' </dev/null
exit $?
"""


def by_hand(**more: object) -> JobScript:
    plain: dict[str, object] = {
        "title": "Attempt 2 of job 'a\nb' of run 'k7f3a'.",
        "command": ("measure", "a $b"),
        "environment": {"DB_TOKEN": "s3cret", "WHO": "it's me"},
        "working_directory": "/data/my run",
    }
    return JobScript(**{**plain, **more})  # type: ignore[arg-type]


def test_script_matches_its_golden_file() -> None:
    assert render_job_script(by_hand(hidden=frozenset({"DB_TOKEN"}), umask=0o027)) == GOLDEN


def run_by_hand(job: JobScript, **environment: str) -> subprocess.CompletedProcess[str]:
    """Pipe the script into a shell, as a user would."""
    return subprocess.run(
        ["/bin/sh"],
        input=render_job_script(job),
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@settings(max_examples=examples(40))
@given(st.lists(text, max_size=4), st.dictionaries(names, text, max_size=3))
@example(["-n", "$(x)", "`y`", "'", '"', "\\", "*", "~", "a\nb", "\t", "漢", "<x>", "#"], {"A": "x=y\n$HOME"})
def test_words_and_variables_arrive_as_they_are(tmp_path: Path, words: list[str], variables: dict[str, str]) -> None:
    given_ = {name: value for name, value in variables.items() if name not in {"PATH", "PWD", "TMPDIR", "PYTHONHOME"}}
    job = by_hand(
        command=(sys.executable, "-X", "utf8", "-I", "-c", TELL, *words),
        environment=given_,
        working_directory=str(tmp_path),
    )
    done = run_by_hand(job)
    assert done.returncode == 0, done.stderr
    arguments, environment, folder, stdin = json.loads(done.stdout)
    assert arguments == words
    assert environment.items() >= given_.items()
    assert folder == str(tmp_path)
    assert stdin == "", "the rest of the script is not for the command"
    assert not Path(environment["TMPDIR"]).exists(), "its temporary directory goes with it"


def test_lines_for_a_shell_and_variables_of_the_job(tmp_path: Path) -> None:
    folder = str(tmp_path)
    line = by_hand(command="echo $WHO | tr a-z A-Z; exit 3", working_directory=folder)
    assert (run_by_hand(line).stdout, run_by_hand(line).returncode) == ("IT'S ME\n", 3)
    late = by_hand(command=("printf", "%s\n", "<ENV:WHO>/<ENV:OUTER>", "<ENV:NOBODY>|"), working_directory=folder)
    assert run_by_hand(late, OUTER="o$o").stdout == "it's me/o$o\n|\n"
    odd = tmp_path / "a=b"
    odd.write_text("#!/bin/sh\necho odd $1\n", "utf-8")
    odd.chmod(0o755)
    assert run_by_hand(by_hand(command=("./a=b", "x"), working_directory=folder)).stdout == "odd x\n"
    built_in = by_hand(command=("echo", "-n", "x"), working_directory=folder)
    assert run_by_hand(built_in).stdout == "x", "the program, as the kernel would start it"


def test_variables_of_variables_have_values(tmp_path: Path) -> None:
    environment = {"A": "<ENV:WHO>/x", "B": "<ENV:LONGSHORE_JOB_NAME>", "LONGSHORE_JOB_NAME": "j 1"}
    job = by_hand(command="echo $A $B", environment=environment, working_directory=str(tmp_path))
    assert run_by_hand(job, WHO="me").stdout == "me/x j 1\n"


def test_a_secret_is_asked_for_and_passed_on(tmp_path: Path) -> None:
    job = by_hand(command=("printenv", "DB_TOKEN"), working_directory=str(tmp_path), hidden=frozenset({"DB_TOKEN"}))
    assert "s3cret" not in render_job_script(job)
    without = run_by_hand(job)
    assert without.returncode != 0
    assert "DB_TOKEN: its value is a secret: set it first" in without.stderr
    assert run_by_hand(job, DB_TOKEN=str(tmp_path)).stdout == f"{tmp_path}\n"
    odd = by_hand(environment={"A-TOKEN": "s3cret"}, hidden=frozenset({"A-TOKEN"}), working_directory=str(tmp_path))
    assert "s3cret" not in render_job_script(odd)


def test_secrets_of_a_command_are_asked_for(tmp_path: Path) -> None:
    more = {
        "working_directory": str(tmp_path),
        "secrets": ("hunter2 & co", "tok12345"),
        "environment": {"A_TOKEN": "tok12345"},
        "hidden": frozenset({"A_TOKEN"}),
    }
    for command, says in (
        (("printf", "%s.", "x=hunter2 & co", "tok12345"), "x=hunter2 & co.tok12345."),
        ("printf '%s.' 'hunter2 & co' --token abc; echo tok12345", "hunter2 & co.--token.abc.tok12345\n"),
        (("echo", "<ENV:A_TOKEN>", "hunter2 & co"), "tok12345 hunter2 & co\n"),
    ):
        job = by_hand(command=command, **more)
        script = render_job_script(job)
        assert not any(secret in script for secret in ("hunter2", "tok12345", "abc"))
        without = run_by_hand(job, A_TOKEN="tok12345")
        assert without.returncode != 0
        assert "SECRET_1: it stands for a secret of the command: set it first" in without.stderr
        given = {"A_TOKEN": "tok12345", "SECRET_1": "hunter2 & co", "SECRET_2": "abc"}
        assert run_by_hand(job, **given).stdout == says


def test_missing_directory_ends_the_script(tmp_path: Path) -> None:
    done = run_by_hand(by_hand(working_directory=str(tmp_path / "gone")))
    assert (done.returncode, done.stdout) == (126, "")


@pytest.mark.parametrize("table", ["", "i\t/a b/$HOME\tx\\ty\no\tFILES\t/z\n"])
def test_the_program_that_stages_gets_its_table_and_the_command(tmp_path: Path, table: str) -> None:
    program = tmp_path / "stage it"
    program.write_text('cat -- "$2"; shift 2; exec "$@"', "utf-8")
    step = StageStep(words=("/bin/sh", str(program), "-g 0"), table=table)
    plain = by_hand(command=("printf", "%s\n", "a b"), working_directory=str(tmp_path), stage=step)
    assert run_by_hand(plain).stdout == f"{table}a b\n"
    line = by_hand(command="echo $WHO", working_directory=str(tmp_path), stage=step)
    assert run_by_hand(line).stdout == f"{table}it's me\n"
    late = by_hand(command=("echo", "<ENV:WHO>"), working_directory=str(tmp_path), stage=step)
    assert run_by_hand(late).stdout == f"{table}it's me\n"
