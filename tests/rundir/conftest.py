"""Registered runs for tests of the registry and of references to runs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from longshore.rundir.registry import RegistryEntry, write_entry


class AddRun(Protocol):
    """Creates and registers a run, and returns its directory."""

    def __call__(self, name: str, *, at: float = ..., submitted_from: str = ..., submitted_in: str = ...) -> Path: ...


@pytest.fixture
def add_run(tmp_path: Path) -> AddRun:
    """Create and register runs below ``tmp_path/runs``."""

    def add(name: str, *, at: float = 1_795_166_820.0, submitted_from: str = "", submitted_in: str = "") -> Path:
        root = tmp_path / "runs" / name
        root.mkdir(parents=True)
        entry = RegistryEntry(
            id=name,
            path=str(root),
            name=name,
            service="local",
            created_at=at,
            submitted_from=submitted_from,
            submitted_in=submitted_in,
        )
        assert write_entry(entry)
        return root

    return add
