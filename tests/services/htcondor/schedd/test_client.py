"""Commands to DAGMan are refused on other hosts than that of its schedd."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from longshore.errors import SubmissionRefusedError
from longshore.services.htcondor.schedd.client import CondorClient


class _DAGMan:
    """It takes every order."""

    asked: list[int]

    def __init__(self, cluster: int) -> None:
        self.asked.append(cluster)

    def halt(self, _why: str, *, pause: bool) -> tuple[bool, str]:
        return pause, ""

    def throttle(self, *, max_nodes: int) -> int:
        return max_nodes


def _bindings(monkeypatch: pytest.MonkeyPatch, *, here: str) -> list[int]:
    """Bindings that know the schedd of this host and 'AP2.pool.test'; they say which DAGMans were asked for."""
    monkeypatch.setenv("CONDOR_CONFIG", "/dev/null")
    known = {"ap2": {"Name": "AP2.pool.test"}, "": {"Name": here} if here else None}
    asked: list[int] = []
    htcondor = SimpleNamespace(
        version=lambda: "$CondorVersion: 25.14.1 2026-01-01 $",
        reload_config=lambda: None,
        param={},
        Collector=lambda: SimpleNamespace(locate=lambda _kind, name="": known[name]),
        DaemonType=SimpleNamespace(Schedd="schedd"),
        DAGMan=type("DAGMan", (_DAGMan,), {"asked": asked}),
    )
    monkeypatch.setitem(sys.modules, "htcondor2", htcondor)
    return asked


@pytest.mark.parametrize(("here", "words"), [("ap1.pool.test", "the schedd 'ap1.pool.test'"), ("", "no schedd")])
def test_a_dagman_of_another_schedd_is_not_mistaken_for_one_of_this_host(
    monkeypatch: pytest.MonkeyPatch, here: str, words: str
) -> None:
    asked = _bindings(monkeypatch, here=here)
    client = CondorClient(schedd="ap2")
    with pytest.raises(SubmissionRefusedError, match=r"only on the host of its schedd, 'AP2\.pool") as caught:
        client.pause_dag(12, halt="why")
    assert words in caught.value.hint
    with pytest.raises(SubmissionRefusedError, match=r"only on the host of its schedd"):
        client.throttle_dag(12, 3)
    assert asked == []


@pytest.mark.parametrize(("schedd", "here"), [("", "ap1.pool.test"), ("", ""), ("ap2", "ap2.pool.test")])
def test_a_dagman_of_this_host_accepts_commands(monkeypatch: pytest.MonkeyPatch, schedd: str, here: str) -> None:
    asked = _bindings(monkeypatch, here=here)
    client = CondorClient(schedd=schedd)
    client.pause_dag(12, halt="why")
    client.throttle_dag(12, 3)
    assert asked == [12, 12]
