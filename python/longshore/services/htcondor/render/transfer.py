"""Files of jobs on their machines: those that HTCondor transfers, and the outputs that the wrapper checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.contract.service import Context, Problem
from longshore.engine.job_wrapper import output_words
from longshore.model.tasks import File, is_remote
from longshore.model.workflow import Job, OutputCheck
from longshore.services.htcondor.render import quoting

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# Files are transferred where jobs do not see the run directory. On the machine, all files are in the job's working
# directory, under the last part of their paths. Transferred are files in the run directory, and those marked for
# transfer; all others are assumed to be on the machine.


REMOTE_RUN_DIR: Final = "."
"""Path of the run directory on the machine."""
_LIST_SEPARATORS: Final = re.compile(r"[,;=\"$]|[^\S ]|[\x00-\x1f\x7f]|(?:^|/) | (?:$|/)")
"""Separators and special characters of HTCondor's lists of files, which are stripped of blanks around a name."""
_PROGRAM: Final = re.compile(r"<ENV:LONGSHORE_JOB_RUN_DIR>/([^/<>]+)")


class TransferLists(msgspec.Struct, frozen=True):
    """Lists of transferred files in the syntax of submit descriptions; empty for none."""

    inputs: str = ""
    """Paths on the submitting host."""
    outputs: str = ""
    """Names on the machine."""
    remaps: str = ""
    """Names on the machine, with their paths on the submitting host."""


NO_TRANSFER: Final = TransferLists()


def is_enabled(ctx: Context) -> bool:
    """Whether HTCondor transfers files: jobs do not see the run directory, or run in scratch directories."""
    return ctx.site.settings.get("fileSystem") in {"transfer", "scratch"}


def remote_paths(files: Mapping[str, File]) -> dict[str, str]:
    """The path of each file on the machine, per name."""
    return {name: _base_name(file) if _is_transferred(file) else file.path for name, file in files.items()}


def transfer_lists(job: Job, files: Mapping[str, File], root: str) -> TransferLists:
    """The file transfer of a job; `root` is the run directory."""
    inputs = [_local_path(file, root) for file in _transferred_files(job.inputs, files)]
    inputs += [f"{root}/{name}" for name in _programs(job)]
    outputs = list(_transferred_files(job.outputs, files))
    return TransferLists(
        inputs=",".join(dict.fromkeys(inputs)),
        outputs=",".join(_base_name(file) for file in outputs),
        remaps=";".join(f"{_base_name(file)}={_local_path(file, root)}" for file in outputs),
    )


def problems(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Files that cannot be transferred: two of one name, or paths with separators of lists."""
    if not is_enabled(ctx):
        return
    files = workflow.files
    for file in files.values():
        if _is_transferred(file) and _LIST_SEPARATORS.search(file.path):
            yield Problem(message=f"the file '{file.path}' cannot be transferred: its path has a separator of lists")
            return
    root = str(ctx.paths.root)
    if _LIST_SEPARATORS.search(root) and _uses_run_directory(workflow):
        yield Problem(
            message=f"files in '{root}' cannot be transferred: its path has a separator of lists",
            key="submitPath",
            hint="Set 'submitPath' to a directory without commas, semicolons, quotes, '=' and '$' in its path.",
        )
        return
    for job in workflow:
        names = [_base_name(file) for file in _transferred_files((*job.inputs, *job.outputs), files)]
        if len(set(names)) < len(names):
            name = next(name for name in names if names.count(name) > 1)
            yield Problem(
                message=f"job '{job.name}' has two files named '{name}', which would be one on the machine",
                job=job.name,
                hint="Give one of them another name.",
            )
            return


def _uses_run_directory(workflow: Workflow) -> bool:
    """Whether any file is transferred from or to the run directory."""
    relative = (file for file in workflow.files.values() if not file.path.startswith("/"))
    return any(True for _ in relative) or any(_programs(job) for job in workflow)


def _transferred_files(names: Sequence[str], files: Mapping[str, File]) -> Iterator[File]:
    return (files[name] for name in names if name in files and _is_transferred(files[name]))


def _is_transferred(file: File) -> bool:
    return file.transfer or not file.path.startswith("/")


def _local_path(file: File, root: str) -> str:
    return file.path if file.path.startswith("/") else f"{root}/{file.path}"


def _base_name(file: File) -> str:
    return PurePosixPath(file.path).name


def _programs(job: Job) -> list[str]:
    """Names of files of the run directory in the command itself, such as the final job's script."""
    if isinstance(job.command, str):
        return []
    return [name for word in job.command for name in _PROGRAM.findall(word)]


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
