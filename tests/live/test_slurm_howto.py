"""What the page about Slurm says to type works on a real cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.live.pools import SlurmPool
from tests.pages import DOC, program, type_page

pytestmark = pytest.mark.live


def adapt(text: str) -> str:
    """Two runs may not begin within one second: they would have one directory."""
    return "sleep 1; " + text.replace("\nlongshore submit", "\nsleep 1; longshore submit")


def test_what_the_page_says_to_type_works(
    slurm_pool: SlurmPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program(tmp_path)}:{Path(sys.executable).parent}:/usr/bin:/bin")
    assert type_page(DOC / "how-to" / "use-slurm.md", "slurm", tmp_path, adapt) == 6
