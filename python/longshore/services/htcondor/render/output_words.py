"""Writes the words with which the job wrapper checks the outputs of a job on its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.engine.job_wrapper import output_words
from longshore.model.tasks import is_remote
from longshore.model.workflow import Job, OutputCheck
from longshore.services.htcondor.render import quoting

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow


class OutputWords:
    """Outputs of the jobs of a workflow, for the wrapper; `root` is the run directory."""

    def __init__(self, workflow: Workflow, root: str) -> None:
        self._files = workflow.files
        self._root = root

    def words(self, job: Job) -> str:
        """Return the outputs of a job that are checked as one word in HTCondor's syntax; empty without any."""
        check = job.settings.rules.check_outputs
        if check is OutputCheck.NONE or not job.outputs:
            return ""
        paths = [self._files[name].path for name in job.outputs]
        local_paths = [
            path if path.startswith("/") else f"{self._root}/{path}" for path in paths if not is_remote(path)
        ]
        text = output_words(local_paths, is_fresh=check is OutputCheck.FRESH)
        # A path that HTCondor's parsers cannot pass is not checked.
        return quoting.quote_word(text) if text and quoting.is_quotable(text) else ""


def has_checked_outputs(workflow: Workflow) -> bool:
    """Whether the outputs of any job are checked."""
    return any(job.outputs and job.settings.rules.check_outputs is not OutputCheck.NONE for job in workflow)
