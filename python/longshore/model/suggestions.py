"""Suggests the nearest known name for an unknown one ("did you mean")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NAME_LIKENESS: Final = 0.6
"""Likeness for names that users choose, such as those of jobs, which are often short."""

_OWN_WORDS: Final = {
    own: words.split()
    for own, words in {
        "numberOfRetries": "retries retry max_retries maxretries",
        "requestMemory": "memory mem ram mem_mb",
        "requestCpus": "cpus cpu cores ncpus threads cpus_per_task",
        "requestDisk": "disk disk_mb",
        "requestWalltime": "time walltime timeout runtime time_limit",
        "queue": "partition",
        "accountingGroup": "project",
        "environment": "env",
        "workingDirectory": "workdir working_directory cwd",
        "wmsServiceClass": "backend scheduler executor batch_system",
        "after": "depends depends_on dependencies needs requires",
        "command": "cmd script shell run exec",
        "inputs": "input",
        "outputs": "output",
    }.items()
}
"""Words of other tools per key of Longshore."""


def own_word(word: str) -> str:
    """Return the key of Longshore for another tool's word; empty where there is none."""
    plain = word.lower().replace("-", "_")
    return next((own for own, words in _OWN_WORDS.items() if plain in words), "")


def name_all(names: Iterable[str]) -> str:
    """Return a sentence with all names there are, each in quotes."""
    quoted = [f"'{name}'" for name in names]
    if not quoted:
        return "There are none."
    return f"There is only {quoted[0]}." if len(quoted) == 1 else f"There are {', '.join(quoted)}."


def nearest(word: str, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """Nearest known word, with a likeness from 0 (any) to 1 (equal); ``None`` where no word is near enough."""
    # Imported here: only errors need it, and its import would delay every command.
    from difflib import get_close_matches

    # Wrong capitals are the likeliest mistake, and a small one.
    lowered = {each.lower(): each for each in sorted(known)}
    found = get_close_matches(word.lower(), lowered, n=1, cutoff=likeness)
    return lowered[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], *, likeness: float = 0.7) -> str:
    """Sentence that suggests the nearest known word; empty where no word is near enough."""
    known = list(known)
    found = own_word(word) if own_word(word) in known else nearest(word, known, likeness=likeness)
    return f"Did you mean '{found}'?" if found else ""
