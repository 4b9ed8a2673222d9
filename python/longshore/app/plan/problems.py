"""Groups problems of jobs into a short list, however many jobs there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from longshore.app.progress import Progress
from longshore.contract.context import Problem
from longshore.errors import ErrorDetail, FilesError, PreparationError, RequestError
from longshore.model.workflow.workflow import Workflow

MAX_LISTED: Final = 3
"""Problems per kind and label that are listed; of more, only the number."""
_PARTICULAR: Final = re.compile(r"'[^']*'|\d+(?:\.\d+)?")
"""Parts of a message that differ between problems of one kind: names and amounts."""
_KINDS: Final[dict[str, type[PreparationError]]] = {kind.code: kind for kind in (RequestError, FilesError)}


@dataclass
class _Alike:
    """Problems of one kind and label: some of them, and the number of jobs of each and of the others."""

    told: dict[str, tuple[Problem, int]] = field(default_factory=dict)
    more: int = 0

    def add(self, problem: Problem, jobs: int) -> None:
        but_for_job = problem.message.replace(f"'{problem.job}'", "") if problem.job else problem.message
        if but_for_job in self.told:
            first, before = self.told[but_for_job]
            self.told[but_for_job] = (first, before + jobs)
        elif len(self.told) < MAX_LISTED:
            self.told[but_for_job] = (problem, jobs)
        else:
            self.more += jobs


def group_problems(problems: Iterable[Problem], workflow: Workflow) -> list[Problem]:
    """Group similar problems into one, with its label and number of jobs."""
    sharing: Counter[int] = Counter()
    kinds: dict[tuple[object, ...], _Alike] = {}
    for problem in problems:
        label, jobs = problem.label, problem.jobs
        if problem.job is not None:
            job = workflow[problem.job]
            label = label or job.label
            if not jobs and problem.key:
                sharing = sharing or Counter(id(each.settings) for each in workflow)
                jobs = sharing[id(job.settings)]
        shape = _PARTICULAR.sub("", problem.message) if label else problem.message
        kind = (label, problem.code, problem.key, problem.fatal, shape)
        kinds.setdefault(kind, _Alike()).add(problem, jobs or 1)
    return [each for (label, *_), alike in kinds.items() for each in _told(str(label), alike)]


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
            progress.note(problem.message)
    if not faults:
        return
    codes = {fault.code for fault in faults}
    kind = _KINDS.get(faults[0].code, PreparationError) if len(codes) == 1 else PreparationError
    others = f" (and {len(faults) - 1} more)" if faults[1:] else ""
    error = kind(faults[0].message + others, origin=faults[0].origin, hint=faults[0].hint)
    error.faults = tuple(faults)
    raise error


def _told(label: str, alike: _Alike) -> list[Problem]:
    last = len(alike.told) - 1
    return [
        _counted(problem, label, jobs, alike.more if number == last else 0)
        for number, (problem, jobs) in enumerate(alike.told.values())
    ]


def _counted(problem: Problem, label: str, jobs: int, others: int) -> Problem:
    """Return a problem with its number of jobs and the number of jobs with similar problems."""
    words = [f"{jobs - 1:,} more job{'' if jobs == _TWO else 's'} of '{label}'"] if label and jobs > 1 else []
    words += [f"{others:,} more like it"] if others else []
    message = problem.message + (f" (and {', and '.join(words)})" if words else "")
    return msgspec.structs.replace(problem, message=message, label=label, jobs=jobs + others if label else 0)


_TWO: Final = 2
