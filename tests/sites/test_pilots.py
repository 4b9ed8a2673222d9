"""The map ``pilot``: amounts with units, and refusals that name the key and the place."""

from __future__ import annotations

import pytest

from longshore.config.yaml_text import parse_yaml
from longshore.errors import ConfigError
from longshore.model.workflow import MIB
from longshore.sites.pilots import read_pilot


def pilot(text: str) -> dict[str, float]:
    return read_pilot(parse_yaml(text, "site.yaml"))


def test_every_key_is_read() -> None:
    text = "{cpus: 8, memory: 16 GiB, walltime: '2:00:00', count: 3, nodes: 2, idle: 5m, shortJob: 10, lease: 90}"
    assert pilot(text) == {
        "cpus": 8,
        "memory_b": 16 * 1024 * MIB,
        "walltime_s": 7200.0,
        "count": 3,
        "nodes": 2,
        "idle_s": 300.0,
        "short_job_s": 10.0,
        "lease_s": 90.0,
    }


@pytest.mark.parametrize("text", ["{}", "null", "{cpus: null}"])
def test_nothing_is_written(text: str) -> None:
    assert pilot(text) == {}


def test_there_may_be_no_map() -> None:
    assert read_pilot(None) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4", "'pilot' must be a map, not '4'"),
        ("{cpu: 4}", "'pilot' has no key 'cpu'"),
        ("{cpus: 0}", "'pilot.cpus' must be a whole number of at least 1"),
        ("{count: 0}", "'pilot.count' must be a whole number of at least 1"),
        ("{nodes: none}", "'pilot.nodes' must be"),
        ("{memory: much}", "'pilot.memory' must be"),
        ("{walltime: 59}", "'pilot.walltime' must be at least 60 s, not '59'"),
        ("{idle: 0}", "'pilot.idle' must be"),
        ("{lease: 29}", "'pilot.lease' must be at least 30 s, not '29'"),
    ],
)
def test_other_values_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pilot(text)
    assert caught.value.message.startswith(message)
    assert caught.value.origin is not None
    assert caught.value.origin.file == "site.yaml"
