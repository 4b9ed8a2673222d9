"""Job wrapper: how members of batches run through ``longshore-job``: its files, environment and folders.

For executors of schedulers that run a script per batch: the script calls the wrapper with the number of a member, and
the wrapper runs that member as the batch's table has it. The member's end is then in a file, independently of the
scheduler's reports; see `longshore.rundir.batch_records`.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from longshore.contract.executor import AttemptId, BatchMember
from longshore.contract.service import Context, RenderedFile, RunPaths
from longshore.rundir.batch_records import (
    AGAIN_SUFFIX,
    STARTED_SUFFIX,
    EndRecord,
    is_complete,
    read_end_record,
)
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, remove_empty_folder, remove_file
from longshore.system.reading import open_stream, read_file

LOG: Final = logging.getLogger(__name__)
WRAPPER: Final = PurePosixPath("wms", "longshore-job")
"""Path of the wrapper in a run directory."""


def wrapper_file(ctx: Context) -> RenderedFile:
    """Return the wrapper as a file of the run, for `longshore.engine.run.engine_service.EngineService.render_extra`."""
    return RenderedFile.from_text(WRAPPER, ctx.templates[WRAPPER.name], mode=0o755)


def has_lease(run: RunPaths) -> bool:
    """Whether the wrapper of a run renews leases, as those of older versions do not."""
    try:
        return b"\n_limit=" in read_file(run.root / WRAPPER)
    except OSError:
        return False


def refuses_requeued(run: RunPaths) -> bool:
    """Whether the wrapper of a run takes the option ``-r``, which those of older versions do not know."""
    try:
        return b"m:e:o:n:r:" in read_file(run.root / WRAPPER)
    except OSError:
        return False


def inherited_environment(settings: Mapping[str, Any], *, needed: Container[str] = ("PATH", "HOME")) -> dict[str, str]:
    """Return the environment variables of this process that jobs inherit, for the program that submits them.

    Parameters
    ----------
    settings
        Settings of the executor, including the rule ``inheritEnvironment``.
    needed
        Variables that the program itself needs, regardless of the rule.
    """
    # Imported late, as below: readers of end records, such as reports, need no commands and no sites.
    from longshore.sites.inherited_environment import select_inherited

    names, _ = select_inherited(os.environ, settings.get("inherit", "all"))
    return {name: value for name, value in os.environ.items() if name in names or name in needed}


_NODE_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
"""A variable of the job's host in the site's ``scratch``."""


def scratch_line(scratch: str) -> str:
    """Return the shell command that makes a site's ``scratch`` the parent of temporary directories; empty without one.

    It comes before the command that runs a member. ``$NAME`` is a variable of the host of the job, which must be set.
    """
    if not scratch:
        return ""
    # Even parts are text, odd ones are names.
    parts = _NODE_VARIABLE.split(scratch)
    words = "".join(
        f'"${{{part}:?}}"' if number % 2 else shlex.quote(part) for number, part in enumerate(parts) if part
    )
    return f"TMPDIR={words} && export TMPDIR && "


class BatchFiles(msgspec.Struct, frozen=True):
    """Files of one batch in a run directory.

    Attributes
    ----------
    run
        The run directory.
    tag
        Tag of the batch.
    """

    run: RunPaths
    tag: str

    @property
    def script(self) -> Path:
        """Script that is submitted."""
        return self.run.batches / f"{self.tag}.sh"

    @property
    def table(self) -> Path:
        """Table of the members, a line each."""
        return self.run.batches / f"{self.tag}.tsv"

    @property
    def parents(self) -> Path:
        """Records that the wrapper looks for before it runs a member: those of parents, a line each."""
        return self.run.batches / f"{self.tag}.parents"

    @property
    def output(self) -> Path:
        """Output of the scheduler itself; members have logs of their own."""
        return self.run.batches / f"{self.tag}.out"

    @property
    def ends(self) -> Path:
        """Directory in which members leave their end records."""
        return self.run.ends / self.tag

    def command(self, line: int | str = 1) -> str:
        """Return the shell command that runs the member in a line of the table, in the foreground.

        Parameters
        ----------
        line
            Number of the line, from 1; or shell that gives it, such as ``"$INDEX"``.
        """
        wrapper, ends, table = (shlex.quote(str(path)) for path in (self.run.root / WRAPPER, self.ends, self.table))
        return f"/bin/sh {wrapper} -m {line} -e {ends} {table}"

    def write_table(self, members: Iterable[BatchMember]) -> None:
        """Write the table of the members, and make the directory of their end records."""
        make_folders(self.ends, below=self.run.root, durable=True)
        make_folders(self.run.batches, below=self.run.root, durable=True)
        # It has the variables of the jobs, which may be secrets.
        write_atomically(self.table, "".join(self._lines(members)), below=self.run.root, durable=True, mode=0o600)

    def write_parents(self, records: Iterable[tuple[int | None, str, str]]) -> None:
        """Write which records of success the members need.

        Parameters
        ----------
        records
            Position of a member, ``None`` for all; the rule for the parent's outputs, see `output_rule`; and the
            parent's record, relative to ``ends/``.
        """
        lines = (
            f"{'*' if position is None else position + 1} {rule or '-'} {record}\n"
            for position, rule, record in records
        )
        write_atomically(self.parents, "".join(lines), below=self.run.root, durable=True)

    def read_members(self) -> tuple[AttemptId, ...]:
        """Return the members in the order of the table; empty without a table."""
        try:
            lines = read_file(self.table).split(b"\n")
        except OSError:
            return ()
        fields = (line.split(b"\t") for line in lines if line)
        return tuple((int(job), int(attempt)) for job, _, attempt, *_ in fields)

    def read_name(self, position: int) -> str:
        """Return the name of the job in a line of the table, from 0; empty if it cannot be read."""
        try:
            return read_file(self.table).split(b"\n")[position].split(b"\t")[1].decode("utf-8", "replace")
        except (OSError, IndexError):
            return ""

    def read_lease(self, attempt: AttemptId) -> int | None:
        """Return when a member that began renewed its lease, by the clock of the file system; ``None`` without one."""
        try:
            # Opening the file makes a network file system look again.
            with open_stream(self.ends / f"{attempt[0]}.{attempt[1]}{STARTED_SUFFIX}") as file:
                return os.fstat(file.fileno()).st_mtime_ns
        except OSError:
            return None

    def read_ends(self, wanted: Container[AttemptId]) -> tuple[dict[AttemptId, EndRecord], set[AttemptId]]:
        """Return the end records of the wanted members that ended, and the members that began and have not ended."""
        ended: dict[AttemptId, EndRecord] = {}
        started: set[AttemptId] = set()
        try:
            # Reading the directory also makes a network file system look again at what is in it.
            names = os.listdir(self.ends)
        except OSError:
            return ended, started
        for name in names:
            attempt = _attempt(name.removesuffix(STARTED_SUFFIX))
            if attempt is None or attempt not in wanted:
                continue
            if name.endswith(STARTED_SUFFIX):
                started.add(attempt)
            elif record := read_end_record(self.ends / name):
                ended[attempt] = record
            elif is_complete(name, names) and (self.ends / name).exists():
                _tell_unreadable(self.ends / name)
        return ended, started - ended.keys()

    def was_started_again(self, attempt: AttemptId) -> bool:
        """Whether the scheduler put a member back into its queue and started it again, which the wrapper refused."""
        return (self.ends / f"{attempt[0]}.{attempt[1]}{AGAIN_SUFFIX}").exists()

    def remove_end(self, attempt: AttemptId) -> None:
        """Remove a member's end record, once its end is in the journal."""
        path = self.ends / f"{attempt[0]}.{attempt[1]}"
        for suffix in ("", STARTED_SUFFIX, AGAIN_SUFFIX):
            remove_file(path.with_name(path.name + suffix), below=self.run.root)

    def remove_directory(self) -> None:
        """Remove the directory of end records, if it is empty."""
        with suppress(OSError):
            # A member that ended twice left a file, which does no harm.
            remove_empty_folder(self.ends, below=self.run.root)

    def _lines(self, members: Iterable[BatchMember]) -> Iterator[str]:
        from longshore.jobs.commands import exact_shell_line

        for member in members:
            words = " ".join(shlex.quote(f"{name}={value}") for name, value in member.environment.items())
            fields = (
                str(member.job),
                member.name,
                str(member.attempt),
                member.working_directory,
                str(self.run.root / member.log),
                words,
                exact_shell_line(member.command),
                "" if isinstance(member.command, str) else "words",
                output_words(member.outputs, is_fresh=member.fresh_outputs),
            )
            yield "\t".join(map(_one_line, fields)) + "\n"


def output_words(paths: Sequence[str], *, is_fresh: bool) -> str:
    """Return the wrapper's words for outputs to check; empty without any."""
    return " ".join([output_rule(paths, is_fresh=is_fresh), *map(shlex.quote, paths)]) if paths else ""


def output_rule(paths: Sequence[str], *, is_fresh: bool) -> str:
    """Return the wrapper's word for what outputs have to be; empty without any."""
    return ("fresh" if is_fresh else "exists") if paths else ""


def _one_line(field: str) -> str:
    return field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def _attempt(name: str) -> AttemptId | None:
    job, _, attempt = name.partition(".")
    return (int(job), int(attempt)) if job.isdecimal() and attempt.isdecimal() else None


@lru_cache(maxsize=4096)
def _tell_unreadable(path: Path) -> None:
    """Log that a record cannot be read, once."""
    LOG.warning("'%s' is not an end record of its job: what it recorded is not known", path)
