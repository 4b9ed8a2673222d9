"""YAML files become layers: values with their places, includes in BPS's order, bad input a clear error in no time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.includes import LoadedLayers, load_layers, read_yaml
from longshore.config.layers import parse_set_options
from longshore.config.merge import (
    Layer,
    LayerRank,
    Marker,
    Node,
    map_items,
    merge_layers,
    plain_map,
    plain_value,
    to_node,
    written_value,
)
from longshore.config.yaml_text import dump_tree, parse_yaml, read_as_bps
from longshore.errors import ConfigError, LongshoreError, Origin, UsageError
from longshore.model.values import YamlValue


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**texts: str) -> None:
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text, "utf-8")


def load(path: str = "main.yaml", **env: str) -> LoadedLayers:
    return load_layers(Path(path), env=env)


def values(loaded: LoadedLayers) -> Any:
    return plain_value(merge_layers(loaded.layers))


def of(text: str) -> Any:
    return plain_value(parse_yaml(text, "f.yaml"))


def error_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml")
    return str(caught.value)


class TestScalars:
    @pytest.mark.parametrize(
        "text",
        [
            *[
                "1",
                "-7",
                "0x1F",
                "-0b101",
                "0",
                "1_000",
                "1.5",
                ".5",
                "-1.5e+3",
                "+.inf",
                "-.Inf",
                ".NaN",
            ],
            *[
                "yes",
                "No",
                "TRUE",
                "off",
                "~",
                "null",
                "",
                "x",
                "'1'",
                '"\\u00e9"',
                "!!str 1",
                "!!int '5'",
            ],
            *["[1, [a]]", "{a: {b: 1}}", "|\n  x\n  y", ">-\n  x\n  y", "!!float 3", "!!bool 'on'", "!!null ''"],
        ],
    )
    def test_as_bps_reads_them(self, text: str) -> None:
        mine, theirs = of(f"a: {text}"), yaml.safe_load(f"a: {text}")
        assert repr(mine) == repr(theirs)

    @pytest.mark.parametrize(
        "text", ["12:30:45", "1:30", "-1:30:00", "1:30.5", "2020-01-01", "2020-01-01T10:00:00Z", "="]
    )
    def test_kept_as_written(self, text: str) -> None:
        assert of(f"a: {text}") == {"a": text}

    def test_keys_are_the_text_written(self) -> None:
        assert of("{1: a, no: b, 010: c, ~: d, 1.50: e, ? f}") == {
            "1": "a",
            "no": "b",
            "010": "c",
            "~": "d",
            "1.50": "e",
            "f": None,
        }

    @pytest.mark.parametrize("text", ["!!int x", "!!float x", "!!bool x", "!!int 1x", "!!int ''"])
    def test_a_tag_that_the_text_does_not_fit(self, text: str) -> None:
        assert "f.yaml:1:4: " in error_of(f"a: {text}")
        assert "cannot be read as" in error_of(f"a: {text}")

    def test_a_number_of_thousands_of_digits_is_text(self) -> None:
        assert of("a: " + "9" * 5000) == {"a": "9" * 5000}

    @pytest.mark.parametrize(
        ("text", "value", "of_bps"),
        [
            ("010", 10, 8),
            ("08", 8, "08"),
            ("1e3", 1000.0, "1e3"),
            ("0o10", 8, "0o10"),
            ("1.10", 1.1, 1.1),
            ("123_456", 123456, 123456),
            ("0x1F", 31, 31),
            ("no", False, False),
            ("1:30", "1:30", 90),
            ("1:30:00", "1:30:00", 5400),
            ("2024-01-01", "2024-01-01", "2024-01-01"),
            ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00+00:00"),
        ],
    )
    def test_a_word_has_a_text_and_a_value_and_bps_another(
        self, text: str, value: YamlValue, of_bps: YamlValue
    ) -> None:
        node = map_items(parse_yaml(f"a: {text}", "f.yaml"))["a"]
        assert (node.value, type(node.value), node.text) == (value, type(value), text)
        bps = map_items(read_as_bps(parse_yaml(f"a: {text}", "f.yaml")))["a"]
        assert (bps.value, bps.text) == (of_bps, str(of_bps))

    @pytest.mark.parametrize("text", ["!!int 0x1F", "!!int '31'", "&a !!int 31"])
    def test_a_tag_asks_for_a_value(self, text: str) -> None:
        assert map_items(parse_yaml(f"a: {text}", "f.yaml"))["a"].text == "31"
        assert map_items(parse_yaml("a: &x 0x1F\nb: *x", "f.yaml"))["b"].text == "0x1F"

    def test_a_tree_is_written_as_it_was_read(self) -> None:
        text = "a: 1.10\nb: [007, no, 1e-3, 08, 1:30, '1.10', true, 5]\nc: {d: 0x1F}\n"
        node = parse_yaml(text, "f.yaml")
        again = parse_yaml(dump_tree(node), "f.yaml")
        assert written_value(again) == written_value(node)
        assert plain_value(again) == plain_value(node)

    def test_deletion(self) -> None:
        node = parse_yaml("a: !delete\nb: !delete x", "f.yaml")
        assert isinstance(node.value, dict)
        assert [item.value for item in node.value.values()] == [Marker.DELETE, Marker.DELETE]
        assert "'!delete' can only be the value of a key" in error_of("a: [!delete ]")


class TestOrigins:
    def test_every_value_knows_its_place(self) -> None:
        node = parse_yaml("a: 1\nb:\n  c: [x,\n    y]\n", "f.yaml", rank=LayerRank.SITE)
        assert isinstance(node.value, dict)
        a, b = node.value["a"], node.value["b"]
        assert isinstance(b.value, dict)
        c = b.value["c"]
        assert isinstance(c.value, list)
        assert a.origin == Origin("f.yaml", 1, 4, "site")
        assert b.origin == Origin("f.yaml", 3, 3, "site")
        assert [item.origin.line for item in c.value] == [3, 4]
        assert str(c.value[1].origin) == "f.yaml:4:5"


class TestAliases:
    def test_aliases_and_merges(self) -> None:
        text = "base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\na: *b\nc: {<<: [*b, *o], x: 9}\nd: {<<: *o}\n"
        assert of(text) == yaml.safe_load(text)

    def test_a_merge_of_no_map(self) -> None:
        assert "'<<' can only take in maps" in error_of("a: {<<: 1}")

    def test_exploding_aliases(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
        start = time.process_time()
        assert "more than 500,000 values" in error_of("\n".join(lines))
        assert time.process_time() - start < 30

    def test_exploding_merges(self) -> None:
        lines = ["a0: &a0 {x: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}"]
        lines += [f"a{i}: &a{i} {{<<: *a{i - 1}, y: *a{i - 1}, z: *a{i - 1}}}" for i in range(1, 60)]
        assert "more than 500,000 values" in error_of("\n".join(lines))

    @pytest.mark.parametrize("text", ["a: &a [*a]", "&a {b: *a}", "a: &a {<<: *a}", "a: &a {b: {c: [*a]}}"])
    def test_an_alias_in_itself(self, text: str) -> None:
        assert "an alias stands for something that it is a part of" in error_of(text)

    def test_deep_by_aliases(self) -> None:
        lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 200)]
        assert "nested more than 100 deep" in error_of("\n".join(lines))


class TestBadText:
    @pytest.mark.parametrize(
        ("text", "place", "message"),
        [
            ("a: 1\nb: 2\na: 3", "3:1", "the key 'a' is given twice\nIt was given first at f.yaml:1:1"),
            ("p: {1: x, '1': y}", "1:11", "the key '1' is given twice"),
            (
                "a: [1\nb: 2",
                "1:4",
                "this is not YAML: the bracket '[' that opens here is never closed\nClose it with ']'",
            ),
            ("a:\n\t- b", "2:1", "Indent with spaces"),
            ("a: b: c", "1:5", "must be quoted"),
            ("a: @x", "1:4", "must be quoted"),
            ("a: *x", "1:4", "undefined alias"),
            ("a: 'x", "1:4", "that opens here is never closed"),
            ("a: 1\n---\nb: 2", "2:1", "another document"),
            ("a: é\x01", "1:5", "this is not text: control characters are not allowed (character 0x1)"),
            ("a: \ud800", "1:1", "the text is not Unicode"),
            ("a: !!python/object/apply:os.system [x]", "1:4", "the tag '!!python/object/apply:os.system' is not known"),
            ("a: !!python/name:os.system", "1:4", "is not known here"),
            ("a: !mine x", "1:4", "the tag '!mine' is not known"),
            ("a: !mine {b: 1}", "1:4", "the tag '!mine' is not known"),
            ("a: !!binary aGk=", "1:4", "the tag '!!binary' is not known"),
            ("a: !!set {b, c}", "1:4", "the tag '!!set' is not known"),
            ("a: !!omap [b: 1]", "1:4", "the tag '!!omap' is not known"),
            ("a: !delete [1]", "1:4", "the tag '!delete' is not known"),
            ("? [a]\n: 1", "1:3", "a key must be text"),
            ("a: {b: !delete}", "1:15", "There must be a space behind a tag"),
            ("a: !include x.yaml", "1:4", "'!include' can only be used in a file"),
        ],
    )
    def test_said_with_its_place(self, text: str, place: str, message: str) -> None:
        said = error_of(text)
        assert said.startswith(f"f.yaml:{place}: ")
        assert message in said

    @pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "a: " + "[" * 200 + "]" * 200])
    def test_deep_nesting(self, text: str) -> None:
        assert "nested more than 100 deep" in error_of(text)

    @pytest.mark.full
    def test_many_values(self) -> None:
        assert "more than 500,000 values" in error_of("[" + "1," * 500_001 + "]")

    def test_messages_are_short(self) -> None:
        assert len(error_of("a: 1\n" + "x" * 100_000 + "\nb: 2")) < 1000
        assert len(error_of("? " + "x" * 100_000 + "\n" + "? " + "x" * 100_000)) < 1000


class TestFiles:
    def test_an_empty_file_is_an_empty_map(self, folder: Path) -> None:
        for text in ("", "# nothing\n", "---\n", "null"):
            write(main=text)
            assert plain_value(read_yaml(Path("main.yaml"))) == {}

    def test_other_names_for_yaml(self, folder: Path) -> None:
        Path("a.json").write_text(json.dumps({"a": {"b": [1, True, None, "x/y"]}}, indent="\t"))
        Path("b.yml").write_text("a: 1")
        assert plain_value(read_yaml(Path("a.json"))) == {"a": {"b": [1, True, None, "x/y"]}}
        assert values(load("b.yml")) == {"a": 1}

    def test_byte_order_mark(self, folder: Path) -> None:
        Path("main.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
        assert values(load()) == {"a": 1}

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a: 1".encode("utf-16"), "main.yaml:1:1: the file is not UTF-8 text"),
            (b"\x7fELF\0\0\1\2", "main.yaml:1:1: the file is not UTF-8 text"),
            (b"a: 1\nb: caf\xe9\n", "main.yaml:2:7: the file is not UTF-8 text"),
            (b"- a\n", "main.yaml:1:1: a configuration file must hold keys"),
            (b"just text", "must hold keys with values at its top"),
            (b"5", "must hold keys"),
        ],
    )
    def test_what_is_no_configuration(self, folder: Path, content: bytes, message: str) -> None:
        Path("main.yaml").write_bytes(content)
        with pytest.raises(ConfigError, match=message):
            load()

    def test_what_cannot_be_read(self, folder: Path) -> None:
        Path("dir.yaml").mkdir()
        os.mkfifo("pipe.yaml")
        Path("loop.yaml").symlink_to("loop.yaml")
        for name, message in {
            "none.yaml": "there is no file 'none.yaml'",
            "dir.yaml": "is not a file",
            "pipe.yaml": "is not a file",
            "loop.yaml": "there is no file|cannot be read",
            "x" * 300: "cannot be read|there is no file",
        }.items():
            with pytest.raises(ConfigError, match=message):
                load(name)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
    def test_what_may_not_be_read(self, folder: Path) -> None:
        write(main="a: 1")
        Path("main.yaml").chmod(0)
        with pytest.raises(ConfigError, match=r"'main.yaml' cannot be read: Permission denied"):
            load()

    def test_a_file_too_large(self, folder: Path) -> None:
        with Path("main.yaml").open("wb") as file:
            file.truncate(17 * 1024 * 1024)
        with pytest.raises(ConfigError, match="larger than 16 MiB"):
            load()

    def test_content_is_kept(self, folder: Path) -> None:
        write(main="includeConfigs: [one, one.yaml]\nx: !include two.yaml", two="[1]")
        Path("one").write_text("includeConfigs: one.yaml")
        write(one="a: 1")
        loaded = load()
        assert [(str(file.path), file.content[:6]) for file in loaded.files] == [
            ("main.yaml", b"includ"),
            ("two.yaml", b"[1]"),
            ("one", b"includ"),
            ("one.yaml", b"a: 1"),
        ]


class TestIncludes:
    def test_precedence(self, folder: Path) -> None:
        write(
            main="includeConfigs: [one.yaml, two.yaml]\nx: main",
            one="x: one\ny: one\nz: one\nt: one",
            two="includeConfigs: three.yaml\nx: two\ny: two",
            three="x: three\ny: three\nz: three\nt: three",
        )
        assert values(load()) == {"x": "main", "y": "two", "z": "three", "t": "three"}

    def test_current_directory_first(self, folder: Path) -> None:
        Path("conf").mkdir()
        Path("conf/main.yaml").write_text("includeConfigs: [both.yaml, beside.yaml]")
        Path("conf/both.yaml").write_text("a: beside")
        Path("conf/beside.yaml").write_text("b: beside")
        write(both="a: cwd")
        loaded = load("conf/main.yaml")
        assert values(loaded) == {"a": "cwd", "b": "beside"}
        assert {layer.name for layer in loaded.layers} == {"both.yaml", "conf/beside.yaml", "conf/main.yaml"}
        elsewhere = load_layers(Path("conf/main.yaml"), env={}, cwd=folder / "conf")
        assert values(elsewhere) == {"a": "beside", "b": "beside"}

    def test_nested_ones_are_looked_for_beside_their_own_file(self, folder: Path) -> None:
        Path("a/b").mkdir(parents=True)
        write(main="includeConfigs: a/one.yaml")
        Path("a/one.yaml").write_text("includeConfigs: b/two.yaml")
        Path("a/b/two.yaml").write_text("x: {i: !include three.yaml}")
        Path("a/b/three.yaml").write_text("[3]")
        assert values(load()) == {"x": {"i": [3]}}

    def test_in_sections(self, folder: Path) -> None:
        write(
            main="site:\n  s1:\n    includeConfigs: site.yaml\n    queue: mine\npayload: {includeConfigs: [p.yaml]}",
            site="queue: theirs\ncpus: 3\ninner: {includeConfigs: inner.yaml}",
            inner="deep: 1",
            p="includeConfigs: q.yaml\na: p",
            q="a: q\nb: q",
        )
        loaded = load()
        assert values(loaded) == {
            "site": {"s1": {"queue": "mine", "cpus": 3, "inner": {"deep": 1}}},
            "payload": {"a": "p", "b": "q"},
        }
        assert "includeConfigs" not in str(values(loaded))

    def test_of_two_directives_the_first_wins_as_in_bps(self, folder: Path) -> None:
        write(main="includeConfigs: one.yaml\np: {includeConfigs: two.yaml}", one="p: {x: one}", two="x: two\ny: two")
        assert values(load()) == {"p": {"x": "one", "y": "two"}}
        write(main="p: {includeConfigs: two.yaml}\nincludeConfigs: one.yaml")
        assert values(load()) == {"p": {"x": "two", "y": "two"}}

    def test_variables_of_the_environment_and_absolute_paths(self, folder: Path) -> None:
        Path("d").mkdir()
        Path("d/one.yaml").write_text("a: 1")
        write(main="includeConfigs: ['${D}/one.yaml', $D/two.yaml]\nx: !include $D/one.yaml")
        Path("d/two.yaml").write_text("b: 2")
        assert values(load(D=str(folder / "d"))) == {"a": 1, "b": 2, "x": {"a": 1}}
        write(main="includeConfigs: ['${D}/one.yaml']")
        with pytest.raises(ConfigError, match=r"main.yaml:1:18: the included file '\$\{D\}/one.yaml' does not exist"):
            load()

    def test_deletion_reaches_what_is_included(self, folder: Path) -> None:
        write(main="includeConfigs: one.yaml\na: !delete\nb: {x: !delete }", one="a: 1\nb: {x: 1, y: 2}")
        assert values(load()) == {"b": {"y": 2}}

    def test_null_and_empty_include_nothing(self, folder: Path) -> None:
        for text in ("null", "[]", ""):
            write(main=f"includeConfigs: {text}\na: 1")
            assert values(load()) == {"a": 1}

    def test_where_a_value_came_from_and_what_it_replaced(self, folder: Path) -> None:
        write(main="includeConfigs: one.yaml\na: 2", one="\n\na: 1")
        top = merge_layers(load().layers).value
        assert isinstance(top, dict)
        node = top["a"]
        assert str(node.origin) == "main.yaml:2:4"
        assert node.replaced_node is not None
        assert str(node.replaced_node.origin) == "one.yaml:3:4"
        assert node.origin.layer == "file"

    @pytest.mark.parametrize("name", ["{a: 1}", "[[x]]", "''", "[null]"])
    def test_names_that_are_none(self, folder: Path, name: str) -> None:
        write(main=f"a: 1\nincludeConfigs: {name}")
        with pytest.raises(ConfigError, match=r"main.yaml:2:1[78]: 'includeConfigs' must name a file"):
            load()

    @pytest.mark.parametrize("name", ["''", "[x]", '"\\0"'])
    def test_names_that_are_none_for_the_tag(self, folder: Path, name: str) -> None:
        write(main=f"a: !include {name}")
        with pytest.raises(ConfigError, match=r"main.yaml:1:4: '!include' must name a file"):
            load()

    def test_a_missing_file(self, folder: Path) -> None:
        Path("conf").mkdir()
        Path("conf/main.yaml").write_text("a: 1\nincludeConfigs:\n  - nope.yaml\n")
        with pytest.raises(
            ConfigError, match=r"conf/main.yaml:3:5: the included file 'nope.yaml' does not exist"
        ) as caught:
            load("conf/main.yaml")
        assert str(folder / "conf/nope.yaml") in caught.value.hint
        Path("conf/main.yaml").write_text("a: !include nope.yaml")
        with pytest.raises(ConfigError, match=r"conf/main.yaml:1:4: there is no file 'conf/nope.yaml'"):
            load("conf/main.yaml")
        Path("conf/main.yaml").write_text("includeConfigs: " + "x" * 300)
        with pytest.raises(ConfigError, match=r"conf/main.yaml:1:17: "):
            load("conf/main.yaml")

    def test_an_error_in_an_included_file_has_that_files_place(self, folder: Path) -> None:
        write(main="includeConfigs: one.yaml", one="a: 1\nb: [")
        with pytest.raises(ConfigError, match=r"one.yaml:2:5: this is not YAML"):
            load()

    @pytest.mark.parametrize(
        ("texts", "ring"),
        [
            ({"main": "includeConfigs: main.yaml"}, "'main.yaml' -> 'main.yaml'"),
            ({"main": "a: !include main.yaml"}, "'main.yaml' -> 'main.yaml'"),
            (
                {"main": "includeConfigs: a.yaml", "a": "includeConfigs: b.yaml", "b": "x: {includeConfigs: ./a.yaml}"},
                "'a.yaml' -> 'b.yaml' -> 'a.yaml'",
            ),
            ({"main": "x: !include a.yaml", "a": "includeConfigs: main.yaml"}, "'main.yaml' -> 'main.yaml'"),
            ({"main": "x: !include a.yaml", "a": "[!include main.yaml]"}, "'main.yaml' -> 'a.yaml' -> 'main.yaml'"),
        ],
    )
    def test_rings(self, folder: Path, texts: dict[str, str], ring: str) -> None:
        write(**texts)
        with pytest.raises(ConfigError, match=f"includes itself: {ring}") as caught:
            load()
        assert caught.value.origin is not None
        assert caught.value.origin.line == 1

    def test_a_thousand_files(self, folder: Path) -> None:
        for i in range(1000):
            Path(f"f{i}.yaml").write_text(f"k{i}: {i}\nlast: {i}")
        write(main="includeConfigs: [" + ", ".join(f"f{i}.yaml" for i in range(1000)) + "]")
        start = time.process_time()
        loaded = values(load())
        assert (len(loaded), loaded["last"]) == (1001, 999)
        assert time.process_time() - start < 30

    def test_more_than_ten_thousand(self, folder: Path) -> None:
        write(
            main="includeConfigs: [" + "one.yaml, " * 200 + "]",
            one="includeConfigs: [" + "two.yaml, " * 60 + "]",
            two="{}",
        )
        with pytest.raises(ConfigError, match="more than 10,000 files are included"):
            load()
        write(main="[" + "!include two.yaml, " * 10_001 + "]", two="1")
        with pytest.raises(ConfigError, match="more than 10,000 files are included"):
            load()

    @pytest.mark.parametrize(
        "text", ["includeConfigs: f{}.yaml", "a: {{includeConfigs: f{}.yaml}}", "a: !include f{}.yaml"]
    )
    def test_long_chains(self, folder: Path, text: str) -> None:
        for i in range(300):
            Path(f"f{i}.yaml").write_text(text.format(i + 1))
        with pytest.raises(ConfigError, match="more than 100 deep"):
            load("f0.yaml")

    def test_chains_of_deep_files(self, folder: Path) -> None:
        for i in range(300):
            Path(f"f{i}.yaml").write_text("a: " + "{a: " * 40 + f"!include f{i + 1}.yaml" + "}" * 40)
            Path(f"g{i}.yaml").write_text("a: " + "{a: " * 40 + f"{{includeConfigs: g{i + 1}.yaml}}" + "}" * 40)
        for name in ("f0.yaml", "g0.yaml"):
            with pytest.raises(ConfigError, match="more than 100 deep"):
                load(name)

    def test_a_file_taken_in_at_two_depths(self, folder: Path) -> None:
        deep = "[" * 60 + "]" * 60
        write(main="a: !include d.yaml\nb: " + "{a: " * 60 + "!include d.yaml" + "}" * 60, d=deep)
        with pytest.raises(ConfigError, match=r"main.yaml:2:.*nested more than 100 deep"):
            load()

    def test_exploding_includes(self, folder: Path) -> None:
        for i in range(30):
            Path(f"f{i}.yaml").write_text("[" + f"!include f{i + 1}.yaml, " * 9 + "]")
            Path(f"g{i}.yaml").write_text(f"includeConfigs: [g{i + 1}.yaml, g{i + 1}.yaml]")
        Path("f30.yaml").write_text("[1, 2, 3]")
        Path("g30.yaml").write_text("a: 1")
        write(main="a: !include f0.yaml")
        with pytest.raises(ConfigError, match="500,000 values"):
            load()
        with pytest.raises(ConfigError, match="10,000 files"):
            load("g0.yaml")


class TestSet:
    def test_where_values_go(self) -> None:
        layer = parse_set_options(
            ["queue=long", "site.local.n=2", ".payload.a=x", "/b/c=[1, x]", "d.e={f: 1}", "_x=null", "y=", "z=a=b"]
        )
        assert layer.rank is LayerRank.COMMAND_LINE
        assert plain_value(merge_layers([layer])) == {
            "bps_cmdline": {"queue": "long", "_x": None, "y": "", "z": "a=b"},
            "site": {"local": {"n": 2}},
            "payload": {"a": "x"},
            "b": {"c": [1, "x"]},
            "d": {"e": {"f": 1}},
        }

    def test_the_last_wins_and_knows_the_first(self) -> None:
        layer = parse_set_options(["a.b=1", "a.b=2"])
        assert isinstance(layer.root.value, dict)
        a = layer.root.value["a"]
        assert isinstance(a.value, dict)
        assert a.value["b"].replaced_node == Node(1, Origin("--set", layer="command line"))

    def test_deletion(self) -> None:
        defaults = parse_set_options(["a.x=1", "a.y=1"])
        assert plain_value(merge_layers([defaults, parse_set_options(["a.x=!delete"])])) == {"a": {"y": 1}}

    def test_a_plain_key_at_the_root(self) -> None:
        layer = parse_set_options([".queue={a: [x]}", "/n=1"])
        assert plain_value(merge_layers([layer])) == {"queue": {"a": ["x"]}, "n": 1}
        assert layer.root == to_node({"queue": {"a": ["x"]}, "n": 1}, Origin("--set", layer="command line"))

    @pytest.mark.parametrize("pair", ["", "x", "=x", "a..b=1", ".=1", "a.=1", ".a.=2"])
    def test_no_pair(self, pair: str) -> None:
        with pytest.raises(UsageError, match="is not KEY=VALUE"):
            parse_set_options([pair])

    @pytest.mark.parametrize("pair", ["a=[1", "a=!include x", "a=!!python/name:os.system", "a=*x"])
    def test_no_value(self, pair: str) -> None:
        with pytest.raises(UsageError, match=r"the value in .* cannot be read: "):
            parse_set_options([pair])

    @pytest.mark.parametrize("pair", ["a=\ud800", "a.\udcff=1"])
    def test_no_text(self, pair: str) -> None:
        with pytest.raises(UsageError, match="is not UTF-8 text"):
            parse_set_options([pair])


KEYS = st.text(max_size=6) | st.sampled_from(["includeConfigs", "<<", "a", "payload"])
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=12,
)


def outcome(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What it returns, or the error of ours that it raises."""
    try:
        return read(*arguments, **options)
    except LongshoreError as error:
        return error


@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_any_nested_yaml_is_read_or_refused_by_us(tmp_path: Path, tree: dict[str, Any]) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(yaml.safe_dump(tree), "utf-8")
    loaded = outcome(load_layers, path, env={}, cwd=tmp_path)
    if isinstance(loaded, LoadedLayers):
        assert set(plain_map(merge_layers(loaded.layers))) <= set(tree)
    else:
        assert len(str(loaded)) < 2000


@given(st.text("ab:-[]{}*&!<|>'\"#%@,? \n\t\r\x85é\ufeff~=012", max_size=40))
def test_any_text_is_read_or_refused_by_us(text: str) -> None:
    node = outcome(parse_yaml, text, "f.yaml")
    assert node.origin.line >= 1
    if isinstance(node, Node):
        plain_value(node)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_by_us(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(content)
    loaded = outcome(load_layers, path, env={}, cwd=tmp_path)
    assert isinstance(loaded, LoadedLayers) or str(loaded).startswith(str(path))


@given(st.text(max_size=20))
def test_any_pair_is_read_or_refused_by_us(pair: str) -> None:
    layer = outcome(parse_set_options, [pair, f"a={pair}"])
    assert isinstance(layer, Layer) or (isinstance(layer, UsageError) and len(str(layer)) < 1000)
