"""Texts of a layer that count as secrets when files are written, and those that do not."""

from __future__ import annotations

import pytest

from longshore.config.merge import LayerRank, make_layer
from longshore.config.secrets import (
    HIDDEN,
    hide_secrets,
    hide_words,
    literal_secrets,
    may_have_secrets,
    secret_variables,
)
from longshore.config.yaml_text import parse_yaml


def found(name: str, value: object) -> list[str]:
    layer = make_layer({"environment": {name: value}}, "run.yaml", LayerRank.FILE)
    return list(literal_secrets(layer.root))


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("DB_PASSWORD", "hunter2", ["hunter2"]),
        ("PASSPHRASE", "correct horse battery", ["correct horse battery"]),
        ("DB_PASSWORD", "pre{label}", ["pre"]),
        ("tokens_token", ["one", "two"], ["one", "two"]),
        ("password", 4711, ["4711"]),
        ("URL", "see https://ada:pw@host/x", ["https://ada:pw@"]),
        ("DB_PASSWORD", "/+abc=", ["/+abc="]),
    ],
)
def test_literal_values_are_secrets(name: str, value: object, secrets: list[str]) -> None:
    assert found(name, value) == secrets


def test_a_number_is_a_secret_as_it_was_written_too() -> None:
    node = parse_yaml("environment: {DB_PASSWORD: 0471_1, PORT: 0471_1}", "run.yaml")
    assert list(literal_secrets(node)) == ["4711", "0471_1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKEN", "$<MINE>"),
        ("TOKEN", "${MINE}"),
        ("TOKEN", "$MINE"),
        ("TOKEN", "<ENV:MINE>"),
        ("PASSWORD", "{other}"),
        ("PASSWORD", "~/.pgpass"),
        ("PASSWORD", "/etc/pw.txt"),
        ("PASSWORD_FILE", "x"),
        ("PASSWORD", ""),
        ("password", 3),
        ("password", True),
        ("HOST", "hunter2"),
    ],
)
def test_references_paths_and_counts_are_none(name: str, value: object) -> None:
    assert found(name, value) == []


def test_variables_are_secret_by_their_name_or_by_the_key_that_uses_them() -> None:
    values = {"campaign": "$<MY_TOKEN> $<HOME>", "password": "${DBPW}", "list": ["$<A_SECRET>"]}
    assert list(secret_variables(make_layer(values, "run.yaml", LayerRank.FILE).root)) == [
        "MY_TOKEN",
        "DBPW",
        "A_SECRET",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("connect --pw hunter2-x", "connect --pw (hidden)"),
        ("connect 'hunter2-x'y", "connect '(hidden)'y"),
        ("echo it'\"'\"'s a s3cret; ls", "echo (hidden); ls"),
        ("a a1 xa1x", "a (hidden) xa1x"),
        ("x --token abc --token-file f --api-key=k1 -n 5", "x --token (hidden) --token-file f --api-key=(hidden) -n 5"),
        (
            "DB_PASSWORD=abc run TOKEN=$MINE PASSWORD='x y'",
            "DB_PASSWORD=(hidden) run TOKEN=$MINE PASSWORD='(hidden) y'",
        ),
        ("get https://ada:pw@host/x", "get (hidden)host/x"),
        ("make tokens; count-secrets all", "make tokens; count-secrets all"),
    ],
)
def test_secrets_in_a_command_are_masked(text: str, shown: str) -> None:
    assert hide_secrets(text, ["hunter2-x", "it's a s3cret", "a1", ""]) == shown


def test_words_after_an_option_that_names_a_secret_are_masked() -> None:
    words = ["sh", "-c", "x", "--password", "abc", "--token", "-v", "--api-key=q1", "MINE9"]
    masked = ("sh", "-c", "x", "--password", HIDDEN, "--token", "-v", f"--api-key={HIDDEN}", HIDDEN)
    assert hide_words(words, ["MINE9"]) == masked


def test_a_text_may_have_secrets_by_the_name_of_any_of_its_keys() -> None:
    assert may_have_secrets("dbPassword: x")
    assert may_have_secrets("myToken: x\nsite: y\n")
    assert not may_have_secrets("site: x\ntokenFile: x\n")
