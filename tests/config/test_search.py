"""The search order of BPS, row by row of what BPS was seen to do, and where Longshore does the sane thing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.interpolate import Interpolator, Scope, empty_text, normalize_path
from longshore.config.merge import LayerRank, make_layer, merge_layers, plain_value, to_node
from longshore.config.quantities import quote_node, quoting_hint
from longshore.config.search import Config
from longshore.config.templates import Field
from longshore.errors import ConfigError, LongshoreError, Origin, ReferenceCycleError, UndefinedVariableError

BASE: dict[str, Any] = {
    "payload": {"a": "payload", "v": 5},
    "a": "root",
    "n": 7,
    "pipetask": {"t1": {"a": "t1", "mem": 5}, "a2": "x"},
    "cluster": {"c1": {"mem": 9}},
    "site": {"s1": {"mem": 11, "z": "site"}},
    "cloud": {"k1": {"z": "cloud"}},
}
ENV = {
    "FOO": "fooval",
    "BRACES": "{a} {{a}} $FOO <ENV:FOO> <a> bpsEval(max, [1, 2])",
    "QUOTES": 'it\'s "{a}" \\n',
    "NUMBER": "12",
    "WIDTH": "4",
}


def config_of(values: dict[str, Any]) -> Config:
    return Config(merge_layers([make_layer(values, "test", LayerRank.FILE)]))


def with_values(**values: Any) -> Config:
    return config_of(BASE | values)


CONFIG = with_values()


def at(**current: Any) -> dict[str, Any]:
    return {"current": current}


ROWS: list[tuple[int, str, dict[str, Any], tuple[bool, Any]]] = [
    (1, "a", {}, (True, "payload")),
    (2, "a", at(a="cv"), (True, "cv")),
    (3, "a", at(curr_pipetask="t1"), (True, "payload")),
    (4, "mem", at(curr_pipetask="t1"), (True, 5)),
    (5, "mem", {}, (False, "")),
    (6, "mem", at(curr_cluster="c1", curr_pipetask="t1", curr_site="s1"), (True, 9)),
    (7, "mem", at(curr_pipetask="t1", curr_site="s1"), (True, 5)),
    (8, "z", at(curr_site="s1", curr_cloud="k1"), (True, "site")),
    (9, "a2", at(curr_pipetask="t1"), (False, "")),
    (10, "a2", {}, (True, "x")),
    (11, "mem", {"searchobj": {"mem": 99}}, (True, 99)),
    (11, "mem", {"searchobj": {"mem": 99}, **at(mem=1)}, (True, 1)),
    (11, "mem", {"searchobj": to_node({"mem": 99}, Origin("x"))}, (True, 99)),
]


@pytest.mark.parametrize(("row", "key", "options", "expected"), ROWS)
def test_rows_1_to_11(row: int, key: str, options: dict[str, Any], expected: tuple[bool, Any]) -> None:
    found = CONFIG.search(key, Scope(**options))
    assert (found.is_found, found.value) == expected


FORMATS = "{a}/{n:03}/{missing}/x"
TEXTS: list[tuple[int, str, dict[str, Any], str]] = [
    (14, FORMATS, {}, "payload/007//x"),
    (16, "${FOO}/$FOO/{a}", {}, "fooval/fooval/payload"),
    (17, "${FOO}/x", {"expand_env": False, "replace_env": True}, "<ENV:FOO>/x"),
    (18, "${FOO}/x", {"expand_env": False, "replace_env": False}, "${FOO}/x"),
    (19, "${FOO}/x", {"expand_env": True, "replace_env": True}, "fooval/x"),
    (20, "${NOPE}/z", {}, "${NOPE}/z"),
    (21, "$$(X) $(Y)", {"expand_env": False, "replace_env": True}, "$$(X) $(Y)"),
    (22, "f.{wmsAttemptNum}.log", {"of_attempts": True}, "f.<WMS:attemptNum>.log"),
    (24, "{label}/{v1}/{v4}", at(label="l", v4=12345), "l//12345"),
    (25, "s3://u@h/x.yaml", {}, "s3://u@h/x.yaml"),
    (26, "{a} {keep}", {"free": ("keep",)}, "payload {keep}"),
    # Where BPS goes wrong.
    (17, "$FOO/{a}", {"expand_env": False, "replace_env": True}, "<ENV:FOO>/payload"),
    (0, "awk '{print $1}'", {}, "awk '{print $1}'"),
    (0, "find -exec {} +", {}, "find -exec {} +"),
    (0, "a { b", {}, "a { b"),
    # What else BPS does.
    (0, "{{x}} {x", {}, "{x} {x"),
    (0, "{a} {n}", {"free": ("n",)}, "payload {n}"),
    (0, "{.site.s1.z} {.a} {.nope.x}", {}, "site root "),
    (0, "{flag} {list}", {}, "True [1, 'x']"),
    # Each text is substituted once: what a variable brings is data.
    (0, "$BRACES", {}, "{a} {{a}} $FOO <ENV:FOO> <a> bpsEval(max, [1, 2])"),
    (0, "{outer} {a}", {}, "[{a} {{a}} $FOO <ENV:FOO> <a> bpsEval(max, [1, 2])] payload"),
    (0, "{operator} {v}", at(v="{a}$FOO<ENV:FOO>"), "{a} $FOO {a}$FOO<ENV:FOO>"),
    (0, "{n:0$WIDTH}", {}, "0007"),
    (0, "$<BRACES>", {}, "{a} {{a}} $FOO <ENV:FOO> <a> bpsEval(max, [1, 2])"),
    (0, "bpsEval(len, '$QUOTES $BRACES')", {}, "63"),
    (0, 'bpsEval(str, "$QUOTES")', {}, 'it\'s "{a}" \\n'),
    (0, "bpsEval(max, [$NUMBER, {n}])", {}, "12"),
    (27, "v=bpsEval(max, [1, {n}])", {}, "v=7"),
    (0, "v=bpsEval(os.getcwd, 1)", {}, "v=bpsEval(os.getcwd, 1)"),
    # Other spellings, where the variable exists.
    (0, "<a> x<n> <.a>", {}, "payload x7 <.a>"),
    (0, "cat <in>out 2>&1 <FILE:x>", {}, "cat <in>out 2>&1 <FILE:x>"),
    (0, "$<FOO> $<NOPE> $<a>", {}, "fooval $<NOPE> $<a>"),
    (0, "$<FOO>/x", {"expand_env": False, "replace_env": True}, "<ENV:FOO>/x"),
    (0, "<a> <keep>", {"free": ("keep",)}, "payload {keep}"),
]


@pytest.mark.parametrize(("row", "text", "options", "expected"), TEXTS)
def test_rows_14_to_26(row: int, text: str, options: dict[str, Any], expected: str) -> None:
    computed = make_layer({"operator": "{a} $FOO"}, "computed", LayerRank.DEFAULTS)
    written = make_layer(
        BASE | {"text": text, "flag": True, "list": [1, "x"], "outer": "[$BRACES]"}, "test", LayerRank.FILE
    )
    found = Config(merge_layers([computed, written])).search("text", Scope(env=ENV, **options))
    assert (found.is_found, found.value) == (True, expected)


def test_the_number_of_an_attempt_is_known_to_attempts_alone() -> None:
    config = with_values(text="f.{wmsAttemptNum}.log")
    with pytest.raises(UndefinedVariableError, match="number of an attempt"):
        config.search("text", Scope(env=ENV))
    assert with_values(text="{wmsAttemptNum}", wmsAttemptNum=7).search("text").value == "7", "one of the user's own"


@pytest.mark.parametrize("text", ["{none}", "a {outer}", "{none:03}", "<none>"])
def test_null_is_no_text(text: str) -> None:
    config = with_values(text=text, none=None, outer="{none}")
    with pytest.raises(ConfigError, match=r"'\{none\}' has no value: 'none' is null"):
        config.search("text")


def test_options_of_commands_of_bps_may_be_null() -> None:
    assert with_values(text="[{extraRunQuantumOptions}]", extraRunQuantumOptions=None).search("text").value == "[]"


@pytest.mark.parametrize(
    "text",
    [
        "wc -c <raw>count.txt",
        "wc -c <raw> count.txt",
        "wc -c <raw>{out}",
        "wc <raw>>x",
        "wc <raw>&2",
        "wc <raw>| x",
        "sh -c 'wc <raw>x'",
        "a_<raw>.txt",
        "{nested}",
    ],
)
def test_a_name_in_angle_brackets_that_may_be_redirections_is_refused(text: str) -> None:
    scope = Scope(is_shell_line=True)
    interpolator = Interpolator(with_values(raw="x", out="y", nested="wc <raw>z"), scope)
    with pytest.raises(ConfigError, match="'<raw>' may mean the variable 'raw' or two redirections of the shell"):
        interpolator.template(text, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo <a>", "echo payload"),
        ("echo <a> <n>; x", "echo payload 7; x"),
        ("echo <a> && x", "echo payload && x"),
        ("echo <a> > x", "echo payload > x"),
        ("echo '<a>.txt' \"<n>.txt\"", "echo 'payload.txt' \"7.txt\""),
        ("wc -c < a > count.txt", "wc -c < a > count.txt"),
        ("wc -c <raw>count.txt", "wc -c <raw>count.txt"),
    ],
)
def test_names_in_angle_brackets_in_a_line_for_the_shell(text: str, expected: str) -> None:
    scope = Scope(is_shell_line=True, expand_env=False)
    assert Interpolator(CONFIG, scope).template(text, None).render({}) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{label}/{v1}/{v2}/", "l/12345/"),
        ("{label}/{v1}/{v2}", "l/12345"),
        ("{v2}/{v1}", "12345"),
        ("", "."),
        ("/", "/"),
    ],
)
def test_sub_directories_are_tidied(template: str, expected: str) -> None:
    config = with_values(subDirTemplate=template)
    assert config.search("subDirTemplate", Scope(current={"label": "l", "v2": 12345})).value == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (".payload.a", "payload"),
        ("/payload/a", "payload"),
        (".a", "root"),
        (".pipetask.t1.mem", 5),
        (".site.s1", {"mem": 11, "z": "site"}),
        ("payload.a", ""),
        (".payload.a.b", ""),
        (".mem", ""),
        ("", ""),
    ],
)
def test_delimited_keys_name_a_place(key: str, expected: Any) -> None:
    # Current values, which would win over all else, are not looked at.
    assert CONFIG.search(key, Scope(current={"curr_pipetask": "t1", ".a": "cv", ".mem": 3})).value == expected


def test_plug_ins_see_the_keys_of_the_command_line_first() -> None:
    config = Config(to_node({"size": 4, "deep": {"a": 1}, "bps_cmdline": {"size": 7}}, Origin("run.yaml")))
    assert config.plain_values() == {"size": 7, "deep": {"a": 1}, "bps_cmdline": {"size": 7}}


def test_bps_cmdline_wins_over_sections_and_bps_defined_over_root() -> None:
    config = with_values(bps_cmdline={"a": "cmd"}, bps_defined={"n": 8, "a": "def"})
    assert (config.search("a").value, config.search("n").value) == ("cmd", 8)
    assert config.search("a", Scope(searchobj={"a": "obj"})).value == "obj"


def test_a_section_without_the_current_name_is_looked_into_itself() -> None:
    assert CONFIG.search("a2", Scope(current={"curr_pipetask": "t9"})).value == "x"
    assert with_values(site="s").search("z", Scope(current={"curr_site": "s"})).is_found is False


def test_current_values_of_the_configuration_itself() -> None:
    config = with_values(current={"curr_site": "s1", "q": "here"})
    assert (config.search("z").value, config.search("q").value) == ("site", "here")
    assert config.search("z", Scope(current={"curr_site": "nope", "q": "mine"})).value == ""
    assert config.search("q", Scope(current={"q": "mine"})).value == "mine"
    assert with_values(current=5).search("current").value == 5


def test_where_a_value_was_written() -> None:
    layers = [
        make_layer({"x": 1}, "a.yaml", LayerRank.DEFAULTS),
        make_layer({"x": 2}, "b", LayerRank.FILE),
    ]
    found = Config(merge_layers(layers)).search("x")
    assert found.origin == Origin("b", layer="file")
    assert found.node is not None
    assert found.node.replaced_node is not None
    assert found.node.replaced_node.origin.file == "a.yaml"
    assert CONFIG.search("x", Scope(current={"x": 1})).origin is None


def test_contains_and_places() -> None:
    assert "a" in CONFIG
    assert "mem" not in CONFIG
    node = CONFIG.node_at("site", "s1", "z")
    assert node is not None
    assert node.value == "site"
    assert CONFIG.node_at("site", "s1", "z", "deeper") is None
    assert CONFIG.node_at() is CONFIG.root


class TestRings:
    def test_a_value_defined_by_itself(self) -> None:
        with pytest.raises(ReferenceCycleError, match="'x' -> 'x'") as caught:
            with_values(x="a{x}").search("x")
        assert caught.value.origin == Origin("test", layer="file")

    def test_a_longer_ring_is_named_without_what_leads_to_it(self) -> None:
        with pytest.raises(ReferenceCycleError, match="itself: 'x' -> 'y' -> 'z' -> 'x'"):
            with_values(start="{x}", x="{y}", y="{z}", z="{x}").search("start")

    def test_twice_is_no_ring(self) -> None:
        assert with_values(x="{y}{y}{z}", y="{z}", z="1").search("x").value == "111"

    def test_a_weaker_value_of_the_same_name_is_a_ring_too(self) -> None:
        with pytest.raises(ReferenceCycleError):
            with_values(payload={"x": "{x}"}, x=1).search("x")

    def test_skipped_names_break_a_ring(self) -> None:
        assert with_values(x="{x}").search("x", Scope(free=["x"])).value == "{x}"


class TestBounds:
    def test_doubling(self) -> None:
        values = {f"v{i}": f"{{v{i - 1}}}{{v{i - 1}}}" for i in range(1, 60)} | {"v0": "0123456789"}
        with pytest.raises(ConfigError, match="longer than 1,000,000"):
            config_of(values).search("v59")

    def test_doubling_of_fields(self) -> None:
        values = {f"v{i}": f"{{v{i - 1}}}{{v{i - 1}}}" for i in range(1, 60)} | {"v0": "{free}"}
        with pytest.raises(ConfigError, match="longer than"):
            config_of(values).search("v59", Scope(free=["free"]))

    def test_depth(self) -> None:
        values = {f"v{i}": f"{{v{i - 1}}}" for i in range(1, 2000)} | {"v0": "x"}
        assert config_of(values).search("v90").value == "x"
        with pytest.raises(ConfigError, match="more than 100 deep"):
            config_of(values).search("v1999")

    def test_wide_formats(self) -> None:
        with pytest.raises(ConfigError, match="not a format"):
            config_of({"x": "{n:099999999}", "n": 1}).search("x")


class TestFormats:
    def test_of_text_with_variables(self) -> None:
        config = config_of({"x": "[{y:>5}]", "y": "{z}", "z": "ab"})
        assert config.search("x").value == "[   ab]"

    def test_of_what_differs_from_job_to_job(self) -> None:
        config = config_of({"x": "{y:>5}", "y": "{free}"})
        with pytest.raises(ConfigError, match="differs from job to job"):
            config.search("x", Scope(free=["free"]))

    def test_of_free_names(self) -> None:
        assert config_of({"x": "{free:03}"}).search("x", Scope(free=["free"])).value == "{free:03}"


class TestTemplates:
    def test_free_names_win_and_stay(self) -> None:
        scope = Scope(env=ENV, free=frozenset({"visit"}))
        template = config_of({"x": "$FOO/{dir}/{{v}}", "dir": "{visit:03}-{visit}", "visit": 5}).template("x", scope)
        assert template is not None
        assert template.parts == ("fooval/", Field("visit", "03"), "-", Field("visit"), "/{v}")
        assert template.render({"visit": 7}) == "fooval/007-7/{v}"

    def test_absent_and_null(self) -> None:
        assert config_of({"x": None}).template("x", Scope()) is None
        assert config_of({}).template("x", Scope()) is None

    def test_numbers_are_text_here(self) -> None:
        assert str(config_of({"x": 5}).template("x", Scope())) == "5"

    @pytest.mark.parametrize("value", [[1], {"a": 1}])
    def test_lists_and_maps_are_none(self, value: Any) -> None:
        with pytest.raises(ConfigError, match="'x' must be text"):
            config_of({"x": value}).template("x", Scope())

    def test_an_expander_works_each_variable_out_once(self) -> None:
        asked = []

        def undefined(name: str, origin: Origin | None) -> str:
            asked.append(name)
            return empty_text(name, origin)

        expander = Interpolator(config_of({"x": "{y}{y}", "y": "[{nope}]"}), Scope(undefined=undefined))
        assert expander.template("{x}{y}", None).parts == ("[][][]",)
        assert asked == ["nope"]


def test_parts_of_labels_are_those_of_tasks_and_clusters() -> None:
    config = config_of({"cluster": {"c": {"x": 1}}, "pipetask": {"a": {"x": 2}, "c": {}}, "site": {"s": {}}})
    found = [(label, plain_value(part)) for label, part in config.labeled_parts()]
    assert found == [("a", {"x": 2}), ("c", {}), ("c", {"x": 1})]
    assert not list(config_of({"pipetask": None}).labeled_parts())


def test_names_a_variable_could_have() -> None:
    scope = Scope(current={"curr_pipetask": "t1", "q": 1}, free={"visit"})
    names = CONFIG.names(scope)
    assert {"visit", "q", "a", "v", "mem", "n", "site"} <= names
    assert "a2" not in names


def test_tidy_path() -> None:
    assert normalize_path("a//b/./c/../d/") == "a/b/d"
    assert normalize_path("a//b", slash=True) == "a/b/"


TEXT = st.text("{}ab.:$<>03 ", max_size=12)


@given(st.dictionaries(st.sampled_from("ab03"), TEXT | st.integers() | st.none(), max_size=4), TEXT)
def test_random_templates_raise_only_our_errors(values: dict[str, Any], text: str) -> None:
    try:
        found = config_of(values | {"x": text}).search("x", Scope(env={"a": "{b}"}))
    except LongshoreError:
        return
    assert isinstance(found.value, str)


def test_null_is_shown_as_it_is_written() -> None:
    node = to_node(None, Origin("x"))
    assert (quote_node(node), quoting_hint(node)) == ("'null'", 'Give it a value; an empty text is written "".')
