"""What the page about HTCondor says to type works in a real pool."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until

pytestmark = pytest.mark.live

PAGE = Path(__file__).resolve().parents[2] / "doc" / "how-to" / "use-htcondor.md"
_FENCE = re.compile(r"^```(\w+) condor=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_the_page_says_to_type_works(
    condor_site: CondorSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "longshore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m longshore "$@"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{condor_site.pool.path}")
    typed = 0
    for kind, name, text in _FENCE.findall(PAGE.read_text("utf-8")):
        if kind == "yaml":
            (tmp_path / name).write_text(text, "utf-8")
            continue
        typed += 1
        if "restart" in text:
            until(lambda: not condor_site.pool.queue("ClusterId"), "the cancelled run is gone")
        done = subprocess.run(
            ["/bin/sh", "-ec", text],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert typed == 5
