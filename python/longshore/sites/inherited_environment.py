"""Selects the environment variables that jobs inherit; apart because engines need it, and nothing else of sites.

Names decide; values are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

InheritRule: TypeAlias = "str | Sequence[str]"
"""``all``, ``none``, or patterns of names."""

_LOGIN: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TZ", "USER"})
"""Variables of any login shell: most programs need them."""

_SCHEDULERS: Final = re.compile(
    r"(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|PBS|SGE|LSB|LSF|OAR|COBALT|FLUX|PMI|PMIX|_CONDOR)_"
    r"|LS_(JOBPID|SUBCWD)$|JOB_(ID|NAME|SCRIPT)$|PE_HOSTFILE$|NSLOTS$|NHOSTS$|NQUEUES$"
)
"""Names that schedulers set in a job: they would misinform the next job."""

_SECRETS: Final = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEYS?(?![A-Z])|(PRIVATE|ACCESS|ENCRYPTION)_?KEY|TOKENS?(?![A-Z])"
)
_PATH_SUFFIXES: Final = re.compile(r"_(FILE|PATH|DIR)S?$")
"""Endings of names whose value is the path of a secret, not the secret."""


def is_excluded(name: str) -> bool:
    """Whether a name looks like a secret, or belongs to a scheduler."""
    return bool(_SCHEDULERS.match(name.upper())) or is_secret(name)


def is_of_scheduler(name: str) -> bool:
    """Whether a variable belongs to a scheduler, by its name."""
    return bool(_SCHEDULERS.match(name))


def is_secret(name: str) -> bool:
    """Whether a name looks like a secret."""
    name = name.upper()
    return bool(_SECRETS.search(name) and not _PATH_SUFFIXES.search(name))


def select_inherited(names: Iterable[str], rule: InheritRule) -> tuple[set[str], list[str]]:
    """Names of variables that jobs inherit, and names that match the rule but are excluded.

    Secrets and variables of schedulers are excluded, unless a pattern itself looks like one (``GITHUB_TOKEN``,
    ``SLURM_*``).
    """
    if rule == "none":
        return {name for name in names if name in _LOGIN}, []
    patterns = ("*",) if rule == "all" else (rule,) if isinstance(rule, str) else tuple(rule)
    meant = tuple(pattern for pattern in patterns if is_excluded(pattern))
    kept: set[str] = set()
    left_out: list[str] = []
    for name in sorted(names):
        if not _matches(name, patterns):
            continue
        if is_excluded(name) and not _matches(name, meant):
            left_out.append(name)
        else:
            kept.add(name)
    return kept, left_out


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(pattern == "*" or fnmatchcase(name, pattern) for pattern in patterns)
