"""Ids of runs on HTCondor."""

from __future__ import annotations

import pytest

from longshore.services.htcondor.schedd.client import CondorId, format_id, parse_id, quoted, version_number


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12", CondorId(cluster=12)),
        ("12.0", CondorId(cluster=12)),
        ("ap.example.org#12.0#1763630000", CondorId(cluster=12, schedd="ap.example.org", qdate=1763630000)),
        ("k7f3a", None),
        ("12.", None),
        ("@last", None),
        ("", None),
    ],
)
def test_ids(text: str, meant: CondorId | None) -> None:
    assert parse_id(text) == meant


def test_an_id_is_shown_as_bps_does() -> None:
    assert format_id(12) == "12.0"


def test_versions_and_literals() -> None:
    assert version_number("$CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $") == "25.14.1"
    assert version_number("odd") == "odd"
    assert quoted('a "b" \\c') == '"a \\"b\\" \\\\c"'
