"""A link whose site does not answer is not known, and not dead."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "report-links.py"
GOOD = {"filename": "index.md", "lineno": 1, "status": "working", "uri": "https://a.org/x", "info": ""}
GONE = {**GOOD, "uri": "https://b.org/x", "status": "broken", "info": "404 Client Error: Not Found for url: ..."}
SILENT = {**GOOD, "uri": "https://c.org/x", "status": "broken", "info": "HTTPSConnectionPool(...)"}
LATE = {**SILENT, "status": "timeout"}
FAILING = {**SILENT, "info": "503 Server Error: Service Unavailable"}


@pytest.mark.parametrize(
    ("records", "status", "last"),
    [
        ([GOOD], 0, "all links to other sites lead somewhere: 1"),
        ([GOOD, GONE], 1, "links to other sites that lead nowhere: 1 of 2"),
        ([GOOD, SILENT], 3, "links to other sites that are not known: 1 of 2; no answer of c.org"),
        ([GOOD, FAILING], 3, "links to other sites that are not known: 1 of 2; no answer of c.org"),
        ([LATE], 3, "links to other sites that are not known: 1 of 1; no site answers: is there a network?"),
    ],
)
def test_links_are_dead_or_not_known(records: list[dict[str, object]], status: int, last: str, tmp_path: Path) -> None:
    file = tmp_path / "output.json"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    done = subprocess.run([sys.executable, PROGRAM, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, last)
