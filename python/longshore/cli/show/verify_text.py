"""Text of ``longshore verify``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.app.verify.verify import VerifyResult

_HOW = {"sha256": "SHA-256 in its manifest", "checksum": "checksum", "form": "form only"}


def verify_text(result: VerifyResult, *, lists: bool) -> str:
    """Return the findings about a run; `lists` adds the checked and unchecked files."""
    return "\n".join(_lines(result, lists=lists))


def _lines(result: VerifyResult, *, lists: bool) -> Iterator[str]:
    if lists:
        for name, check in sorted(result.covered.items()):
            yield f"checked      {name}: {_HOW[check]}"
        for name, why in result.not_covered.items():
            yield f"not checked  {name}: {why}"
    closed = [damage for damage in result.damages if result.is_closed(damage)]
    for damage in result.damages:
        yield f"{'not readable' if damage in closed else 'damaged     '} {damage}"
    for note in result.notes:
        yield f"note         {note}"
    run = result.opened
    files = f"{count_noun(len(result.covered), 'file')} and {count_noun(sum(result.events.values()), 'event')}"
    if result.is_intact:
        yield f"intact       run '{run.card.id}': {files}"
        return
    number = len(result.damages) - len(closed)
    if closed:
        yield f"run '{run.card.id}': {len(closed)} of {count_noun(len(result.covered), 'file')} cannot be read by you"
        yield "Their owner can check them: longshore verify " + str(run.run.root)
    if number:
        yield f"run '{run.card.id}' has {number} damaged {'place' if number == 1 else 'places'}; {files} were checked"
        yield f"Bring the files back from a backup or a copy of the run '{run.run.root}'."
