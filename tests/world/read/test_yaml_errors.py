"""Errors of YAML name what the text has there: indentation, open brackets and quotation marks, placeholders."""

from __future__ import annotations

import pytest

from longshore.errors import ConfigError
from longshore.world.read.yaml_text import parse_yaml

ERRORS = [
    (
        "pipeline:\n  tasks:\n    one: {command: x}\n   two: {command: x}\n",
        "f.yaml:4:4: this is not YAML: 'two' has 3 spaces before it, and 'one' in line 3 has 4",
    ),
    ("a: 1\n  b: 2\n", "f.yaml:2:3: this is not YAML: 'b' has 2 spaces before it, and 'a' in line 1 has none"),
    ("  a: 1\nb: 2\n", "f.yaml:2:1: this is not YAML: 'b' has no space before it, and 'a' in line 1 has 2"),
    ("a:\n  - x\n - y\n", "f.yaml:3:2: this is not YAML: '- y' has 1 space before it, and '- x' in line 2 has 2"),
    ("a:\n- b: 1\n   c: 2\n", "f.yaml:3:4: this is not YAML: 'c' has 3 spaces before it, and 'b' in line 2 has 2"),
    (
        "a: |\n  for: x\n     do: y\nb: 1\n c: 2\n",
        "f.yaml:5:2: this is not YAML: 'c' has 1 space before it, and 'b' in line 4 has none",
    ),
    ("a: [1, 2\nb: 3\n", "f.yaml:1:4: this is not YAML: the bracket '[' that opens here is never closed"),
    ("a:\n  b: {c: 1\n  d: 2\n", "f.yaml:2:6: this is not YAML: the bracket '{' that opens here is never closed"),
    ('a: "text\nb: 1\n', "f.yaml:1:4: this is not YAML: the quotation mark '\"' that opens here is never closed"),
    ("out: {sample}.txt\n", "f.yaml:1:6: this is not YAML: a text that begins with '{sample}' is not quoted"),
    ("a: [cat, {in}.txt]\n", "f.yaml:1:10: this is not YAML: a text that begins with '{in}' is not quoted"),
    (
        "a: {kept: filtered/{sample}.fastq}\n",
        "f.yaml:1:11: this is not YAML: a text with the placeholder '{sample}' is not quoted",
    ),
    (
        'a: ["{x}", out/{sample:04}.{n}.txt]\n',
        "f.yaml:1:12: this is not YAML: a text with the placeholder '{sample:04}' is not quoted",
    ),
    ("a: {b: [1, {c: d}\n  e: 2\n", "f.yaml:1:8: this is not YAML: the bracket '[' that opens here is never closed"),
    ("a:\n  k: 1\n  command:cat x\nb: 1\n", "f.yaml:3:10: this is not YAML: there is no blank behind 'command:'"),
    ("a: b: c\n", "f.yaml:1:5: this is not YAML: mapping values are not allowed in this context"),
    (
        'a: {b: "x\\0y"}\n',
        "f.yaml:1:8: the text has the null character, which no path, command or variable can have",
    ),
    ("a: ]\n", "f.yaml:1:4: this is not YAML: did not find expected node content (while parsing a block node)"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=range(len(ERRORS)))
def test_an_error_names_its_cause(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "f.yaml")
    assert f"{refused.value.origin}: {refused.value.message}" == message
