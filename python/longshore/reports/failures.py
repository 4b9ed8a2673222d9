"""Which failed jobs of a run share a cause: by cause, exit code and what the ends of their logs share."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Lost
from longshore.model.report import FINAL_LABEL, ExitCodes, Failure
from longshore.model.states import Cause
from longshore.rundir.archived_runs import archive_of
from longshore.system.reading import read_tail

# Signature of a failure: what the last lines of logs of the same fault share.


_ERROR_WORDS: Final = re.compile(
    r"error|exception|fatal|fail|abort|kill|cannot|can't|could not|unable|not found|no such|denied|refused|"
    r"segmentation|overflow|timed? ?out|traceback|panic|assert|invalid|out of memory|no space|quota|core dumped",
    re.IGNORECASE,
)
_CONSEQUENCE: Final = re.compile(r"(?:[\w.]+\.)?(?:MPGraphExecutorError|CalledProcessError)\b")
"""Exceptions by which a program reports the failure of a task or a program that it ran."""
_EXCEPTION: Final = re.compile(r"(?P<exception>[A-Za-z_][\w.]*(?:Error|Exception)\b(?::.*|$))")
_TOLD_EXCEPTION: Final = re.compile(r"\b[Ee]xception (?P<exception>[A-Za-z_][\w.]*(?:Error|Exception)\b:.+)$")
_MAX_LENGTH: Final = 200
_PLACEHOLDERS: Final = (
    # Order matters: times and paths contain numbers.
    (
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d\S*"
        ),
        "<time>",
    ),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b", re.IGNORECASE), "<hex>"),
    # Not the end of an element, such as </b>.
    (re.compile(r"(?:(?<![\w.<])~?|\b[\w.-]+)(?:/[\w.@%+=:,~<>-]+)+/?"), "<path>"),
    (re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def error_line(lines: Sequence[str]) -> str:
    """Return the last line that reports an error, else the last line; empty without lines.

    If that line only says that something else failed, the last exception before it is returned.
    """
    telling = (line for line in reversed(lines) if _ERROR_WORDS.search(line))
    line = next(telling, lines[-1] if lines else "").strip()
    if _CONSEQUENCE.match(line):
        causes = (cause for each in reversed(lines) if (cause := _exception(each)) and not _CONSEQUENCE.match(cause))
        line = next(causes, line)
    return line[:_MAX_LENGTH]


def _exception(line: str) -> str:
    """Return the exception with which a traceback ends, or that a line of a log tells; empty if there is none."""
    found = _EXCEPTION.match(line) or _TOLD_EXCEPTION.search(line)
    return found["exception"].strip() if found else ""


def normalize(text: str) -> str:
    """Replace times, identifiers, addresses, paths and numbers by placeholders."""
    for pattern, word in _PLACEHOLDERS:
        text = pattern.sub(word, text)
    return text.strip()[:_MAX_LENGTH]


_TAIL_LINES: Final = 20
_SEARCHED_LINES: Final = 200
"""Last lines of a log in which its error is searched: a traceback follows that of its cause."""
_LOGS_PER_KIND: Final = 40
"""Logs read per label, cause, exit code and signal."""
_MAX_LOGS: Final = 400
"""Logs read in total: each is opened on a possibly slow file system."""

_Kind = tuple[int, str | None, int | None, int | None]
"""Label, cause, exit code, signal."""


class LogEnd(msgspec.Struct, frozen=True):
    """What the end of an attempt's log tells."""

    message: str
    """The error without job-specific parts; without a log, the reason of its end."""
    error: str
    lines: tuple[str, ...]


ReadLogs: TypeAlias = dict[tuple[int, int], LogEnd]
"""Ends of logs, per job and attempt."""


class _Group(msgspec.Struct):
    first: int
    members: int = 0
    error: str = ""
    lines: tuple[str, ...] = ()


class FailedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Failed jobs of a run.

    `jobs` has the end of each failed job's newest attempt, `held` that of each job held by the workload manager.
    `holds` has its codes for present holds and for those before a failure; `user_hold_codes` are those of holds that
    users ordered. `label_of` maps a job to its label. `names_of` looks up names by job numbers; `log_of` returns an
    attempt's log path relative to the run directory.
    """

    run: RunPaths
    log_of: Callable[[int, str, str, int], str]
    labels: Sequence[str]
    label_of: Sequence[int]
    jobs: Mapping[int, Ended | Lost | None]
    names_of: Callable[[Iterable[int]], Mapping[int, str]]
    held: Mapping[int, Ended | Lost | None] = msgspec.field(default_factory=dict)
    holds: Mapping[int, int] = msgspec.field(default_factory=dict)
    user_hold_codes: Collection[int] = ()
    read: ReadLogs = msgspec.field(default_factory=dict)
    """Ends of logs read before: a watched run fails a little at a time."""
    not_retried: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Why each failed job was not tried again."""

    def groups(self) -> tuple[Failure, ...]:
        """Return the failure groups, the largest first, and that of the final job last: it may follow from them."""
        kinds: dict[_Kind, list[int]] = {}
        for job, end in self.jobs.items():
            kinds.setdefault((self.label_of[job], *_exit_of(end)), []).append(job)
        most = max(1, min(_LOGS_PER_KIND, _MAX_LOGS // max(len(kinds), 1)))
        sampled: dict[_Kind, Sequence[int]] = {kind: _sample(jobs, most) for kind, jobs in kinds.items()}
        # With more kinds than logs to read, the smallest kinds get none.
        order = sorted(kinds, key=lambda kind: -len(kinds[kind]))
        sampled.update(dict.fromkeys(order[_MAX_LOGS:], ()))
        names = self.names_of(job for kind in order for job in sampled[kind] or kinds[kind][:1])
        failures = [failure for kind in order for failure in self._of_kind(kind, kinds[kind], sampled[kind], names)]
        return tuple(sorted(failures, key=lambda failure: (failure.label == FINAL_LABEL, -_size(failure))))

    def exit_codes(self) -> dict[str, ExitCodes]:
        """Return the exit codes of failed and held jobs per label, counted as in BPS.

        A job that the workload manager holds counts with its exit code or signal, else with the hold's code. A job that
        a user holds does not count: it has not failed.
        """
        codes: dict[str, dict[int, int]] = {label: {} for label in self.labels}
        unknown = dict.fromkeys(self.labels, 0)
        for job, end in (*self.jobs.items(), *self.held.items()):
            label = self.labels[self.label_of[job]]
            _, exit_code, signal = _exit_of(end)
            code = exit_code if exit_code is not None else signal if signal is not None else self.holds.get(job)
            if job in self.held and self.holds[job] in self.user_hold_codes:
                continue
            if code is None:
                unknown[label] += 1
            else:
                codes[label][code] = codes[label].get(code, 0) + 1
        return {label: ExitCodes(codes=codes[label], unknown=unknown[label]) for label in self.labels}

    def _of_kind(
        self, kind: _Kind, jobs: Sequence[int], sample: Sequence[int], names: Mapping[int, str]
    ) -> Iterable[Failure]:
        """Split one kind into groups by log signature; equal signatures make one group, also of unread logs."""
        groups: dict[str, _Group] = {}
        for job in sample:
            found = self._log_end(job, names[job], self.jobs[job])
            group = groups.setdefault(found.message, _Group(first=job, error=found.error, lines=found.lines))
            group.members += 1
        if not groups:
            groups[""] = _Group(first=jobs[0], members=len(jobs))
        unread = len(jobs) - sum(group.members for group in groups.values())
        for message, group in groups.items():
            yield self._failure(kind, message, group, unread=unread, name=names[group.first])

    def _failure(self, kind: _Kind, message: str, group: _Group, *, unread: int, name: str) -> Failure:
        label, cause, exit_code, signal = kind
        job, end = group.first, self.jobs[group.first]
        if group.members == 1 and not group.lines:
            # Nothing is grouped by it: people read it as it is.
            message = _reason(end) or message
        return Failure(
            label=self.labels[label],
            cause=None if cause is None else Cause(cause),
            exit_code=exit_code,
            signal=signal,
            message=message,
            error=group.error,
            count=group.members,
            unread=unread,
            job=name,
            host=end.host if isinstance(end, Ended) else None,
            attempt=end.a if end else 0,
            reason=_reason(end),
            log=self._shown_log(job, name, end),
            tail=group.lines,
            by_hand=self._by_hand(job, name),
            not_retried=self.not_retried.get(job) or None,
        )

    def error_line(self, job: int, name: str, end: Ended | Lost | None) -> str:
        """Return the line of the log of a job's newest attempt that tells of an error; empty if there is none."""
        return self._log_end(job, name, end).error

    def _log_end(self, job: int, name: str, end: Ended | Lost | None) -> LogEnd:
        attempt = job, end.a if end else 0
        if attempt not in self.read:
            log = self._log(job, name, end)
            lines = (read_tail(self.run.root / log, _SEARCHED_LINES) if log else None) or ()
            error = error_line(lines)
            message = normalize(error or _reason(end) or "")
            self.read[attempt] = LogEnd(message, error, lines[-_TAIL_LINES:])
        return self.read[attempt]

    def _log(self, job: int, name: str, end: Ended | Lost | None) -> str | None:
        if end is None or (isinstance(end, Ended) and end.cause is Cause.SUBMIT):
            # A job that was never started has no log.
            return None
        return self.log_of(job, name, self.labels[self.label_of[job]], end.a)

    def _shown_log(self, job: int, name: str, end: Ended | Lost | None) -> str | None:
        """Return the path of a log as users know it; in an archive, that of the archive and then that within the run.

        What was unpacked of an archive goes after an hour.
        """
        log = self._log(job, name, end)
        return str((archive_of(self.run) or self.run.root) / log) if log else None

    def _by_hand(self, job: int, name: str) -> str | None:
        if archive_of(self.run) is not None:
            return None
        runner = self.run.wms / "run-job"
        # A name of digits alone could be taken for a number.
        return f"{shlex.quote(str(runner))} {job if name.isdigit() else shlex.quote(name)}" if runner.exists() else None


def _exit_of(end: Ended | Lost | None) -> tuple[str | None, int | None, int | None]:
    if isinstance(end, Ended):
        return end.cause, end.exit, end.signal
    return (Cause.LOST if end else None), None, None


def _reason(end: Ended | Lost | None) -> str | None:
    return end.reason if isinstance(end, Ended) else end.why if end else None


def _sample(jobs: Sequence[int], most: int) -> list[int]:
    """Return a sample: the first, and others at equal distances, because failures come in streaks."""
    if len(jobs) <= most:
        return list(jobs)
    return [jobs[place * len(jobs) // most] for place in range(most)]


def _size(failure: Failure) -> int:
    return failure.count + failure.unread
