"""A folder in which permissions count."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of its own for a user to whom permissions mean something."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    root = os.getuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    shutil.rmtree(folder)
