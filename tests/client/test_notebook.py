"""The notebook of the examples runs as it is, and a cell that shows a run is updated while later cells run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from longshore.client.notebook import Cell, show_live
from longshore.errors import RunUnreadableError

NOTEBOOK = Path(__file__).resolve().parents[2] / "doc" / "examples" / "notebook" / "study.ipynb"


@pytest.mark.full
@pytest.mark.filterwarnings("default")
def test_the_notebook_of_the_examples_runs(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(shutil.copy(NOTEBOOK, tmp_path), 4)
    client = nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    frames = [str(output.data["text/html"]) for output in outputs if "text/html" in output.get("data", {})]
    live = [frame for frame in frames if "srcdoc=" in frame]
    assert len(live) >= 2
    assert "RUNNING" in live[0]
    assert any("JobState.SUCCEEDED" in str(output.get("data", {}).get("text/plain")) for output in outputs)
    assert (tmp_path / "all.jsonl").exists()


class Display:
    """Stands for IPython's display: keeps the HTML that a cell shows, and updates of it."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, cell: Cell, *, display_id: bool) -> Display:
        assert display_id
        self.update(cell)
        return self

    def update(self, cell: Cell) -> None:
        self.shown.append(cell._repr_html_())


def test_a_cell_tells_of_an_error_and_shows_the_run_again_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    display = Display()
    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    module.display = display.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    pages: Iterator[str | Exception] = iter(["first", RunUnreadableError("'<run>' is away"), "again"])

    def render() -> str:
        page = next(pages)
        if isinstance(page, Exception):
            raise page
        return page

    ends = iter([False, True])
    show_live(render, lambda: next(ends), pause_s=0.0).join(60)
    first, error, again = display.shown
    assert 'srcdoc="first"' in first
    assert error == "<p>The run cannot be shown: &#x27;&lt;run&gt;&#x27; is away</p>"
    assert 'srcdoc="again"' in again
