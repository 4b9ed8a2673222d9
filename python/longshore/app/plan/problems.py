"""Groups problems of jobs into a short list, however many jobs there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from longshore.app.progress import Progress, note_problem
from longshore.contract.context import Problem
from longshore.errors import ErrorDetail, FilesError, PreparationError, RequestError
from longshore.model.workflow.workflow import Workflow

MAX_LISTED: Final = 3
"""Problems per kind and label that are listed; of more, only the number."""
_NAME_OR_NUMBER: Final = re.compile(r"'[^']*'|\d+(?:\.\d+)?")
"""Parts of a message that differ between problems of one kind: names and amounts."""
_ERROR_TYPES: Final[dict[str, type[PreparationError]]] = {each.code: each for each in (RequestError, FilesError)}


@dataclass
class _ProblemGroup:
    """Problems of one kind and label: some of them, and the number of jobs of each and of the others."""

    listed: dict[str, tuple[Problem, int]] = field(default_factory=dict)
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


def raise_problems(problems: Iterable[Problem], progress: Progress) -> None:
    """Print notes and raise all errors as one exception.

    Raises `PreparationError`, or its subclass for requests or files if all errors are about these.
    """
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
        else:
            note_problem(progress, problem)
    if not faults:
        return
    codes = {fault.code for fault in faults}
    error_type = _ERROR_TYPES.get(faults[0].code, PreparationError) if len(codes) == 1 else PreparationError
    others = f" (and {len(faults) - 1} more)" if faults[1:] else ""
    error = error_type(faults[0].message + others, origin=faults[0].origin, hint=faults[0].hint)
    error.details = tuple(faults)
    raise error


def _add_counts(problem: Problem, label: str, jobs: int, others: int) -> Problem:
    """Return a problem with its number of jobs and the number of jobs with similar problems."""
    words = [f"{jobs - 1:,} more job{'s' if jobs > 2 else ''} of '{label}'"] if label and jobs > 1 else []
    words += [f"{others:,} more like it"] if others else []
    message = problem.message + (f" (and {', and '.join(words)})" if words else "")
    return msgspec.structs.replace(problem, message=message, label=label, jobs=jobs + others if label else 0)
