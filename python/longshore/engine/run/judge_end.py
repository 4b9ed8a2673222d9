"""Judges the end of an attempt by its log, output file and finished tasks, and removes unwanted logs of successes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.config.templates import Template, split_fields
from longshore.contract.service import RunPaths
from longshore.engine.log_locator import job_log_path
from longshore.engine.policy.success_rules import (
    AttemptOutputs,
    SlowSearchError,
    Which,
    apply_success_rules,
    drop_look,
    judge_outputs,
    mark_retry_match,
    may_succeed,
    needs_log,
)
from longshore.engine.staging import StagedEnds
from longshore.errors import ConfigError, RunUnreadableError
from longshore.jobs.scripts import count_done_tasks, records_tasks, task_record_path
from longshore.model.event import Ended, FileStamp, OutputFinding, OutputState
from longshore.model.states import Cause
from longshore.model.values import RegexError, compile_regex
from longshore.model.workflow import KeepPolicy, OutputCheck
from longshore.rundir.job_table import JobTable
from longshore.system.folder import remove_file, sync_folder
from longshore.system.host import CpuLimitError
from longshore.system.reading import open_stream, read_file
from longshore.system.regex_search import find_match

LOG_TAIL_B: Final = 1 << 20
"""Bytes searched at the end of a log: a log may have gigabytes, and the engine waits meanwhile."""
_SEARCH_S: Final = 1.0
"""Processor time of a search in a log: the engine waits meanwhile."""
_MAX_SLOW_SEARCHES: Final = 3


class EndJudge:
    """Logs and files by which an engine judges ends; `log_line` takes a line for the engine's log."""

    def __init__(self, run: RunPaths, jobs: JobTable, log_line: Callable[[str], None]) -> None:
        self._run = run
        self._jobs = jobs
        self._log_line = log_line
        self._unwanted_logs: list[Path] = []
        self._slow_searches: dict[str, int] = {}
        """Number of logs that a regular expression took too long on."""
        rules = [settings.rules for settings in jobs.header.settings]
        # Most runs have no such rules; their ends then cost one look-up in a list.
        self._has_rules = [rule.success_if is not None or rule.retry_on is not None for rule in rules]
        self._output_checks = [rule.check_outputs for rule in rules]
        self._stages = [rule.staging is not None for rule in rules]
        self._staged_ends = StagedEnds(run, jobs)
        self._resumes_tasks = [rule.resume_tasks for rule in rules]
        self._drops_logs = [rule.bounds.logs is KeepPolicy.FAILED for rule in rules]

    def judge(self, end: Ended) -> Ended:
        """Return the end with its outcome."""
        profile = self._jobs.profile_of[end.j]
        is_cut_off = False
        if self._stages[profile]:
            end = self._staged_ends.complete(end)
            if is_cut_off := self._staged_ends.is_cut_off(end):
                self.clean_up(end)
        if self._has_rules[profile]:
            end = self._match_retry_rule(end) if is_cut_off else self._apply_rules(end)
        if self._output_checks[profile] is not OutputCheck.NONE:
            end = self._check_outputs(end, self._output_checks[profile])
            if end.cause is Cause.OUTPUT_MISSING and self._has_rules[profile]:
                end = self._match_retry_rule(end)
        if end.cause is not None and self._resumes_tasks[profile]:
            end = self._add_task_counts(end)
        if self._drops_logs[profile] and end.cause is None:
            self._unwanted_logs.append(self._log_path(end))
        return end

    def clean_up(self, end: Ended) -> None:
        """Remove what an attempt that was killed left outside of its temporary directory."""
        if self._stages[self._jobs.profile_of[end.j]]:
            self._staged_ends.clean_up((end.j,), end.a)

    def clean_up_lost(self, losses: Sequence[int]) -> None:
        """Remove what lost attempts left, at the end of the run; `losses` is their number per job.

        Such an attempt may still run. Its outputs have no reader any more.
        """
        if any(self._stages):
            jobs = (job for job, number in enumerate(losses) if number and self._stages[self._jobs.profile_of[job]])
            with suppress(RunUnreadableError):
                self._staged_ends.clean_up(jobs)

    def remove_read(self) -> None:
        """Remove records of ends, and logs of successes that the profile does not keep; only once ends are durable."""
        self._staged_ends.discard_read()
        paths, self._unwanted_logs = self._unwanted_logs, []
        for path in paths:
            with suppress(OSError):
                remove_file(path, below=self._run.root)

    def _apply_rules(self, end: Ended) -> Ended:
        rules = self._jobs.settings(end.j).rules
        success_rules = rules.success_if
        log = read_tail(self._log_path(end)) if needs_log(end, success_rules, rules.retry_on) else ""
        files: Sequence[str] = ()
        if success_rules is not None and success_rules.file is not None and may_succeed(end, success_rules):
            files = self._required_files(end.j, success_rules.file)
        missing = next((file for file in files if not os.path.lexists(file)), None)
        outputs = AttemptOutputs(
            log=log, file=missing, file_exists=bool(files) and missing is None, search=self._search_log
        )
        return apply_success_rules(end, success_rules, rules.retry_on, outputs)

    def _check_outputs(self, end: Ended, check: OutputCheck) -> Ended:
        """Return the end with the verdict on its outputs, which the engine checks if its host did not."""
        if end.cause is not None:
            return drop_look(end)
        if end.outputs == ():
            return msgspec.structs.replace(end, outputs=None)
        stored = self._jobs[end.j]
        paths = self._jobs.checked_outputs(end.j, stored)
        if not paths:
            return end
        if end.outputs is None:
            findings, stamps = inspect_outputs(paths)
            end = msgspec.structs.replace(end, outputs=findings, stamps=stamps)
        return judge_outputs(end, check, paths)

    def _match_retry_rule(self, end: Ended) -> Ended:
        """Return the end of an attempt that its outputs made a failure, marked where its log wants a retry."""
        on = self._jobs.settings(end.j).rules.retry_on
        log = read_tail(self._log_path(end)) if needs_log(end, None, on) else ""
        return mark_retry_match(end, on, AttemptOutputs(log=log, search=self._search_log))

    def _search_log(self, regex: str, log: str, which: Which) -> re.Match[str] | None:
        if self._slow_searches.get(regex, 0) >= _MAX_SLOW_SEARCHES:
            raise SlowSearchError(f"it took too long on {_MAX_SLOW_SEARCHES} logs, and is no longer tried")
        try:
            pattern = compile_regex(regex, multiline=True)
            return find_match(pattern, log, seconds=_SEARCH_S, is_last=which == "last")
        except (CpuLimitError, RegexError) as error:
            self._slow_searches[regex] = count = self._slow_searches.get(regex, 0) + 1
            self._log_line(
                f"the regular expression '{regex}' counts as not matched: {error}"
                + ("; it is no longer tried" if count == _MAX_SLOW_SEARCHES else "")
            )
            raise SlowSearchError(str(error)) from error

    def _add_task_counts(self, end: Ended) -> Ended:
        """Return the bad end of a job of several tasks with the number of tasks that are done."""
        stored = self._jobs[end.j]
        tasks = stored.tasks
        if tasks < 2 or not records_tasks(stored.c):
            return end
        if end.cause is Cause.OUTPUT_MISSING:
            # A task that is done may not have made its output: all run again.
            forget_tasks(self._run, (self._jobs.file_number(end.j, stored),))
            return end
        try:
            done = count_done_tasks(read_file(self._run.root / task_record_path(self._jobs.file_number(end.j, stored))))
        except OSError:
            done = 0
        note = f"{done} of {tasks} tasks are done, and are not run again"
        return msgspec.structs.replace(
            end,
            reason=f"{end.reason}; {note}" if end.reason else note,
            extra={**end.extra, "tasks": str(tasks), "tasks_done": str(done)},
        )

    def _log_path(self, end: Ended) -> Path:
        return self._run.root / job_log_path(self._jobs, end.j, self._jobs[end.j], end.a)

    def _required_files(self, job: int, text: str) -> Sequence[str]:
        """Return the absolute paths that ``successIf.file`` requires; none where it cannot be filled in."""
        stored, settings = self._jobs[job], self._jobs.settings(job)
        paths = stored.success_files
        if not paths:
            values = {**stored.tags, "label": settings.label, "jobName": stored.name, "jobLabel": settings.label}
            try:
                paths = (Template(split_fields(text)).render(values),)
            except ConfigError as error:
                self._log_line(f"successIf.file of '{stored.name}': {error.message}")
        folder = settings.working_directory or str(self._run.root)
        return [os.path.join(folder, path) for path in paths]  # noqa: PTH118 - a text is wanted


def forget_tasks(run: RunPaths, numbers: Iterable[int]) -> None:
    """Make jobs, given by file number, begin with their first task, whichever tasks were done; durably."""
    paths = (run.root / task_record_path(number) for number in numbers)
    for folder in {path.parent for path in paths if remove_file(path, below=run.root)}:
        sync_folder(folder, below=run.root)


def inspect_outputs(paths: Sequence[str]) -> tuple[tuple[OutputFinding, ...], tuple[FileStamp, ...]]:
    """Return findings and stamps of outputs, where nothing is known of the time before: no output is stale."""
    findings: list[OutputFinding] = []
    stamps: list[FileStamp] = []
    for number, path in enumerate(paths):
        try:
            status = os.stat(path)  # noqa: PTH116 - a text is what there is
        except OSError:
            findings.append(OutputFinding(number, OutputState.MISSING))
            continue
        stamps.append(FileStamp(status.st_size, status.st_mtime_ns))
        if stat.S_ISREG(status.st_mode) and not status.st_size:
            findings.append(OutputFinding(number, OutputState.EMPTY))
    return tuple(findings), tuple(stamps)


def read_tail(path: Path) -> str:
    """Return the end of a log; empty where it cannot be read."""
    try:
        with open_stream(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_B))
            return file.read(LOG_TAIL_B).decode("utf-8", "replace")
    except OSError:
        return ""
