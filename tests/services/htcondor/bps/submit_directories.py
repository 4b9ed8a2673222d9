"""Copies of submit directories that the real BPS made."""

from __future__ import annotations

import shutil
from pathlib import Path

DATA = Path(__file__).resolve().parents[3] / "data" / "bps_submit"
CALIB = "01a214e4-5386-713a-a264-3f6f7f50ca53_calib_1_1"
"""The job that fails, where one does."""
COADD = "01a214e4-538b-73b1-a5e0-0130022823c5_coadd_0_1_r_"
"""The job that needs its result."""


def copied(name: str, folder: Path) -> Path:
    """Copy a submit directory into a folder."""
    return Path(shutil.copytree(DATA / name, folder / name))
