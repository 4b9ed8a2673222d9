"""Text with variables: what is a field and what is only a brace, and that rendering puts in exactly the values."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshore.config.templates import (
    Data,
    Field,
    Part,
    Template,
    expand_env,
    format_value,
    is_wms_name,
    join_parts,
    parts_text,
    protect_data,
    protect_text,
    split_fields,
    undelay_env,
    unparse_fields,
)
from longshore.errors import ConfigError, LongshoreError, Origin, UndefinedVariableError
from longshore.jobs.commands import substitute_inherited
from longshore.model.wording import quote_value

PARSED: list[tuple[str, list[Part]]] = [
    ("", []),
    ("plain", ["plain"]),
    ("{a}", [Field("a")]),
    ("x{a}y{b_2}", ["x", Field("a"), "y", Field("b_2")]),
    ("{n:03}", [Field("n", "03")]),
    ("{a:}", [Field("a")]),
    ("{.payload.a}/{.site.s-1.x:>5}", [Field(".payload.a"), "/", Field(".site.s-1.x", ">5")]),
    ("{{x}}", ["{x}"]),
    ("{{{x}}}", ["{", Field("x"), "}"]),
    ("{}", ["{}"]),
    ("{ a }", ["{ a }"]),
    ("{0} {1,3} {a,b} {a.b} {a!r}", ["{0} {1,3} {a,b} {a.b} {a!r}"]),
    ("awk '{print $1}'", ["awk '{print $1}'"]),
    ("awk '{{print $1}}'", ["awk '{print $1}'"]),
    ("awk '{for (k in a) {print k}}' {f}", ["awk '{for (k in a) {print k}}' ", Field("f")]),
    ("${HOME}/{a}", ["${HOME}/", Field("a")]),
    ("${a:-{b}}", ["${a:-", Field("b"), "}"]),
    ("${{a}}", ["${a}"]),
    ("a { b", ["a { b"]),
    ("a } b", ["a } b"]),
    ("{a", ["{a"]),
    ("a}", ["a}"]),
    ("{n:{w}}", ["{n:", Field("w"), "}"]),
    ('{{"a": {b}}}', ['{"a": ', Field("b"), "}"]),
    ("s3://u@h/x.yaml", ["s3://u@h/x.yaml"]),
    ("{été}", [Field("été")]),
]


@pytest.mark.parametrize(("text", "parts"), PARSED)
def test_parse(text: str, parts: list[Part]) -> None:
    assert list(split_fields(text)) == parts


@given(st.text("{}a.:$ b0", max_size=20))
@example("{a}}}")
@example("{{{{")
def test_what_is_parsed_can_be_written_and_parsed_again(text: str) -> None:
    parts = split_fields(text)
    assert split_fields(unparse_fields(parts)) == parts
    assert all(part for part in parts)


NAMES = st.from_regex(r"\A[a-z_][a-z0-9_]{0,5}\Z")
LITERALS = st.text(min_size=1, max_size=8).filter(lambda text: not text.endswith("$"))


@given(st.lists(LITERALS | st.builds(Field, NAMES, st.sampled_from(["", "03", ">5", "d"])), max_size=8))
def test_any_parts_can_be_written_and_parsed(parts: list[Part]) -> None:
    whole = join_parts(parts)
    assert split_fields(unparse_fields(whole)) == whole


@given(st.text(st.characters(exclude_characters="{}"), max_size=30))
def test_text_without_braces_is_itself(text: str) -> None:
    assert parts_text(split_fields(text)) == text


ENV = {"FOO": "fooval", "EMPTY": "", "A": "$FOO"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${FOO}/$FOO", "fooval/fooval"),
        ("$FOObar ${FOO}bar", "$FOObar foovalbar"),
        ("${NOPE}/$NOPE", "${NOPE}/$NOPE"),
        ("[$EMPTY]", "[]"),
        ("$A", "$FOO"),
        ("$$ $$FOO $(X) $1 $", "$$ $$FOO $(X) $1 $"),
        ("${FOO:-x} ${#FOO}", "${FOO:-x} ${#FOO}"),
        ("<ENV:FOO>bar <ENV:NOPE>", "foovalbar ${NOPE}"),
        ("plain", "plain"),
    ],
)
def test_expand_env(text: str, expected: str) -> None:
    assert expand_env(text, ENV) == expected


PIECES = st.sampled_from(["<", "E", "ENV:", "HOME", ">", "FILE:", "x", "{f}"])


@given(st.lists(PIECES), st.text("<EN:V>", max_size=8))
def test_data_begins_no_placeholder(pieces: list[str], value: str) -> None:
    # Every second piece is data, and the field's value is data too.
    parts = join_parts(Data(piece) if number % 2 else "x<ENV:HOME>" for number, piece in enumerate(pieces))
    shown = "".join(str(part) if isinstance(part, Data) else str(part).replace("<ENV:HOME>", "/home") for part in parts)
    text = Template(protect_data((*parts, Field("f")))).render({"f": value}, quote=protect_text)
    assert substitute_inherited({"V": text}, {"HOME": "/home"}) == {"V": shown + value}


def test_delayed_env_for_the_shell() -> None:
    assert undelay_env("<ENV:A>/b<ENV:1>") == "${A}/b<ENV:1>"


@pytest.mark.parametrize(
    ("name", "expected"), [("wmsAttemptNum", True), ("wmsX", True), ("wms", False), ("wmsx", False), ("awmsX", False)]
)
def test_names_of_the_workload_manager(name: str, *, expected: bool) -> None:
    assert is_wms_name(name) == expected


@pytest.mark.parametrize(
    ("value", "spec", "text"), [(7, "03", "007"), ("x", ">3", "  x"), (1.5, "", "1.5"), (True, "", "True")]
)
def test_format_value(value: object, spec: str, text: str) -> None:
    assert format_value(value, Field("n", spec)) == text


@pytest.mark.parametrize(("value", "spec"), [("x", "03d"), (7, "s"), (7, "0999999999"), (7, " y"), ([1], "3")])
def test_a_format_that_does_not_suit(value: object, spec: str) -> None:
    with pytest.raises(ConfigError, match="is not a format for it") as caught:
        format_value(value, Field("n", spec), Origin("f", 1, 2))
    assert str(caught.value).startswith("f:1:2: ")
    assert f"{{{{n:{spec}}}}}" in caught.value.hint


def test_long_values_are_cut_in_messages() -> None:
    assert quote_value("x" * 100) == "'" + "x" * 57 + "...'"
    assert quote_value(3) == "'3'"


class TestTemplate:
    def test_render(self) -> None:
        template = Template(split_fields("run {a} --n={n:03} 100% {{a}} {a}"))
        assert template.names == {"a", "n"}
        assert template.render({"a": "x y", "n": 7, "other": 1}) == "run x y --n=007 100% {a} x y"
        assert template.render({"a": "x y", "n": 7}, shlex.quote) == "run 'x y' --n=007 100% {a} 'x y'"
        assert str(template) == "run {a} --n={n:03} 100% {{a}} {a}"

    def test_plain_fields(self) -> None:
        assert Template(split_fields("{a}%s{b}")).render({"a": 1, "b": None}) == "1%sNone"
        assert Template(split_fields("{a}")).render({"a": "$(rm -r /)"}, shlex.quote) == "'$(rm -r /)'"
        assert Template(()).render({}) == ""

    def test_a_missing_value(self) -> None:
        template = Template(split_fields("{a}/{b:03}"), Origin("f", 3, 4))
        with pytest.raises(UndefinedVariableError, match=r"'{b}' has no value here") as caught:
            template.render({"a": 1})
        assert caught.value.origin == Origin("f", 3, 4)
        assert template.render({"a": 1}, missing="") == "1/"
        assert template.render({"b": 1}, missing="-") == "-/001"
        assert template.render({"a": 2, "b": 1}, missing="-") == "2/001"

    def test_a_value_that_cannot_be_formatted(self) -> None:
        with pytest.raises(ConfigError, match="f:3:4"):
            Template(split_fields("{b:03d}"), Origin("f", 3, 4)).render({"b": "x"})

    def test_origins_do_not_tell_templates_apart(self) -> None:
        assert Template(split_fields("{a}"), Origin("x")) == Template(split_fields("{a}"), Origin("y"))

    @given(
        st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), min_size=1, max_size=4)
    )
    @example(["'", '"; rm -rf /; "', "$(id)\n`id`", "-n"])
    def test_quoted_values_reach_a_program_as_they_are(self, values: list[str]) -> None:
        names = [f"v{i}" for i in range(len(values))]
        template = Template(split_fields("printf '%s\\0' " + " ".join(f"{{{name}}}" for name in names)))
        line = template.render(dict(zip(names, values, strict=True)), shlex.quote)
        assert shlex.split(line)[2:] == values

    def test_a_shell_agrees(self) -> None:
        values = {"a": "x y'z\n$HOME `id`", "b": ""}
        line = Template(split_fields("printf '%s|' {a} {b}")).render(values, shlex.quote)
        assert (
            subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout
            == "x y'z\n$HOME `id`||"
        )

    @given(st.text("{}a%$ ", max_size=20), st.text(max_size=5))
    def test_rendering_is_putting_values_between_literals(self, text: str, value: str) -> None:
        parts = split_fields(text)
        values: dict[str, Any] = dict.fromkeys((part.name for part in parts if isinstance(part, Field)), value)
        try:
            rendered = Template(parts).render(values)
        except LongshoreError:
            assert any(isinstance(part, Field) and part.spec for part in parts)
        else:
            assert rendered == "".join(part if isinstance(part, str) else format(value, part.spec) for part in parts)
