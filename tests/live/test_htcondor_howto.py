"""The commands of the how-to page on HTCondor work on a real pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until
from tests.pages import DOC, program, type_page

pytestmark = pytest.mark.live


def test_commands_of_the_page_work(condor_site: CondorSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path)}:{condor_site.pool.path}")

    def adapt(text: str) -> str:
        if "restart" in text:
            until(lambda: not condor_site.pool.queue("ClusterId"), "the cancelled run is gone")
        return text

    assert type_page(DOC / "how-to" / "use-htcondor.md", "condor", tmp_path, adapt) == 5
