"""The notebook of the examples runs as it is, and a cell that shows a run is updated while later cells run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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
