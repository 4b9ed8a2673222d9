"""Places for runs whose disk need not be waited for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def in_memory() -> Path:
    """Return a new folder, in memory where that is possible."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="longshore-faults-", dir=memory if os.access(memory, os.W_OK) else None))
