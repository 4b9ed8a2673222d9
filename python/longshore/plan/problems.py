"""Problems of a run as a user reads them: a short list, however many jobs there are, and one error with its status."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from longshore.contract.service import Problem
from longshore.errors import ErrorDetail, error_type
from longshore.model.workflow import Workflow
from longshore.progress import Progress, note_problem

MAX_LISTED: Final = 3
"""Problems per kind and label that are listed; of more, only the number."""
_NAME_OR_NUMBER: Final = re.compile(r"'[^']*'|\d+(?:\.\d+)?")
"""Parts of a message that differ between problems of one kind: names and amounts."""
_COUNTS: Final = re.compile(r" \((and [\d,]+ more [^()]*)\)$")
"""Numbers of further jobs at the end of a message."""
_REQUEST_KEY: Final = "request"
"""Beginning of the keys of amounts that jobs ask for."""


class _ProblemGroup(msgspec.Struct):
    """Problems of one kind and label: some of them, and the number of jobs of each and of the others."""

    listed: dict[str, tuple[Problem, int]] = msgspec.field(default_factory=dict)
    unlisted_jobs: int = 0

    def add(self, problem: Problem, jobs: int) -> None:
        text = problem.message.replace(f"'{problem.job}'", "") if problem.job else problem.message
        if text in self.listed:
            first, before = self.listed[text]
            self.listed[text] = (first, before + jobs)
        elif len(self.listed) < MAX_LISTED:
            self.listed[text] = (problem, jobs)
        else:
            self.unlisted_jobs += jobs

    def counted_problems(self, label: str) -> list[Problem]:
        """Return the listed problems with their numbers of jobs; the last one counts the others too."""
        *first, last = self.listed.values()
        return [
            *(_add_counts(problem, label, jobs, 0) for problem, jobs in first),
            _add_counts(last[0], label, last[1], self.unlisted_jobs),
        ]


def group_problems(problems: Iterable[Problem], workflow: Workflow) -> list[Problem]:
    """Group similar problems into one, with its label and number of jobs."""
    sharing: Counter[int] = Counter()
    groups: dict[tuple[object, ...], _ProblemGroup] = {}
    for problem in problems:
        label, jobs = problem.label, problem.jobs
        if problem.job is not None:
            job = workflow[problem.job]
            label = label or job.label
            if not jobs and problem.key:
                sharing = sharing or Counter(id(each.settings) for each in workflow)
                jobs = sharing[id(job.settings)]
        shape = _NAME_OR_NUMBER.sub("", problem.message) if label else problem.message
        key = (label, problem.code, problem.key, problem.fatal, shape)
        groups.setdefault(key, _ProblemGroup()).add(problem, jobs or 1)
    return [each for (label, *_), group in groups.items() for each in group.counted_problems(str(label))]


def drop_consequences(problems: Iterable[Problem], workflow: Workflow) -> Iterator[Problem]:
    """Yield problems without those that have the cause of an earlier error.

    A request that is too large exceeds a limit of the site, the rows of its partitions and the nodes of its cluster:
    the first of these errors is enough, because its mend changes the request.
    """
    caused: set[tuple[int, str]] = set()
    for problem in problems:
        if problem.job is not None and problem.key.startswith(_REQUEST_KEY):
            cause = (id(workflow[problem.job].settings), problem.key)
            if cause in caused:
                continue
            if problem.fatal:
                caused.add(cause)
        yield problem


def merge_labels(problems: Iterable[Problem]) -> list[Problem]:
    """Merge grouped problems that differ in their label only: one value is the cause of all of them."""
    merged: dict[tuple[object, ...], list[Problem]] = {}
    for problem in problems:
        text = _COUNTS.sub("", problem.message)
        text = text.replace(f"'{problem.job}'", "") if problem.job else text
        cause = (text, problem.origin, problem.hint, problem.code, problem.fatal, problem.label == "")
        merged.setdefault(cause, []).append(problem)
    return [_name_labels(alike) if alike[0].label else alike[0] for alike in merged.values()]


def _name_labels(alike: Sequence[Problem]) -> Problem:
    """Return the first of several problems with the labels of the others, and the number of jobs of all."""
    first, *others = alike
    if not others:
        return first
    names = [f"'{each.label}'" for each in others]
    more = f" and {len(names) - MAX_LISTED:,} more labels" if len(names) > MAX_LISTED else ""
    words = f"and jobs of {', '.join(names[:MAX_LISTED])}{more}"
    counts = _COUNTS.search(first.message)
    message = _COUNTS.sub("", first.message) + (f" ({counts[1]}, {words})" if counts else f" ({words})")
    return msgspec.structs.replace(first, message=message, jobs=sum(each.jobs for each in alike))


def raise_problems(problems: Iterable[Problem], progress: Progress | None = None) -> None:
    """Print notes and raise all errors as one exception, of the type that their codes share (`error_type`)."""
    faults = []
    for problem in problems:
        if problem.fatal:
            faults.append(
                ErrorDetail(
                    code=problem.code,
                    message=problem.message,
                    origin=problem.origin,
                    hint=problem.hint,
                    label=problem.label,
                    jobs=problem.jobs,
                )
            )
        elif progress is not None:
            note_problem(progress, problem)
    if not faults:
        return
    others = f" (and {len(faults) - 1} more)" if faults[1:] else ""
    error = error_type(fault.code for fault in faults)(
        faults[0].message + others, origin=faults[0].origin, hint=faults[0].hint
    )
    error.details = tuple(faults)
    raise error


def exit_status(problems: Iterable[Problem]) -> int:
    """Return the exit status of a command that finds problems and raises none: that of `raise_problems`."""
    codes = [problem.code for problem in problems if problem.fatal]
    return error_type(codes).exit_status if codes else 0


def _add_counts(problem: Problem, label: str, jobs: int, others: int) -> Problem:
    """Return a problem with its number of jobs and the number of jobs with similar problems."""
    words = [f"{jobs - 1:,} more job{'s' if jobs > 2 else ''} of '{label}'"] if label and jobs > 1 else []
    words += [f"{others:,} more like it"] if others else []
    message = problem.message + (f" (and {', and '.join(words)})" if words else "")
    return msgspec.structs.replace(problem, message=message, label=label, jobs=jobs + others if label else 0)
