"""The environment in which the real BPS is installed, beside the one that runs the tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_GIVEN: Final = os.environ.get("LONGSHORE_TEST_BPS")
"""Path of the environment, from ``bin/test``; read here, since tests lose variables of this kind."""

_NEAR: Final = Path(__file__).resolve().parents[1] / ".venv-bps"

_NOWHERE: Final = "http://127.0.0.1:9"
"""An address at which nothing listens: the client of PanDA resolves one when it is imported."""


@dataclass(frozen=True, kw_only=True)
class BpsEnvironment:
    """A virtual environment with ``bps``, its plug-ins, ``pipetask`` and ``butler``, and this checkout."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def variables(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return variables for a process of this environment, those of the caller last."""
        folder = str(self.folder)
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]]),
            # Where BPS's defaults look for the programs `pipetask` and `butler`, in `bin`.
            "CTRL_MPEXEC_DIR": folder,
            "DAF_BUTLER_DIR": folder,
            "PANDACACHE_URL": _NOWHERE,
            "PANDA_URL": _NOWHERE,
            "PANDA_URL_SSL": _NOWHERE,
            **(given or {}),
        }


def is_required() -> bool:
    """Whether a missing environment is a failure."""
    return bool(_GIVEN)


def find_environment() -> BpsEnvironment | None:
    """Return the environment that ``bin/test`` made, or one in this checkout."""
    folder = Path(_GIVEN) if _GIVEN else _NEAR
    return BpsEnvironment(folder=folder) if (folder / "bin" / "bps").is_file() else None
