"""Commands of LSST's: words without a shell, programs from PATH, and variables filled in here or where the job runs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.command_lines import read_command_template, read_command_words, replace_program_paths
from longshore.config.interpolate import Scope
from longshore.config.merge import to_node
from longshore.config.search import Config
from longshore.config.templates import Template
from longshore.errors import ConfigError, Origin, UndefinedVariableError
from longshore.jobs.commands import substitute_files, substitute_variables

HERE = Origin("here.yaml", 1, 1, "file")
PIPETASK = "${CTRL_MPEXEC_DIR}/bin/pipetask"


def words(command: Any, env: Mapping[str, str] | None = None, **settings: Any) -> tuple[str, ...]:
    return read_command_words(Config(to_node({"do": command, **settings}, HERE)), "do", Scope(env=env or {}))


def test_a_command_is_divided_as_a_shell_would() -> None:
    assert words("a 'b c' \"$X {name}\" *.x | d", {"X": "e f"}, name="g") == ("a", "b c", "e f g", "*.x", "|", "d")


def test_data_divides_nothing() -> None:
    env = {"X": "e 'f' {name} $X", "CTRL_MPEXEC_DIR": "/a b"}
    assert words(f"{PIPETASK} $X '$X' {{more}}", env, name="g", more="-n '$X' 3") == (
        "/a b/bin/pipetask",
        *(["e 'f' {name} $X"] * 2),
        *("-n", "e 'f' {name} $X", "3"),
    )


@pytest.mark.parametrize("command", [None, ""])
def test_no_command_has_no_words(command: str | None) -> None:
    assert words(command) == ()
    assert read_command_words(Config(to_node({}, HERE)), "do", Scope()) == ()


def test_what_cannot_be_divided() -> None:
    with pytest.raises(ConfigError, match=r"here\.yaml:1:1: 'do' cannot be divided into words: no closing quotation"):
        words("a 'b")
    with pytest.raises(ConfigError, match="'do' must be text, not "):
        words(["a"])
    with pytest.raises(UndefinedVariableError, match=r"the command uses '\{nope\}'"):
        words("a {nope}")


PLAIN = st.text(st.characters(exclude_characters="'{}$<>\0", exclude_categories=["Cs"]))


@given(st.lists(PLAIN.filter(lambda word: "bpsEval" not in word)))
def test_quoted_words_are_what_they_are(given_words: list[str]) -> None:
    assert words(" ".join(f"'{word}'" for word in given_words)) == tuple(given_words)


@pytest.mark.parametrize(
    ("text", "env", "found"),
    [
        (f"{PIPETASK} x", {}, "pipetask x"),
        (f"{PIPETASK} x", {"CTRL_MPEXEC_DIR": ""}, "pipetask x"),
        (f"{PIPETASK} x", {"CTRL_MPEXEC_DIR": "/m"}, f"{PIPETASK} x"),
        ("$DAF_BUTLER_DIR/bin/butler", {}, "butler"),
        ("${DAF_BUTLER_DIR}/bin/butler.sh", {}, "${DAF_BUTLER_DIR}/bin/butler.sh"),
        ("${DAF_BUTLER_DIR}/bin/butler-x", {}, "${DAF_BUTLER_DIR}/bin/butler-x"),
        ("${OTHER_DIR}/bin/butler", {}, "${OTHER_DIR}/bin/butler"),
        ("${CTRL_MPEXEC_DIR}/python", {}, "${CTRL_MPEXEC_DIR}/python"),
    ],
)
def test_programs_go_by_their_names_where_nothing_says_where_they_are(
    text: str, env: Mapping[str, str], found: str
) -> None:
    assert replace_program_paths(text, env) == found


@pytest.mark.parametrize(("spelling", "env"), [(PIPETASK, {}), ("<ENV:CTRL_MPEXEC_DIR>/bin/pipetask", {})])
def test_so_do_those_that_are_run_at_once(spelling: str, env: Mapping[str, str]) -> None:
    assert words(f"{spelling} qgraph", env) == ("pipetask", "qgraph")
    assert words(f"{spelling} qgraph", {"CTRL_MPEXEC_DIR": "/m"}) == ("/m/bin/pipetask", "qgraph")
    assert words("{it} qgraph", env, it=spelling) == ("pipetask", "qgraph")


def line(command: Any, env: Mapping[str, str] | None = None, **settings: Any) -> Any:
    config = Config(to_node({"runQuantumCommand": command, **settings}, HERE))
    found = read_command_template(config, Scope(env=env or {}), None)
    return found.render({}) if isinstance(found, Template) else tuple(word.render({}) for word in found or ())


@pytest.mark.parametrize(
    ("env", "found"),
    [({}, "pipetask a"), ({"CTRL_MPEXEC_DIR": ""}, "pipetask a"), ({"CTRL_MPEXEC_DIR": "/m"}, "/m/bin/pipetask a")],
)
def test_a_job_looks_for_them_where_it_runs(env: Mapping[str, str], found: str) -> None:
    text = line(f"{PIPETASK} a")
    said = subprocess.run(["/bin/sh", "-uc", f"echo {text}"], env=dict(env), capture_output=True, text=True, check=True)
    assert said.stdout.strip() == found


def test_commands_that_are_not_lazy_fill_in_what_is_known_here() -> None:
    command = f"{PIPETASK} $HERE <ENV:HERE> $NOWHERE"
    env = {"HERE": "there", "CTRL_MPEXEC_DIR": "/m"}
    assert line(command, env, useLazyCommands=False) == "/m/bin/pipetask there there $NOWHERE"
    assert "$HERE ${HERE} $NOWHERE" in line(command, env)
    assert "$HERE ${HERE} $NOWHERE" in line(command, env, useLazyCommands="true")


def test_words_of_a_list_wait_or_not() -> None:
    command = [PIPETASK, "<ENV:HERE>"]
    env = {"HERE": "there"}
    assert line(command, env) == ("pipetask", "<ENV:HERE>")
    assert line(command, env, useLazyCommands=False) == ("pipetask", "there")


@pytest.mark.parametrize("lazy", [True, False])
def test_words_of_a_list_have_data_without_placeholders(lazy: bool) -> None:
    written = line(["run", "$X", "<$X<ENV:"], {"X": "<ENV:HOME> {a} <FILE:b>"}, useLazyCommands=lazy)
    arrived = substitute_variables(substitute_files(written, {"b": "/b"}), {"HOME": "/home"})
    assert arrived == ("run", "<ENV:HOME> {a} <FILE:b>", "<<ENV:HOME> {a} <FILE:b><ENV:")


def test_lazy_is_yes_or_no() -> None:
    with pytest.raises(ConfigError, match="'useLazyCommands' must be true or false"):
        line("a", useLazyCommands="perhaps")
