"""Tags of batches: each names the run and the life that submitted it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from longshore.contract.service import RunPaths
from longshore.engine.journal.read_journal import first_life_of_workflow


def tag_prefix(run_token: str, life: int) -> str:
    """Return the prefix of the tags of all batches of a life."""
    return f"{run_token}-{life}"


def life_of_tag(tag: str) -> int | None:
    """Return the life that submitted a batch, by its tag; ``None`` for a tag that no engine made."""
    match tag.rsplit("-", 2):
        case [_, life, _] if life.isdecimal():
            return int(life)
    return None


def tags_of_workflow(run: RunPaths, tags: Iterable[str]) -> Iterator[str]:
    """Yield the tags of batches that name jobs by the numbers of the newest submission.

    Before a submission with another workflow all attempts are over, and their numbers may mean other jobs now.
    """
    first = first_life_of_workflow(run)
    return (tag for tag in tags if (life_of_tag(tag) or 0) >= first)
