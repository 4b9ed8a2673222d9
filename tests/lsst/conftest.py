"""Skips or requires the tests that need LSST's packages."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

REQUIRED = os.environ.get("LONGSHORE_LSST", "auto") == "required"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests; skip them where the packages are missing, unless they are required."""
    missing = not REQUIRED and not _installed()
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.lsst)
            if missing:
                item.add_marker(pytest.mark.skip(reason="the extra 'lsst' is not installed"))


def _installed() -> bool:
    try:
        return importlib.util.find_spec("lsst.pipe.base.quantum_graph") is not None
    except ModuleNotFoundError:
        return False
