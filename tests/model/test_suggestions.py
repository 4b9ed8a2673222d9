"""What a user may have meant."""

from __future__ import annotations

from longshore.model.wording import did_you_mean, nearest


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("requestMemroy", ["requestMemory", "requestCpus"]) == "requestMemory"
    assert nearest("REQUESTCPUS", ["requestMemory", "requestCpus"]) == "requestCpus", "capitals do not count"
    assert did_you_mean("requestMemroy", ["requestMemory"]) == "Did you mean 'requestMemory'?"


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert nearest("x", ["requestMemory"]) is None
    assert did_you_mean("x", ["requestMemory"]) == ""
    assert did_you_mean("x", []) == ""
    assert did_you_mean("memory", ["memoryMax"], likeness=0.9) == ""
