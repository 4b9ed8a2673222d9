"""What the page about Slurm says to type works on a real cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.pools import SlurmPool

pytestmark = pytest.mark.live

PAGE = Path(__file__).resolve().parents[2] / "doc" / "how-to" / "use-slurm.md"
_FENCE = re.compile(r"^```(\w+) slurm=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_the_page_says_to_type_works(
    slurm_pool: SlurmPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "longshore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m longshore "$@"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    (tmp_path / "sites").mkdir()
    typed = 0
    for kind, name, text in _FENCE.findall(PAGE.read_text("utf-8")):
        if kind == "yaml":
            (tmp_path / name).write_text(text, "utf-8")
            continue
        typed += 1
        # Two runs may not begin within one second: they would have one directory.
        script = text.replace("\nlongshore submit", "\nsleep 1; longshore submit")
        done = subprocess.run(
            ["/bin/sh", "-ec", f"sleep 1; {script}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert typed == 6
