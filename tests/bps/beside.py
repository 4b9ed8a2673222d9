"""The real BPS and Longshore beside each other: both make documents of one case, in folders of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.bps import our_documents
from tests.bps_environment import BpsEnvironment

from longshore.system.host import timestamp

Document = dict[str, Any]

NOW: Final = 1_760_000_000.0
"""Time of all runs."""

_SERVER: Final = Path(__file__).with_name("real_bps.py")
_PIPETASK: Final = """\
#!/bin/sh
# Stands in for the commands that make or update a graph: copies one that exists.
while [ "$#" -gt 0 ]; do
    case $1 in
        update-graph-run) cp "$2" "$4"; exit ;;
        --save-qgraph) cp "$GIVEN_GRAPH" "$2"; exit ;;
    esac
    shift
done
exit 3
"""


class RealBps:
    """A process with the real BPS that answers requests."""

    def __init__(self, environment: BpsEnvironment, log: Path) -> None:
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [environment.python, _SERVER],
                env=environment.variables(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._log = log

    def ask(self, do: str, **request: Any) -> Any:
        """Return the answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": do, "timestamp": timestamp(NOW), **request}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, self._log.read_text("utf-8")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Beside:
    """Runs cases through both."""

    def __init__(self, bps: RealBps, root: Path, graphs: Path) -> None:
        self._bps = bps
        self._root = root
        self._graphs = graphs
        self._numbers = count()
        program = root / "stand-in" / "bin" / "pipetask"
        program.parent.mkdir(parents=True)
        program.write_text(_PIPETASK, "utf-8")
        program.chmod(0o755)

    def graph(self, name: str, tasks: Sequence[Mapping[str, Any]]) -> Path:
        """Return a quantum graph of mocked tasks, made on first use."""
        path = self._graphs / f"{name}.qg"
        if not path.exists():
            draft = self._root / f"{name}.qg"
            made = self._bps.ask("graph", tasks=tasks, path=str(draft))
            assert "error" not in made, made
            # Other processes have the same folder.
            draft.rename(path)
        return path

    def transform(self, files: Mapping[str, str], graph: Path) -> tuple[Document, Document]:
        """Return the documents of BPS and of Longshore for ``run.yaml`` among some files."""
        theirs, ours = self._folders(files, graph)
        bps = self._bps.ask("transform", config="run.yaml", folder=str(theirs), env=self._variables(graph))
        with self._inside(ours, graph):
            longshore = our_documents.transform(Path("run.yaml"), now=NOW)
        return self._read(bps, theirs), self._read(longshore, ours)

    def search(self, files: Mapping[str, str], searches: list[Document], graph: Path) -> tuple[Any, Any]:
        """Return what both find, per search."""
        theirs, ours = self._folders(files, graph)
        bps = self._bps.ask(
            "search", config="run.yaml", folder=str(theirs), env=self._variables(graph), searches=searches
        )
        with self._inside(ours, graph):
            longshore = our_documents.search(Path("run.yaml"), searches, now=NOW)
        return self._read(bps, theirs), self._read(longshore, ours)

    def _folders(self, files: Mapping[str, str], graph: Path) -> tuple[Path, Path]:
        number = next(self._numbers)
        folders = self._root / f"bps-{number}", self._root / f"our-{number}"
        for folder in folders:
            folder.mkdir()
            shutil.copy(graph, folder / "given.qg")
            for name, text in files.items():
                (folder / name).write_text(text, "utf-8")
        return folders

    def _variables(self, graph: Path) -> dict[str, str]:
        stand_in = str(self._root / "stand-in")
        home = str(self._root / "home")
        return {
            "CTRL_MPEXEC_DIR": stand_in,
            "DAF_BUTLER_DIR": stand_in,
            "GIVEN_GRAPH": str(graph),
            "HOME": home,
            "SOME_VARIABLE": "of the submit host",
        }

    @contextmanager
    def _inside(self, folder: Path, graph: Path) -> Iterator[None]:
        before, where = dict(os.environ), Path.cwd()
        os.chdir(folder)
        os.environ.update({**self._variables(graph), "PWD": str(folder)})
        try:
            yield
        finally:
            os.chdir(where)
            os.environ.clear()
            os.environ.update(before)

    def _read(self, document: Any, folder: Path) -> Any:
        """Return a document as JSON has it, with its folder under one name."""
        text = json.dumps(document, default=str).replace(str(folder), "/folder")
        shutil.rmtree(folder)
        return json.loads(text)
