"""Takes the pictures of the how-to page on browsers, of the run that the page describes.

Usage: python -m tests.pictures

It needs Chromium, and writes ``doc/how-to/pictures/``. The pictures are taken anew when the pages look different.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser import Page, open_browser
from tests.pages import fences

from longshore.app.dashboard.pages import DashboardPages

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "doc" / "how-to" / "look-at-runs-in-a-browser.md"
PICTURES = PAGE.parent / "pictures"
WIDTH = 1200
BOXES = {
    "page-top": "[0, 0, innerWidth, document.querySelector('#change').getBoundingClientRect().bottom + 16]",
    "page-charts": (
        "(() => { const at = (id) => document.querySelector(id).getBoundingClientRect();"
        "return [0, at('#graph').top + scrollY - 12, innerWidth, at('#timeline').bottom - at('#graph').top + 24]; })()"
    ),
}
"""Part of the page per picture, as x, y, width and height."""


GOOD = """
payload: {payloadName: flats}
pipeline: {dimensions: {night: {range: [1, 40]}}, tasks: {combine: {dimensions: [night], command: "true"}}}
"""


def write_report(folder: Path) -> Path:
    """Run the configuration of the how-to page beside one that succeeds, and return the page of the former."""
    (config,) = (fence.text for fence in fences(PAGE) if fence.value == "survey.yaml")
    (folder / "survey.yaml").write_text(config, "utf-8")
    (folder / "flats.yaml").write_text(GOOD, "utf-8")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "USER": "ada", "LOGNAME": "ada"}
    commands = (
        ["submit", "flats.yaml", "--wait"],
        ["submit", "survey.yaml", "--wait"],
        ["report", "@last", "--html", "report.html"],
        ["submit", "flats.yaml"],
    )
    for words in commands:
        subprocess.run([sys.executable, "-m", "longshore", *words], cwd=folder, env=environment, check=False)
    return folder / "report.html"


def take_picture(page: Page, box: list[float], path: Path) -> None:
    """Write a part of a page as a picture."""
    clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
    answer = page.send("Page.captureScreenshot", format="webp", quality=70, clip=clip, captureBeyondViewport=True)
    path.write_bytes(base64.b64decode(answer["data"]))


def main() -> None:
    """Take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, open_browser(Path(name) / "profile") as browser:
        folder = Path(name) / "survey"
        folder.mkdir()
        page = browser.new_page()
        page.resize(WIDTH, 900)
        page.open(write_report(folder).as_uri())
        for picture, box in BOXES.items():
            take_picture(page, page.run(box), PICTURES / f"{picture}.webp")
        page.resize(WIDTH, 900, dark=True)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        (folder / "runs.html").write_bytes(DashboardPages().page("").body)
        page.open((folder / "runs.html").as_uri())
        take_picture(page, page.run("[0, 0, innerWidth, 390]"), PICTURES / "dashboard.webp")


if __name__ == "__main__":
    main()
