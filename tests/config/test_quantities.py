"""Amounts, time spans, counts and pools as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.merge import to_node
from longshore.config.quantities import (
    check_resource_name,
    format_walltime,
    parse_count,
    parse_exit_codes,
    parse_memory,
    parse_pool,
    parse_resource_request,
    parse_walltime,
)
from longshore.errors import ConfigError, Origin

MIB = 1024**2
HERE = Origin("f.yaml", 3, 7)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (4096, 4096 * MIB),
        ("4096", 4096 * MIB),
        (1.5, 3 * MIB // 2),
        (0, 0),
        ("4 GiB", 4 * 1024**3),
        ("4GB", 4 * 1024**3),
        ("4g", 4 * 1024**3),
        ("1.5G", 3 * 1024**3 // 2),
        ("500k", 500 * 1024),
        ("100 B", 100),
        ("100b", 100),
        (" 2T ", 2 * 1024**4),
        (".5k", 512),
        ("1P", 1024**5),
        ("1.E", 1024**6),
        ("0.1k", 103),
        (0.1, 104858),
        (1e-9, 1),
    ],
)
def test_memory(value: Any, expected: int) -> None:
    assert parse_memory(value, "requestMemory") == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "lots",
        "-1",
        -1,
        -0.5,
        "4 XB",
        "4 i",
        "4 ib",
        "4,096",
        "1e30",
        True,
        None,
        [1],
        {},
        math.nan,
        math.inf,
        2**63,
        "9" * 30,
        "99999999E",
    ],
)
def test_no_memory(value: Any) -> None:
    with pytest.raises(ConfigError, match="'requestMemory' must be an amount") as caught:
        parse_memory(value, "requestMemory", HERE)
    assert caught.value.origin == HERE
    assert "'4 GiB'" in caught.value.hint


@given(st.fractions(0, 10**6).map(lambda f: Fraction(f).limit_denominator(1000)), st.sampled_from("kmgt"))
def test_requests_round_up_and_capacities_down(amount: Fraction, unit: str) -> None:
    text = f"{float(amount):.6f}{unit}"
    exact = Fraction(text[:-1]) * 1024 ** ("kmgt".index(unit) + 1)
    up, down = parse_memory(text, "x"), parse_memory(text, "x", round_down=True)
    assert down <= exact <= up
    assert up - down == (0 if exact.denominator == 1 else 1)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5400, 5400),
        (1.5, 1.5),
        ("5400", 5400),
        ("90.5", 90.5),
        ("1:30", 5400),
        ("01:30:15", 5415),
        ("12:30:45", 45045),
        ("100:00", 360000),
        ("1h30m", 5400),
        ("1h 30m 5s", 5405),
        ("2D", 172800),
        ("1.5h", 5400),
        ("90s", 90),
        ("2-03:00:00", 183600),
        ("2-03", 183600),
        ("1-00:30", 88200),
        (0, 0),
    ],
)
def test_walltime(value: Any, seconds: float) -> None:
    assert parse_walltime(value, "requestWalltime") == seconds


@given(st.integers(0, 10**7))
def test_a_time_span_is_read_as_it_is_written(seconds: int) -> None:
    assert parse_walltime(format_walltime(seconds), "requestWalltime") == seconds
    assert parse_walltime(format_walltime(seconds + 0.4), "requestWalltime") == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "1:60",
        "1:00:60",
        "1:2:3:4",
        "1-24:00",
        "-5",
        -5,
        "1h30",
        "1 hour",
        True,
        None,
        [1],
        math.nan,
        1e30,
        "1w",
    ],
)
def test_no_walltime(value: Any) -> None:
    with pytest.raises(ConfigError, match="'requestWalltime' must be a time span") as caught:
        parse_walltime(value, "requestWalltime", HERE)
    assert caught.value.origin == HERE
    assert "hours:minutes" in caught.value.hint


@pytest.mark.parametrize(("value", "expected"), [(3, 3), ("3", 3), (" +3 ", 3), (3.0, 3)])
def test_count(value: Any, expected: int) -> None:
    assert parse_count(value, "x") == expected


@pytest.mark.parametrize("value", [1.5, True, None, "two", "1.0", -1, "-1", [1], math.inf, 2**63, ""])
def test_no_count(value: Any) -> None:
    with pytest.raises(ConfigError, match="'x' must be a whole number, 0 or more"):
        parse_count(value, "x", HERE)


def test_count_with_a_least() -> None:
    with pytest.raises(ConfigError, match="'x' must be a whole number of at least 1, not '0'"):
        parse_count(0, "x", least=1)
    assert parse_count(2.9, "x", round_down=True) == 2


@pytest.mark.parametrize(
    ("value", "codes"),
    [(1, (1,)), ([1, 2], (1, 2)), ([2, 2, 1], (2, 1)), (0, ()), ([], ()), (None, ()), ([0, 3], (3,)), (255, (255,))],
)
def test_exit_codes(value: Any, codes: tuple[int, ...]) -> None:
    assert parse_exit_codes(value, "retryUnlessExit") == codes


@pytest.mark.parametrize("value", ["1", ["1"], True, 256, -1, {"a": 1}, [None], 1.0])
def test_no_exit_codes(value: Any) -> None:
    with pytest.raises(ConfigError, match="must be an exit code"):
        parse_exit_codes(value, "retryUnlessExit")


def test_requested_resources() -> None:
    assert parse_resource_request({"gpu:a100": 2, "licence": "1", "none": None}, "requestResources") == {
        "gpu:a100": 2,
        "licence": 1,
    }


@pytest.mark.parametrize(("name", "key"), [("cpus", "requestCpus"), ("mem", "requestMemory"), ("tmp", "requestDisk")])
def test_resources_with_keys_of_their_own(name: str, key: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is asked for by '{key}'"):
        check_resource_name(name, "requestResources")


@pytest.mark.parametrize("name", ["", "a b", "a=1", "a,b", "a\n"])
def test_names_no_resource_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a resource"):
        check_resource_name(name, "requestResources")
    with pytest.raises(ConfigError, match="cannot be the name of a resource"):
        parse_pool(to_node({name: 1}, HERE))


@pytest.mark.parametrize(
    ("resources", "pool"),
    [
        ({}, {}),
        (None, {}),
        ({"cpus": 4, "memory": "8 GiB", "disk": 100}, {"cpus": 4, "memory": 8 * 1024**3, "disk": 100 * MIB}),
        ({"cpu": 4, "mem": "8G", "tmp": "1k"}, {"cpus": 4, "memory": 8 * 1024**3, "disk": 1024}),
        ({"cpus": 3.9, "memory": "0.1k", "licence": 2.5}, {"cpus": 3, "memory": 102, "licence": 2}),
        ({"cpus": None, "gpu": 0}, {"gpu": 0}),
    ],
)
def test_pool(resources: Any, pool: dict[str, int]) -> None:
    assert parse_pool(to_node(resources, HERE)) == pool


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"cpu": 1, "cpus": 2}, "gives both 'cpu' and 'cpus'"),
        ({"mem": 1, "memory": None}, "gives both 'mem' and 'memory'"),
        ({"cpus": 0}, "'resources.cpus' must be a whole number of at least 1"),
        ({"mem": "lots"}, "'resources.mem' must be an amount"),
        ({"gpu": "two"}, "'resources.gpu' must be a whole number"),
        ({"gpu": -1}, "'resources.gpu' must be a whole number"),
        ([1], "'resources' must be a map"),
        (5, "'resources' must be a map"),
    ],
)
def test_no_pool(resources: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_pool(to_node(resources, HERE))
    assert caught.value.origin == HERE


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=3), below, max_size=2),
    max_leaves=4,
)


def refusal(parse: Callable[..., object], *arguments: Any) -> ConfigError | None:
    try:
        parse(*arguments)
    except ConfigError as error:
        return error
    return None


@given(ANYTHING)
def test_anything_is_a_number_or_our_error(value: Any) -> None:
    for parse in (parse_memory, parse_walltime, parse_count, parse_exit_codes):
        error = refusal(parse, value, "x")
        assert error is None or len(error.message) < 200
    error = refusal(parse_pool, to_node(value, HERE))
    assert error is None or error.origin == HERE
