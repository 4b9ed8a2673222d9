"""Users can lower the limits of a site, not raise them, and a note names each limit that applies."""

from __future__ import annotations

import msgspec
import pytest

from longshore.config.yaml_text import parse_yaml
from longshore.contract.executor import Limits as ExecutorLimits
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, WHOLE_NODE_B, JobRules, JobSettings, Request, RequestGrowth
from longshore.sites.limits import (
    SiteLimits,
    exceeded_ceilings,
    exceeded_limits,
    executor_limits,
    lower_limits,
    lower_to_limits,
    parse_rate,
    read_limits,
    user_maximums,
)


def limits(text: str, name: str = "site.yaml") -> SiteLimits:
    return read_limits(parse_yaml(text, name))


def test_every_limit_is_read() -> None:
    text = "{cpus: 4, memory: 1 GiB, walltime: '1:00', queued: 9, running: 8, arraySize: 7, submitRate: 30/min"
    text += ", perUser: {jobs: 500, cpus: 2000}, pollFloor: 1m}"
    amounts = {name: limit.amount for name, limit in limits(text).items()}
    assert amounts == {
        "cpus": 4,
        "memory": 1024 * MIB,
        "walltime": 3600,
        "queued": 9,
        "running": 8,
        "arraySize": 7,
        "submitRate": 0.5,
        "perUser.jobs": 500,
        "perUser.cpus": 2000,
        "pollFloor": 60,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{cpu: 4}", "unknown limit 'cpu'"),
        ("{cpus: 0}", "'limits.cpus' must be a whole number of at least 1"),
        ("{memory: lots}", "'limits.memory' must be an amount"),
        ("{submitRate: often}", "'limits.submitRate' must be a number of submissions"),
        ("[1]", "'limits' must be a map"),
        ("{perUser: {memory: 1}}", "unknown limit 'perUser.memory'"),
        ("{perUser: {jobs: 0}}", "'limits.perUser.jobs' must be a whole number of at least 1"),
        ("{perUser: 3}", "'limits.perUser' must be a map, not '3'"),
    ],
)
def test_invalid_limit_is_reported(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        limits(text)


def test_a_user_lowers_a_limit_over_all_runs_and_cannot_raise_it() -> None:
    held, notes = lower_limits(
        limits("{perUser: {jobs: 5, cpus: 9}}"), limits("{perUser: {jobs: 3, cpus: 99}}", "run.yaml"), "campus"
    )
    assert user_maximums(held, "a site") == {"a_site.perUser.jobs": 3, "a_site.perUser.cpus": 9}
    assert len(notes) == 1
    assert "'limits.perUser.cpus' is 99 (run.yaml:" in notes[0]


@pytest.mark.parametrize(
    ("value", "rate"),
    [(10, 10.0), ("10/s", 10.0), ("10/1sec", 10.0), ("30/min", 0.5), ("1 / 5 sec", 0.2), ("36/h", 0.01), (0.5, 0.5)],
)
def test_rate_is_parsed_per_second(value: YamlValue, rate: float) -> None:
    assert parse_rate(value, "limits.submitRate") == pytest.approx(rate)


@pytest.mark.parametrize("value", ["0/s", "5/0s", True, "s/5", ""])
def test_invalid_rate_is_refused(value: YamlValue) -> None:
    with pytest.raises(ConfigError):
        parse_rate(value, "limits.submitRate")


def test_users_lower_and_never_raise() -> None:
    ceilings = limits("{cpus: 4, running: 100, pollFloor: 60, queued: 5}")
    held, notes = lower_limits(
        ceilings, limits("{cpus: 8, running: 10, pollFloor: 5, arraySize: 3}", "mine.yaml"), "campus"
    )
    assert {name: limit.amount for name, limit in held.items()} == {
        "cpus": 4,
        "running": 10,
        "pollFloor": 60,
        "queued": 5,
        "arraySize": 3,
    }
    assert len(notes) == 2
    assert notes[0].startswith("'limits.cpus' is 8 (mine.yaml:1:8), above the 4 of the site 'campus' (site.yaml:1:8)")
    assert "'limits.pollFloor' is 5" in notes[1]
    assert "below the 60" in notes[1]


def test_executor_limits_hold_the_limits_of_a_run() -> None:
    said = executor_limits(limits("{cpus: 4, queued: 9, running: 8, arraySize: 7, submitRate: 30/min, pollFloor: 1m}"))
    assert msgspec.convert(said, ExecutorLimits) == ExecutorLimits(
        max_batch=7, submit_per_s=0.5, poll_floor_s=60.0, max_waiting=9, max_active=8
    )


def test_user_may_raise_the_poll_floor() -> None:
    held, notes = lower_limits(limits("pollFloor: 60"), limits("pollFloor: 90"), "campus")
    assert held["pollFloor"].amount == 90
    assert not notes


REQUEST = Request(cpus=8, memory_b=4096 * MIB, walltime_s=7200.0)


def test_only_default_requests_are_lowered() -> None:
    settings = JobSettings(label="a", request=REQUEST)
    held, notes = lower_to_limits(settings, limits("{cpus: 4, memory: 2 GiB, walltime: 1h}"), ["requestCpus"], "campus")
    assert held.request == Request(cpus=4, memory_b=4096 * MIB, walltime_s=7200.0)
    assert notes == ["'requestCpus' is 8 by default; lowered to 4, the 'limits.cpus' of the site 'campus'"]
    assert [name for name, *_ in exceeded_limits(held.request, limits("{cpus: 4, memory: 2 GiB, walltime: 1h}"))] == [
        "memory",
        "walltime",
    ]


def test_request_within_the_limits_is_unchanged() -> None:
    settings = JobSettings(label="a", request=REQUEST)
    assert lower_to_limits(
        settings, limits("{cpus: 8, memory: 4 GiB}"), ["requestCpus", "requestMemory"], "campus"
    ) == (
        settings,
        [],
    )
    assert not list(exceeded_limits(REQUEST, {}))


def test_memory_never_grows_beyond_its_ceiling() -> None:
    growing = JobSettings(label="a", attributes={"memoryMultiplier": 2.0})
    held, notes = lower_to_limits(growing, limits("memory: 8 GiB"), [], "campus")
    assert held.attributes["requestMemoryMax"] == 8192 * MIB
    assert not notes
    asked = JobSettings(label="a", attributes={"memoryMultiplier": 2.0, "requestMemoryMax": 16384 * MIB})
    held, notes = lower_to_limits(asked, limits("memory: 8 GiB"), [], "campus")
    assert held.attributes["requestMemoryMax"] == 8192 * MIB
    assert notes == ["'requestMemoryMax' is 16384 MiB; lowered to 8 GiB, the 'limits.memory' of the site 'campus'"]


@pytest.mark.parametrize(("asked", "most"), [(None, 3600.0), (1800.0, 1800.0), (7200.0, 3600.0)])
def test_time_never_grows_beyond_its_ceiling(asked: float | None, most: float) -> None:
    growing = JobSettings(label="a", rules=JobRules(growth=RequestGrowth(walltime=2.0, walltime_most_s=asked)))
    held, notes = lower_to_limits(growing, limits("walltime: 1h"), [], "campus")
    assert held.rules.growth == RequestGrowth(walltime=2.0, walltime_most_s=most)
    assert not notes
    fixed = JobSettings(label="a")
    assert lower_to_limits(fixed, limits("walltime: 1h"), [], "campus")[0] is fixed


def test_all_memory_of_a_node_exceeds_no_ceiling_of_its_size() -> None:
    asked = Request(memory_b=WHOLE_NODE_B)
    assert [*exceeded_ceilings(asked, {"memory": float(WHOLE_NODE_B)})] == []
    (told,) = exceeded_ceilings(asked, {"memory": 4096.0 * MIB})
    assert "all memory of a node" in told
