"""Matches the jobs of a workflow with those of an earlier one, and decides which results stay; pure.

Two jobs are the same if they have the same name. A result stays if the job succeeded, and the same command would make
it from the same inputs. Requests, retries and priorities do not change a result, so they do not count.
The reason is in decision 0082.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from longshore.model.tasks import Command
from longshore.model.workflow import JobSettings
from longshore.plan.job_commands import full_command

_PARTS: Final = "\0"
_DIRECTORY: Final = "\1"
"""Begins the part of a command's text that is its working directory."""


class MatchReason(StrEnum):
    """Reason why a job runs, or why its result is kept."""

    KEPT = "kept"
    """It succeeded, with the same command and inputs."""
    NEW = "new"
    """The earlier workflow has no job of its name."""
    UNFINISHED = "unfinished"
    """It did not succeed."""
    COMMAND = "command"
    """Its command, environment or directory changed."""
    INPUTS = "inputs"
    """It reads or writes other files, waits for other jobs, or an input file changed."""
    OUTPUTS = "outputs"
    """What it made is not there any more, was written since by something else, or cannot be taken over."""
    READS = "reads"
    """It waits for a job that runs."""
    FINAL = "final"
    """It is the final job, which gathers what the others make."""


class MatchJob(NamedTuple):
    """A job as far as its result depends on it.

    `command` is the text of `result_command`. `parents` are numbers of jobs of the same workflow. `inputs` and
    `outputs` are paths, with the values of the run replaced by their names.
    """

    name: str
    label: str
    command: str
    parents: Sequence[int]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class EarlierJobs(NamedTuple):
    """Jobs of the earlier workflow.

    `ends` has a text per job that did not succeed, such as ``failed``, by number. `changed_inputs` and `lost_outputs`
    have the reason per job for which files changed: ``'x.fits' has another size``.
    """

    jobs: Sequence[MatchJob]
    ends: Mapping[int, str]
    changed_inputs: Mapping[int, str] = {}
    lost_outputs: Mapping[int, str] = {}


class JobMatch(NamedTuple):
    """What becomes of a job: its reason, a detail for people, and its number in the earlier workflow."""

    reason: MatchReason
    detail: str = ""
    earlier: int | None = None

    @property
    def is_kept(self) -> bool:
        """Whether its result is kept, so that it does not run."""
        return self.reason is MatchReason.KEPT

    @property
    def is_changed(self) -> bool:
        """Whether an earlier result of it, even a partial one, is void: it runs from its first task on."""
        return self.reason not in {MatchReason.KEPT, MatchReason.UNFINISHED}


class WorkflowMatch(NamedTuple):
    """Match of a workflow with an earlier one: `jobs` in order, and the numbers of earlier jobs that are `gone`."""

    jobs: Sequence[JobMatch]
    gone: Sequence[int]

    @property
    def pairs(self) -> dict[int, int]:
        """Numbers of the jobs that both workflows have, by those of the earlier one."""
        return {match.earlier: number for number, match in enumerate(self.jobs) if match.earlier is not None}

    @property
    def changed(self) -> list[int]:
        """Numbers of the jobs that both workflows have, and whose earlier result is void."""
        return [number for number, match in enumerate(self.jobs) if match.earlier is not None and match.is_changed]

    @property
    def kept(self) -> list[int]:
        """Numbers of the jobs whose results are kept."""
        return [number for number, match in enumerate(self.jobs) if match.is_kept]


class RunValues(NamedTuple):
    """Values of one run that commands and paths contain, each with its name: other runs have others."""

    values: tuple[tuple[str, str], ...]
    """Pairs of value and name, longest value first."""

    @classmethod
    def of(cls, names: Mapping[str, str]) -> RunValues:
        """Return the values of a run, given by name; empty ones do not count."""
        pairs = [(value, name) for name, value in names.items() if value]
        return cls(tuple(sorted(pairs, key=lambda pair: -len(pair[0]))))

    def name_values(self, text: str) -> str:
        """Replace each value in a text by its name in braces."""
        for value, name in self.values:
            if value in text:
                text = text.replace(value, f"{{{name}}}")
        return text


def result_command(command: Command, settings: JobSettings, environment: Mapping[str, str], values: RunValues) -> str:
    """Text of all that a job's result depends on besides its files: command, set-up, environment and directory."""
    full = full_command(command, settings)
    words = (full,) if isinstance(full, str) else full
    variables = sorted({**settings.environment, **environment}.items())
    parts = [*words, *(f"${name}={value}" for name, value in variables)]
    parts.append(f"{_DIRECTORY}{settings.working_directory or ''}")
    return values.name_values(_PARTS.join(parts))


def match_workflows(
    earlier: EarlierJobs,
    jobs: Sequence[MatchJob],
    *,
    final: int | None = None,
    identify: Callable[[str], str] = str,
) -> WorkflowMatch:
    """Match jobs, parents first, with those of an earlier workflow; `final` is the number of the final job.

    `identify` returns the same text for all paths of one file.
    """
    known = {job.name: number for number, job in enumerate(earlier.jobs)}
    matches: list[JobMatch] = []
    for number, job in enumerate(jobs):
        old = known.pop(job.name, None)
        match = _match_job(earlier, old, job, jobs, matches, identify=identify)
        if match.is_kept and number == final and not all(each.is_kept for each in matches):
            match = JobMatch(MatchReason.FINAL, "it gathers what the others make", old)
        matches.append(match)
    return WorkflowMatch(matches, sorted(known.values()))


def _match_job(
    earlier: EarlierJobs,
    old: int | None,
    job: MatchJob,
    jobs: Sequence[MatchJob],
    matches: Sequence[JobMatch],
    *,
    identify: Callable[[str], str],
) -> JobMatch:
    """Decide about one job, whose parents are decided."""
    if old is None:
        return JobMatch(MatchReason.NEW, "there was no job of this name")
    before = earlier.jobs[old]
    if before.label != job.label or before.command != job.command:
        return JobMatch(MatchReason.COMMAND, describe_command_change(before.command, job.command), old)
    if detail := _describe_file_change(before, job, identify) or earlier.changed_inputs.get(old, ""):
        return JobMatch(MatchReason.INPUTS, detail, old)
    names = {earlier.jobs[parent].name for parent in before.parents}
    if detail := _describe_names("waits for", names, {jobs[parent].name for parent in job.parents}):
        return JobMatch(MatchReason.INPUTS, detail, old)
    running = next((parent for parent in job.parents if matches[parent].is_changed), None)
    if running is not None:
        return JobMatch(MatchReason.READS, f"it waits for '{jobs[running].name}', which runs", old)
    if end := earlier.ends.get(old):
        return JobMatch(MatchReason.UNFINISHED, f"it {end}", old)
    waiting = next((parent for parent in job.parents if not matches[parent].is_kept), None)
    if waiting is not None:
        return JobMatch(MatchReason.READS, f"it waits for '{jobs[waiting].name}', which runs", old)
    if detail := earlier.lost_outputs.get(old, ""):
        return JobMatch(MatchReason.OUTPUTS, detail, old)
    return JobMatch(MatchReason.KEPT, "it succeeded, with the same command and inputs", old)


def _describe_file_change(before: MatchJob, job: MatchJob, identify: Callable[[str], str]) -> str:
    for verb, old, new in (("reads", before.inputs, job.inputs), ("writes", before.outputs, job.outputs)):
        # Nearly all jobs have the same paths.
        if {*old} != {*new} and (change := _describe_names(verb, map(identify, old), map(identify, new))):
            return change
    return ""


def _describe_names(verb: str, before: Iterable[str], now: Iterable[str]) -> str:
    """Describe a difference between two sets of names; empty if they are equal."""
    old, new = {*before}, {*now}
    if added := sorted(new - old):
        return f"it {verb} '{added[0]}' now"
    if removed := sorted(old - new):
        return f"it {verb} '{removed[0]}' no more"
    return ""


def describe_command_change(before: str, now: str) -> str:
    """Describe how the texts of two commands differ, by the first parts that do."""
    old, new = before.split(_PARTS), now.split(_PARTS)
    for was, part in zip(old, new, strict=False):
        if was != part and (variable := _VARIABLE.match(part)):
            # Its value may be a secret.
            return f"the variable '{variable[1]}' of its environment has another value now, or is new"
        if was.startswith(_DIRECTORY) and part.startswith(_DIRECTORY) and was != part:
            return f"it runs in '{part[1:]}' now, and ran in '{was[1:]}'"
        if was != part:
            return f"its command has {_excerpt(part, was)} now, and had {_excerpt(was, part)}"
    return "its command has other words or variables now"


_EXCERPT: Final = 40
_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)=", re.ASCII)


def _excerpt(text: str, other: str) -> str:
    """Quote the part of a text that differs from another, from the beginning of the shell's word that differs."""
    place = next((place for place, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), len(other))
    begin = _word_start(text, min(place, len(text)))
    words = " ".join(text[begin:].split())
    shown = words if len(words) <= _EXCERPT else words[:_EXCERPT] + "..."
    # Quotation marks that the text does not have itself.
    mark = next((mark for mark in "'\"`" if mark not in shown), "'")
    return f"{mark}{'... ' if text[:begin].strip() else ''}{shown}{mark}"


def _word_start(text: str, place: int) -> int:
    """Return where the shell's word at a place begins: blanks between quotation marks end no word."""
    begin, quote = 0, ""
    for at, sign in enumerate(text[:place]):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign.isspace():
            begin = at + 1
    # A long text between marks would hide what differs in it.
    return begin if place - begin < _EXCERPT // 2 else text.rfind(" ", 0, place) + 1
