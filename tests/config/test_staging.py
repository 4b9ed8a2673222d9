"""The site's keys for staging are read to shell lines in which paths are exact, and mistakes in them are told."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.merge import to_node
from longshore.config.staging import read_staging
from longshore.errors import ConfigError, Origin
from longshore.model.workflow import StagingRules

HERE = Origin("site.yaml")


def read(command: object, file_system: str | None = "scratch") -> StagingRules | None:
    return read_staging(to_node(file_system, HERE), None if command is None else to_node(command, HERE))


def test_files_are_staged_only_with_scratch() -> None:
    assert read_staging(None, None) is None
    assert read(None, "shared") is None
    assert read(None, "transfer") is None
    assert read(None) == StagingRules()


def test_one_command_is_for_both_directions() -> None:
    line = 'rsync -a "${1}" "${2}"'
    assert read("rsync -a {source} {target}") == StagingRules(fetch=line, send=line)


def test_a_map_has_commands_per_direction_and_scheme() -> None:
    rules = read(
        {"in": "scp -q 'login:{source}' {target}", "out": None, "urls": {"s3": 'aws s3 cp "{source}" {target}'}}
    )
    assert rules == StagingRules(fetch="""scp -q 'login:'"${1}"'' "${2}\"""", urls={"s3": 'aws s3 cp "${1}" "${2}"'})
    assert read({"urls": None}) == StagingRules()


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        ("cp {src} {target}", "has the unknown placeholder '{src}'", ""),
        ("cp {sources} {target}", "has the unknown placeholder '{sources}'", "source"),
        ("cp {source} /x", "'transferCommand' lacks '{target}'", "rsync -a {source} {target}"),
        ({"in": "cat {target}"}, "'transferCommand.in' lacks '{source}'", "rsync"),
        (["cp"], "must be a command", "rsync"),
        ("  ", "must be a command", "rsync"),
        ("cp {source} {target}\0", "null character", ""),
        ({"inn": "x"}, "'transferCommand' has no 'inn'", "in"),
        ({"urls": "x"}, "'transferCommand.urls' must be a map", "s3"),
        ({"urls": {"S3:": "x"}}, "'S3:', which is no scheme", "s3"),
        ({"urls": {"s3": "cp {source}"}}, "'transferCommand.urls.s3' lacks '{target}'", "rsync"),
        ("sh -c 'cp {source} {target}'", "stands in a script in single quotation marks", "outside"),
        ("cp \\{source} {target}", "where its value would not be exact", "outside"),
    ],
)
def test_a_command_that_cannot_be_used_is_refused(command: object, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(command)
    assert message in error.value.message
    assert hint in error.value.hint
    assert error.value.origin == HERE


def test_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of shared, scratch, transfer, not 'scrach'") as error:
        read(None, "scrach")
    assert "scratch" in error.value.hint


@pytest.mark.parametrize("file_system", [None, "shared", "transfer"])
def test_a_command_without_scratch_is_refused(file_system: str | None) -> None:
    with pytest.raises(ConfigError, match="no effect without 'fileSystem: scratch'"):
        read("cp {source} {target}", file_system)


@pytest.mark.parametrize("line", ["printf %s/%s {source} {target}", "printf %s/%s \"{source}\" '{target}'"])
@given(paths=st.tuples(*[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))] * 2))
def test_paths_are_exact(line: str, paths: tuple[str, str]) -> None:
    rules = read(line)
    assert rules is not None
    ran = subprocess.run(["/bin/sh", "-c", rules.fetch, "sh", *paths], check=True, capture_output=True, timeout=30)
    assert ran.stdout.decode() == "/".join(paths)
