"""Files of the notifier in a run directory: its rules, and the records of what it sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS
from longshore.model.notice import NoticeRecord, NoticeRule
from longshore.rundir.submissions import submission_paths
from longshore.system.atomic import open_to_append
from longshore.system.files import files
from longshore.system.host import host_name
from longshore.system.reading import read_record
from longshore.system.sharing import Lock


class NotifierLife(msgspec.Struct, frozen=True):
    """The newest notifier of a run, as it wrote into its lock's file.

    Attributes
    ----------
    host
        Host whose locks show whether it is at work.
    life
        Number of what drove the run when it last looked.
    """

    host: str
    life: int


def write_notifier(lock: Lock, life: int) -> None:
    """Write the notifier of this process into its lock."""
    holder = msgspec.json.encode(NotifierLife(host=host_name(), life=life))
    # Only a note in reports needs it: notices are also sent where the disk is full.
    with suppress(OSError):
        files.ftruncate(lock.file, 0)
        files.pwrite(lock.file, holder, 0)


def read_notifier(run: RunPaths) -> NotifierLife | None:
    """Return the newest notifier of a run; ``None`` if there was none, or its file does not tell."""
    return read_record(run.notice_lock, NotifierLife)


def encode_notice_rules(rules: Sequence[NoticeRule]) -> bytes:
    """Return the content of ``notify.json``."""
    return msgspec.json.format(msgspec.json.encode(rules), indent=2) + b"\n"


def read_notice_rules(run: RunPaths) -> Sequence[NoticeRule]:
    """Return the rules of a run's newest submission; none where there is no file of them, or it cannot be read."""
    for path in dict.fromkeys((submission_paths(run).notice_rules, run.notice_rules)):
        try:
            return msgspec.json.decode(path.read_bytes(), type=tuple[NoticeRule, ...])
        except FileNotFoundError:
            # A submission that changed nothing has no file of its own.
            continue
        except (OSError, *DECODE_ERRORS):
            return ()
    return ()


def read_notice_records(run: RunPaths) -> Sequence[NoticeRecord]:
    """Return what the notifiers of a run recorded; a line that was cut or damaged counts as not written."""
    try:
        lines = run.notices.read_bytes().splitlines()
    except OSError:
        return ()
    found = []
    decoder = msgspec.json.Decoder(NoticeRecord)
    for line in lines:
        with suppress(*DECODE_ERRORS):
            found.append(decoder.decode(line))
    return found


def _ends_in_line(run: RunPaths) -> bool:
    try:
        return not run.notices.read_bytes().endswith(b"\n")
    except OSError:
        return False


class NoticeLog:
    """Records of one notifier: those in the file, and its own, which it appends."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self.records = list(read_notice_records(run))
        # A line that a crash cut must not take the next one with it.
        self._break = b"\n" if _ends_in_line(run) else b""

    def add(self, record: NoticeRecord) -> None:
        """Append a record; on a full disk it is kept in memory, and the next notifier may send the notice again."""
        self.records.append(record)
        with suppress(OSError), open_to_append(self._run.notices, below=self._run.root) as file:
            file.write(self._break + msgspec.json.encode(record) + b"\n")
            self._break = b""


def describe_failed_notices(run: RunPaths) -> Iterator[str]:
    """Return a sentence for each rule whose newest notice was not sent."""
    newest: dict[str, NoticeRecord] = {record.rule: record for record in read_notice_records(run) if record.rule}
    for name, record in sorted(newest.items()):
        if not record.is_sent:
            yield f"the notice '{name}' of {record.event.value} was not sent: {record.why}"
