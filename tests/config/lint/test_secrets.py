"""Texts of a layer that count as secrets when files are written, and those that do not."""

from __future__ import annotations

import pytest

from longshore.config.lint.secrets import (
    hide_secrets,
    literal_secrets,
    may_have_secrets,
    recorded_secrets,
    secret_variables,
)
from longshore.config.values.merge import LayerRank, make_layer
from longshore.model.values import YamlValue


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


def test_recorded_values_have_the_secrets_of_keys_forms_and_variables() -> None:
    values: YamlValue = {
        "dbPassword": "hunter2",
        "x": {"token": [4711, "$<MINE>"]},
        "url": "s://a:b@h",
        "tokenFile": "f",
    }
    assert list(recorded_secrets(values, {"MINE": "m1"})) == ["hunter2", "4711", "m1"]
    assert may_have_secrets("dbPassword: x")
    assert not may_have_secrets("site: x")
