"""Turns what a configuration says to HTCondor in its own words into typed settings, and refuses what is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from longshore.contract.context import Context
from longshore.model.job import JobSettings

LINES: Final = "directives"
"""Key of raw lines, as gathered."""
_LOGIN: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TZ", "USER")
_NEVER: Final = (
    "_CONDOR_*",
    "SLURM_*",
    "SBATCH_*",
    "PBS_*",
    "SGE_*",
    "LSB_*",
    "*SECRET*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*CREDENTIAL*",
    "*API_KEY*",
    "*PRIVATE_KEY*",
    "*ACCESS_KEY*",
    "*ENCRYPTION_KEY*",
    "*TOKEN*",
)
"""Names that nobody inherits without naming them: a scheduler's own, and those that look like secrets."""


class JobWords(msgspec.Struct, frozen=True, kw_only=True):
    """What the jobs of a profile say to HTCondor in its own words.

    Attributes
    ----------
    overwrite
        Whether attempts share one log.
    release
        When a held job is let go on at once.
    lines
        Lines of the submit description, behind ours.
    """

    overwrite: bool = False
    release: str = ""
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: JobSettings) -> JobWords:
        """Read them."""
        own = settings.own
        return cls(
            overwrite=bool(own.get("overwriteJobFiles", False)),
            release=str(own.get("releaseExpr") or ""),
            lines=tuple(map(str, own.get(LINES) or ())),
        )


def getenv(ctx: Context) -> str:
    """Names of the variables that jobs inherit from DAGMan, and it from whoever submits; values are never written."""
    rule: Any = (ctx.settings.get("executor") or {}).get("inherit", "all")
    if rule == "none":
        return ", ".join(_LOGIN)
    if rule == "all":
        return ", ".join((*(f"!{pattern}" for pattern in _NEVER), "*"))
    patterns = [rule] if isinstance(rule, str) else list(rule)
    return ", ".join(map(str, patterns))


def is_given(values: Mapping[str, Any], name: str) -> bool:
    """Whether a name has a value."""
    return values.get(name) not in (None, "")
