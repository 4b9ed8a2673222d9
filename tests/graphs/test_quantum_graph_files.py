"""Without LSST's packages a quantum graph is refused with the name of the extra that brings them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import sys
from pathlib import Path

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"lsst", "zstandard"}:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Missing())
from importlib import metadata
def absent(name):
    raise metadata.PackageNotFoundError(name)
metadata.version = absent
from longshore.errors import PreparationError
from longshore.graphs.quantum_graph import read_quantum_graph
try:
    read_quantum_graph(Path(sys.argv[1]))
except PreparationError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["g.qg", "g.qgraph"])
def test_the_extra_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04")
    done = subprocess.run([sys.executable, "-c", PROBE, path], capture_output=True, text=True, check=False)
    message, hint = done.stdout.splitlines()
    assert message == f"'{path}' cannot be read: that needs LSST's package 'lsst-pipe-base', which is not installed"
    assert hint.startswith("Install it with: pip install 'longshore[lsst]'")
