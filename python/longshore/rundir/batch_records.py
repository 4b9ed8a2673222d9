"""Records of batches in a run: their tags, the ends of their members, and members that were given up.

A wrapper writes the end of each member into a file, independently of the scheduler's reports.

"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId
from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS
from longshore.model.event import Ended, FileStamp, OutputFinding, OutputState
from longshore.model.json_lines import encode_document
from longshore.model.states import Cause
from longshore.model.wording import signal_name
from longshore.rundir.journal import first_life_of_workflow
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.reading import open_stream, read_file

# Tags of batches: each names the run and the life that submitted it.


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


# Ends of members, as the wrapper of each wrote them.


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


def parse_findings(text: str) -> tuple[OutputFinding, ...]:
    """Parse the findings of a wrapper, such as ``0 missing 2 stale``.

    Raises
    ------
    ValueError
        The text has another format.
    """
    words = text.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return tuple(OutputFinding(int(number), OutputState(state)) for number, state in pairs)


def parse_stamps(text: str) -> tuple[FileStamp, ...]:
    """Parse the stamps of a wrapper: size, and seconds with nine decimals, per output.

    Raises
    ------
    ValueError
        The text has another format.
    """
    words = text.split()
    return tuple(FileStamp(int(size), _nanoseconds(time)) for size, time in zip(words[::2], words[1::2], strict=True))


def _nanoseconds(time: str) -> int:
    seconds, _, fraction = time.partition(".")
    return int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))


# Attempts that were given up while a copy of them may live: a mark each, which also tells their wrapper to stop. Marks
# are files ``ends/fenced/TAG.JOB.ATTEMPT``. They stay, so that a report tells what became of such an attempt.


MARGIN_S = 60.0
"""Seconds after a lease, for a file server's cache of names and times (acregmax of nfs(5)) and the job's death."""


class GivenUp(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was given up without a record of its end.

    `tag` is that of its batch. `name` is that of the job. `at` is when, in seconds since the epoch. `host` is the node,
    if known. `leased` says whether its wrapper renews a lease, as those of older versions do not. `outcome` says how it
    is known that no copy lives: ``lease``, ``reboot``, ``record``, or empty if it is not. `status` is the exit
    status in a record that came afterwards.
    """

    tag: str
    job: int
    attempt: int
    name: str
    at: float
    host: str = ""
    leased: bool = True
    outcome: str = ""
    status: int | None = None

    @property
    def id(self) -> AttemptId:
        """Job and attempt."""
        return self.job, self.attempt


def mark_path(run: RunPaths, tag: str, attempt: AttemptId) -> Path:
    """Return the path of the mark of an attempt, which its wrapper knows too."""
    return run.ends / FENCE_MARKS / f"{tag}.{attempt[0]}.{attempt[1]}"


def write_mark(run: RunPaths, mark: GivenUp) -> None:
    """Write the mark of an attempt, or change what it says; raises `OSError`."""
    path = mark_path(run, mark.tag, mark.id)
    make_folders(path.parent, below=run.root)
    write_atomically(path, encode_document(mark), below=run.root)


def read_marks(run: RunPaths) -> Iterator[GivenUp]:
    """Yield the readable marks in order of their file names.

    A mark without the end record of its attempt gets that record, if the record has arrived since.
    """
    try:
        paths = sorted((run.ends / FENCE_MARKS).iterdir())
    except OSError:
        return
    for path in paths:
        with suppress(OSError, *DECODE_ERRORS):
            mark = msgspec.json.decode(read_file(path), type=GivenUp)
            if path == mark_path(run, mark.tag, mark.id):
                yield mark if mark.outcome else add_record(run, mark)


def add_record(run: RunPaths, mark: GivenUp) -> GivenUp:
    """Return a mark with the exit status that the attempt recorded, if it did."""
    record = read_end_record(run.ends / mark.tag / f"{mark.job}.{mark.attempt}")
    if record is None or record.refused:
        return mark
    # Its wrapper killed it: that is no end of its own.
    status = None if record.fenced else record.status
    return msgspec.structs.replace(mark, outcome="record", status=status, host=record.host or mark.host)


def describe_copy(mark: GivenUp, now: float) -> str:
    """Return what a user should know of a copy of an attempt; empty if it is certain that none has done anything."""
    where = f" on '{mark.host}'" if mark.host else ""
    which = f"attempt {mark.attempt} of job '{mark.name}'"
    if mark.outcome == "record":
        if mark.status is None:
            return ""
        return f"{which} was given up, and ended later{where} with exit status {mark.status}: its outputs may be mixed"
    if mark.outcome:
        return ""
    if not mark.leased:
        return f"{which} was given up, and may still run{where}: its wrapper, of an older version, has no lease"
    left_s = mark.at + LEASE_S + MARGIN_S - now
    # Of an engine that noted no more. Its clock and this one may differ by minutes.
    return f"{which} was given up, and may still run{where}, for {left_s:.0f} s at most" if left_s > 0 else ""
