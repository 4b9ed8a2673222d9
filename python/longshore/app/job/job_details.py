"""Records of what a job runs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.app.job.request_text import RetryBudget
from longshore.model.run.event import StagedFiles
from longshore.model.run.report import TextPrinter
from longshore.model.run.states import Cause
from longshore.model.tasks.task import Command
from longshore.model.workflow.request import Request


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """File that a job reads or writes; a path of ``None`` is not in the workflow."""

    name: str
    path: str | None


class JobDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Job as one of its attempts runs it.

    `attempts` is their number; `cause` and `reason` say what was wrong with the end of this one.
    If `is_staged`, it starts in a scratch directory, which has the files of `working_directory` below their relative
    paths; `staged` has the transfers of these.
    `command` is that of the workflow with paths of files, in the scratch directory if they are staged; `line` is the
    same for a shell. Secrets in texts are masked, and `script` asks for them.
    `launcher` is a shell prefix of the command, such as that of a container. `setup` holds shell lines that run
    before. `environment` holds variables that the run sets, ``None`` for hidden values.
    `attributes` are further values for the workload manager. `log` is the attempt's log; `script` runs the
    attempt by hand. `text` is all this as ``longshore show-job`` prints it; ``print`` and notebooks show it.
    """

    run: str
    name: str
    index: int
    label: str
    attempt: int
    attempts: int
    cause: Cause | None
    reason: str | None
    command: Command
    line: str
    launcher: str
    setup: tuple[str, ...]
    environment: Mapping[str, str | None]
    request: Request
    working_directory: str
    is_staged: bool
    inputs: tuple[JobFile, ...]
    outputs: tuple[JobFile, ...]
    staged: StagedFiles | None
    tags: Mapping[str, object]
    tasks: int
    site: str | None
    cloud: str | None
    number_of_retries: int
    retry_unless_exit: tuple[int, ...]
    retry_budgets: tuple[RetryBudget, ...]
    attributes: Mapping[str, object]
    parents: tuple[str, ...]
    children: tuple[str, ...]
    log: str
    script: str
    text: str = ""

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(self.text)
