"""Trust in runs of other users: what such a run would start, and the record of the user's consent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from longshore.app.configure.service_lookup import find_service_plugin
from longshore.app.runs.mirror_run import mirror_directory
from longshore.contract.context import RunPaths
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import LongshoreError, RunUnreadableError
from longshore.model.run.submission import RunIdentity
from longshore.plan.job_commands import full_command, shell_line
from longshore.world.runs.owner import Access, read_owner, require_access, user_name_of
from longshore.world.runs.run_directory import read_card, read_made_from
from longshore.world.runs.trust import TrustRecord, manifest_digests, record_trust, workflow_digest

_MAX_COMMANDS: Final = 10
_MAX_PROGRAMS: Final = 20


class RunContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of another user would start as this user.

    `plug_in` is the class of its service, empty for a service of Longshore. `commands` has the first job of each label,
    with its command, and `workflow` is the file with all jobs. `programs` are those that the run was prepared with.
    """

    card: RunIdentity
    record: TrustRecord
    plug_in: str
    jobs: int
    commands: tuple[tuple[str, str], ...]
    workflow: Path
    programs: tuple[str, ...]

    @property
    def owner(self) -> str:
        """Name of the owner."""
        return user_name_of(self.record.uid)


def read_contents(path: Path) -> RunContents | None:
    """Read what a run would start; ``None`` for a run of this user, which needs no trust.

    Raises `LongshoreError` if it cannot be read.
    """
    run = RunPaths(Path(os.path.realpath(path)))
    if not run.card.exists() and (mirror := mirror_directory(run.root)) is not None:
        # No manifest has digests of its files, so nothing could be trusted.
        require_access(mirror, Access.ACT)
        return None
    card = read_card(run)
    try:
        owner = read_owner(run.root)
    except OSError as error:
        raise RunUnreadableError(f"'{run.root}' cannot be read: {error.strerror}") from error
    if owner.uid == os.geteuid():
        return None
    # The digests come first: a workflow that changes while it is read is not the trusted one.
    digests = workflow_digest(run), tuple(sorted(manifest_digests(run)))
    jobs = JobTable(run)
    plug_in = find_service_plugin(card.service)
    return RunContents(
        card=card,
        record=TrustRecord(
            path=str(run.root),
            uid=owner.uid,
            device=owner.device,
            inode=owner.inode,
            workflow=digests[0],
            manifests=digests[1],
            at=time.time(),
        ),
        plug_in=plug_in.import_path if plug_in and not plug_in.is_built_in else "",
        jobs=len(jobs),
        commands=tuple(_commands(jobs)),
        workflow=jobs.path,
        programs=_programs(run),
    )


def trust_run(contents: RunContents) -> None:
    """Record that this user trusts a run; raises `FilesError` if the record cannot be written."""
    record_trust(RunPaths(Path(contents.record.path)), contents.record)


def _commands(jobs: JobTable) -> Iterator[tuple[str, str]]:
    first = {label: job for job, label in reversed(list(enumerate(jobs.label_of)))}
    for job in sorted(first.values())[:_MAX_COMMANDS]:
        stored = jobs[job]
        yield stored.name, shell_line(full_command(stored.c, jobs.settings(job)))


def _programs(run: RunPaths) -> tuple[str, ...]:
    try:
        made_from = read_made_from(run)
    except LongshoreError:
        return ()
    return tuple(islice((file.path for file in made_from.programs), _MAX_PROGRAMS)) if made_from else ()
