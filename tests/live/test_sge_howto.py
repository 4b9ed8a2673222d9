"""What the page about Grid Engine says to type works on a real cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.live.sge_pools import PROGRAMS, SgePool
from tests.pages import DOC, program, type_page

pytestmark = pytest.mark.live


def test_what_the_page_says_to_type_works(sge_pool: SgePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path)}:{Path(sys.executable).parent}:/usr/bin:/bin")

    def adapt(text: str) -> str:
        # The cluster of the page is elsewhere.
        profile = tmp_path / "sites" / "cluster.yaml"
        there = profile.read_text("utf-8").replace("/opt/sge/bin/lx-amd64", str(PROGRAMS))
        profile.write_text(there.replace("/opt/sge", str(sge_pool.root)), "utf-8")
        # Two runs may not begin within one second: they would have one directory.
        return text.replace("longshore submit", "sleep 1; longshore submit")

    assert type_page(DOC / "how-to" / "use-grid-engine.md", "sge", tmp_path, adapt) == 3
