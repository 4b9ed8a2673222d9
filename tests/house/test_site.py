"""The documentation as a site: it builds without a warning, and has every page."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[2]
needs_sphinx = pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None and os.environ.get("LONGSHORE_LSST") != "required",
    reason="the extra `docs` is not installed",
)


def text_of(svg: Path) -> str:
    """All texts of a picture."""
    return "".join(ET.parse(svg).getroot().itertext())  # noqa: S314 - our own file


@pytest.mark.full
@needs_sphinx
def test_the_site_builds_without_a_warning_and_has_every_page(tmp_path: Path) -> None:
    target = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-d", str(tmp_path / "trees")]
    built = subprocess.run([*command, ROOT / "doc", target], capture_output=True, text=True, timeout=280, check=False)
    assert built.returncode == 0, built.stderr
    pages = {path.relative_to(ROOT / "doc").with_suffix(".html") for path in (ROOT / "doc").rglob("*.md")}
    assert not {page for page in pages if not (target / page).exists()}
    notebook = (target / "examples" / "notebook" / "study.html").read_text("utf-8")
    assert "JobState.SUCCEEDED" in notebook, "the notebook was run"
    assert "srcdoc=" in notebook, "a cell shows the run"
    recordings = target / "_static" / "recordings"
    assert "17 of 17 jobs succeeded" in text_of(recordings / "run.svg"), "the run of the first page"
    assert "akw: not found" in text_of(recordings / "failure.svg")
    for page in ("index.html", "how-to/look-at-runs-in-a-browser.html"):
        shown = re.findall(r'src="([^"]*/recordings/[^"]*)"', (target / page).read_text("utf-8"))
        assert shown
        assert not [address for address in shown if not (target / page).parent.joinpath(address).exists()]
    first = (target / "tutorial" / "first-run.html").read_text("utf-8")
    assert re.search(r"caption-text.{0,40}tea\.yaml", first), "a block shows the name of its file"
    interface = (target / "reference" / "python.html").read_text("utf-8")
    assert "restart" in interface
    assert "Longest wait in seconds" in interface
