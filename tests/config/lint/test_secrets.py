"""Texts of a layer that count as secrets when files are written, and those that do not."""

from __future__ import annotations

import pytest

from longshore.config.lint.secrets import literal_secrets, secret_variables
from longshore.config.values.merge import LayerRank, make_layer


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
