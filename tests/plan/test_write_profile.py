"""A profile is written from the answers of the workload managers that can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import UnreachableError
from longshore.sites.new_profile import write_profile


def test_a_plug_in_that_cannot_be_imported_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "broken_service-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-service\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[longshore.wms]\nbroken = no_such_module:Broken\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    # No program of a workload manager is there.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "none"))
    with pytest.raises(UnreachableError, match="no workload manager answers on this host") as raised:
        write_profile("here", is_written=False, now=0.0)
    assert "slurm: " in raised.value.message
    assert "broken" not in raised.value.message
