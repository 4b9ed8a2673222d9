"""Makes scripts of batches for tests, and reads them as ``sbatch`` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshore.contract.batch import Batch, BatchMember
from longshore.contract.context import RunPaths
from longshore.model.workflow.request import Request
from longshore.services.slurm.render.batch_script import batch_script
from longshore.services.slurm.service import SlurmService
from longshore.world.plugins import template_texts

RUN = RunPaths(Path("/data/u/jdoe/run 1"))


def member(job: int, command: str | tuple[str, ...] = "true", *, attempt: int = 1) -> BatchMember:
    """An attempt of a job."""
    return BatchMember(
        job=job,
        attempt=attempt,
        name=f"job{job}",
        command=command,
        environment={},
        working_directory="/data",
        log=f"logs/a/00/job{job}.1.log",
    )


def script(
    own: Mapping[str, Any] | None = None,
    *,
    request: Request | None = None,
    site: Mapping[str, Any] | None = None,
    members: int = 1,
    run: RunPaths = RUN,
    template: str = "",
    **attributes: Any,
) -> str:
    """The script of a batch whose jobs have a map of their own, at a site."""
    batch = Batch(
        id="1",
        tag="k7f3a-1-1",
        request=request or Request(),
        members=tuple(map(member, range(members))),
        attributes=attributes,
        settings=own or {},
    )
    text = template or template_texts(SlurmService)["batch.sh"]
    return batch_script(batch, site or {}, run, text, licences=("lic_a",))


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
