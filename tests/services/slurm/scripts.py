"""Makes scripts of batches for tests, and reads them as ``sbatch`` does."""

from __future__ import annotations

from functools import partial

from tests.services.scripts import render_script

from longshore.services.batch.jobs import ClusterFacts
from longshore.services.slurm.service import SlurmService

script = partial(render_script, SlurmService, facts=ClusterFacts(licences=("lic_a",)))
"""The script of a batch on Slurm, which has one licence."""


def directives(text: str) -> list[str]:
    """The options of a script as sbatch(1) reads its lines: blanks part words, quotes and backslashes keep them."""
    words = []
    for line in text.split("\n"):
        if not line.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            words += _words(line.removeprefix("#SBATCH"))
    return words


def _words(line: str) -> list[str]:
    """Words of a line; a sign behind a backslash is itself, also in quotes; ``#`` outside of them begins a comment."""
    found: list[str] = []
    word: str | None = None
    quote = ""
    signs = iter(line)
    for sign in signs:
        if sign == "\\":
            word = (word or "") + next(signs, "")
        elif quote and sign == quote:
            quote = ""
        elif not quote and sign in "\"'":
            word, quote = word or "", sign
        elif not quote and sign == "#":
            break
        elif not quote and sign in " \t":
            found += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + sign
    return found if word is None else [*found, word]
