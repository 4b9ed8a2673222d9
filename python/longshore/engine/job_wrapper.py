"""Job wrapper: runs members of batches through ``longshore-job``, and reads the end records that it writes.

For executors of schedulers that run a script per batch: the script calls the wrapper with the number of a member, and
the wrapper runs that member as the batch's table has it. The member's end is then in a file, independently of the
scheduler's reports.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from longshore.contract.executor import AttemptId, BatchMember
from longshore.contract.service import Context, RenderedFile, RunPaths
from longshore.engine.policy.output_rules import parse_findings, parse_stamps
from longshore.errors import DECODE_ERRORS
from longshore.model.event import Ended, FileStamp, OutputFinding
from longshore.model.states import Cause
from longshore.model.wording import signal_name
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, remove_empty_folder, remove_file
from longshore.system.reading import open_stream, read_file

LOG: Final = logging.getLogger(__name__)
WRAPPER: Final = PurePosixPath("wms", "longshore-job")
"""Path of the wrapper in a run directory."""
FENCE_MARKS: Final = "fenced"
"""Folder beside those of batches in ``ends/``: marks of attempts that were given up, which wrappers look for."""
STARTED_SUFFIX: Final = ".began"
"""Suffix of the file that a member creates when it begins, which succeeds once; it goes after the end record came."""
AGAIN_SUFFIX: Final = ".again"
"""Suffix of the file by which a member says that the scheduler put it back into its queue and started it again."""
_KILLED_STATUS: Final = 128
"""A shell adds this to the number of a signal (POSIX 2.8.2 says: more than 128)."""
_VALUES: Final = rb'"j":\d+,"a":\d+,"status":\d+,"run":-?\d+\.-?\d+,"host":"[^"\\]*"'
_REFUSED: Final = (
    rb'(?:,"refused":true|,"unready":true)?(?:,"signalled":true)?(?:,"fenced":"(?:lease|told)")?'
    rb'(?:,"out":"[0-9a-z ]*")?(?:,"stamps":"[-0-9. ]*")?'
)


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


class EndRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """End of a member, as the wrapper recorded it.

    Attributes
    ----------
    j, a
        Index of the job, and number of the attempt.
    status
        Its exit status; 128 and the number of a signal if that killed it.
    run
        Seconds that it ran, by the clock of its host.
    host
        Host that it ran on.
    batch
        Tag of its batch; empty in records of older versions.
    end
        When the record was written, by the clock of the file system.
    refused
        Whether it was not run, because it had been run before.
    signalled
        Whether it was told to end while it ran.
    unready
        Whether it was not run, because a parent had left no record of success.
    fenced
        Why the wrapper killed it: ``lease`` if it could not renew its lease, ``told`` if the attempt was given up.
    out
        Numbers and states of outputs that are not as they should be.
    written
        Size, and time of modification in seconds, of each output; empty if they are not recorded.
    """

    j: int
    a: int
    status: int
    run: float
    host: str
    batch: str = ""
    end: float = 0.0
    refused: bool = False
    signalled: bool = False
    unready: bool = False
    fenced: str = ""
    out: str = ""
    written: str = msgspec.field(default="", name="stamps")

    @property
    def start(self) -> float:
        """When it began, by the clock of the file system."""
        return self.end - self.run

    def to_event(self) -> Ended:
        """Return the end as an event."""
        number = signal_in(self.status) if self.was_run else None
        cause = None if self.status == 0 else Cause.SIGNAL if number else Cause.EXIT
        reason = f"killed by {signal_name(number)}" if number else None
        if self.refused:
            cause, reason = Cause.PREEMPTED, RUN_ONCE
        elif self.unready:
            cause, reason = Cause.SUBMIT, UNREADY
        elif self.fenced:
            cause, reason = Cause.LOST, FENCED[self.fenced]
        return Ended(
            j=self.j,
            a=self.a,
            exit=None if number or not self.was_run else self.status,
            signal=number,
            cause=cause,
            reason=reason,
            host=self.host,
            start=self.start,
            end=self.end,
            run_s=self.run,
            outputs=self.findings,
            stamps=self.stamps,
        )

    @property
    def was_run(self) -> bool:
        """Whether the wrapper started its command."""
        return not (self.refused or self.unready)

    @property
    def is_own_end(self) -> bool:
        """Whether the job ended without a signal."""
        return self.was_run and not (self.signalled or self.fenced) and signal_in(self.status) is None

    @property
    def findings(self) -> tuple[OutputFinding, ...] | None:
        """Missing, stale and empty outputs; ``None`` if they were not checked."""
        try:
            return parse_findings(self.out) if self.was_run else None
        except ValueError:
            return None

    @property
    def stamps(self) -> tuple[FileStamp, ...]:
        """Stamps of the outputs; none if they are not recorded."""
        try:
            return parse_stamps(self.written)
        except ValueError:
            return ()


RUN_ONCE: Final = "the job was requeued and started a second time; an attempt runs once"
"""Reason for refusing a member."""
REQUEUED: Final = "the job was requeued; an attempt runs once"
"""Reason for the end of a member whose job went back into the queue."""
UNREADY: Final = "its wrapper did not run it, because a parent had left no record of success when it was to start"
"""Reason for not running a member whose scheduler starts it after any end of its parents."""
LEASE_S: Final = 120
"""Seconds after which a wrapper that could not renew its lease has killed its job."""
FENCED: Final[Mapping[str, str]] = {
    "lease": f"its node could not write to the run directory for {LEASE_S} s, and so its wrapper killed it",
    "told": "the attempt was given up, and so its wrapper killed it",
}
"""Reasons for which a wrapper kills its job, by `EndRecord.fenced`."""


def signal_in(status: int | None) -> int | None:
    """Return the signal that a shell's exit status reports; ``None`` for a plain exit code."""
    number = (status or 0) - _KILLED_STATUS
    return number if 0 < number < signal.NSIG else None


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


def is_complete(name: str, names: Container[str]) -> bool:
    """Whether a file is an end record that its wrapper has written completely, by all names in its directory."""
    return not name.endswith((STARTED_SUFFIX, AGAIN_SUFFIX)) and name + STARTED_SUFFIX not in names


@lru_cache(maxsize=1)
def _record_form() -> re.Pattern[bytes]:
    """Return the form of an end record: its values twice, so that a changed value is found.

    It is compiled on its first use, because few commands read such records.
    """
    return re.compile(
        rb'\{(?P<values>%b,"batch":"[^"\\]*"%b),"again":\{(?P=values)\}\}' % (_VALUES, _REFUSED)
        # Wrappers of older versions write the values once, so that only a cut is found.
        + rb"|\{%b%b\}" % (_VALUES, _REFUSED)
    )


def read_end_record(path: Path) -> EndRecord | None:
    """Read a member's end record; ``None`` if it is gone, or not as the wrapper writes it."""
    try:
        with open_stream(path) as file:
            # The line of the end follows that of the beginning.
            *_, line = [b"", *file.read().removesuffix(b"\n").split(b"\n")]
            end = os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    if not _record_form().fullmatch(line):
        return None
    try:
        record = msgspec.json.decode(line, type=EndRecord)
    except DECODE_ERRORS:
        return None
    is_own = path.name == f"{record.j}.{record.a}" and record.batch in {"", path.parent.name}
    return msgspec.structs.replace(record, end=end) if is_own else None


@lru_cache(maxsize=4096)
def _tell_unreadable(path: Path) -> None:
    """Log that a record cannot be read, once."""
    LOG.warning("'%s' is not an end record of its job: what it recorded is not known", path)
