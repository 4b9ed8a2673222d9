"""Errors of YAML name what the text has there: indentation, open brackets and quotation marks, placeholders."""

from __future__ import annotations

import pytest

from longshore.config.schema import Finding, Severity
from longshore.config.yaml_text import parse_yaml, read_document
from longshore.errors import ConfigError

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
    (
        "p:\n\u00a0\u00a0t: 1\n",
        "f.yaml:2:1: the line begins with a no-break space (U+00A0), which YAML takes for a letter",
    ),
    (
        "p:\n  a: 1\n \u2003b: 2\nc: 3\n",
        "f.yaml:3:2: this is not YAML: the line begins with a special blank (U+2003), which YAML takes for a letter",
    ),
    (
        "memory:\u00a05\np:\n  a: 1\n",
        "f.yaml:1:8: this is not YAML: the line has a no-break space (U+00A0), which YAML takes for a letter",
    ),
    ("a: 1\n\u200bb: 2\n", "f.yaml:2:1: the key 'b' has an invisible character (U+200B)"),
    ("a: 1\nb\ufeff: 2\n", "f.yaml:2:1: the key 'b' has an invisible character (U+FEFF)"),
    ("a: 1\nb\u00a0: 2\n", "f.yaml:2:1: the key 'b\u00a0' ends with a no-break space (U+00A0)"),
    ("\u201ca\u201d: 1\n", "f.yaml:1:1: the key '\u201ca\u201d' has typographic quotation marks"),
    ('a: "x\0y"\n', "f.yaml:1:6: this is not text: it has the character NUL"),
    ("a: ]\n", "f.yaml:1:4: this is not YAML: did not find expected node content (while parsing a block node)"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=range(len(ERRORS)))
def test_an_error_names_its_cause(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "f.yaml")
    assert f"{refused.value.origin}: {refused.value.message}" == message


def notes_of(text: str) -> list[Finding]:
    notes: list[Finding] = []
    read_document(text, "f.yaml", notes=notes)
    return notes


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("command: echo job #1 > o.txt\n", 1),
        ("command: echo\n  job #1 > o.txt\n", 1),
        ("command:\n- echo\n- a #1\n", 3),
        ("pipetask: {x: {runQuantumCommand: echo a # b\n  }}\n", 1),
        ("finalJob:\n  command1: echo a\t# b\n", 2),
        ("preCmdline: echo a # b\n", 1),
        ("setup:\n  - module load x # y\n", 2),
    ],
)
def test_a_comment_behind_an_unquoted_command_is_noted(text: str, line: int) -> None:
    (note,) = notes_of(text)
    assert "' #' begins a comment" in note.message
    assert note.severity is Severity.NOTE
    assert note.origin.line == line


@pytest.mark.parametrize(
    "text",
    [
        "command: 'echo job' # one\n",
        "command: |\n  echo a # b\n",
        "command: echo a#b\n# c\n",
        "requestMemory: 5 # MB\n",
        "description: |\n  \u00a0text\n",
        "note: \u201ca\u201d and b\n",
        "caf\u00e9: b\u00e9b\u00e9\n",
    ],
)
def test_other_comments_and_signs_are_not_noted(text: str) -> None:
    assert notes_of(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("command: 'echo\u00a0hi'\n", "has a no-break space (U+00A0)"),
        ("requestMemory: \u00a05\n", "begins or ends with a no-break space (U+00A0)"),
        ("site: a\u200b\n", "has an invisible character (U+200B)"),
        ("a: 'x\ufeffy'\n", "has an invisible character (U+FEFF)"),
        ("command: 'echo \u201ca b\u201d'\n", "has typographic quotation marks (\u201c\u201d)"),
        ("site: \u2018a\u2019\n", "has typographic quotation marks (\u2018\u2019)"),
    ],
)
def test_signs_that_look_like_others_are_told(text: str, says: str) -> None:
    (note,) = notes_of(text)
    assert says in note.message
    assert note.severity is Severity.WARNING


def test_a_comment_that_hides_what_closes_a_bracket_is_named() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_yaml("a: {command: echo #1}\nb: 1\n", "f.yaml")
    assert refused.value.hint.endswith("What follows ' #' is a comment: quote the text if it belongs to it.")
