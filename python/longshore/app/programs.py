"""Looks whether the programs that jobs start are there, as far as that can be told without running anything."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from longshore.app.configuration import Configuration
from longshore.errors import FilesError
from longshore.model.job import Job
from longshore.model.workflow import Workflow
from longshore.plan.commands import program_of, with_inherited

_CORRECT = "Correct 'runQuantumCommand', or begin it with 'sh -c' if an earlier job makes the program."
_NOT_FOUND = "is not on the PATH"
_LONGEST_FIRST_LINE = 256
"""Bytes of a script in which Linux looks for its interpreter."""


def check_programs(workflow: Workflow, configuration: Configuration) -> None:
    """Refuse commands that cannot be started.

    Raises
    ------
    FilesError
        A program or its interpreter is missing or not executable, or the directory that it is to run in is missing.
    """
    made = {file.path for file in workflow.files.values()}
    seen: set[tuple[str | None, str, str | None]] = set()
    for job in workflow:
        program = program_of(job.command)
        folder = job.settings.working_directory or ""
        written = job.environment.get("PATH", job.settings.environment.get("PATH", configuration.env.get("PATH")))
        path = with_inherited({"PATH": written}, configuration.env)["PATH"] if written else written
        if (program, folder, path) in seen:
            continue
        seen.add((program, folder, path))
        _check_folder(job, folder, configuration)
        set_later = bool(job.settings.setup) or "<ENV:LONGSHORE_JOB_" in (written or "")
        found_later = set_later and program is not None and "/" not in program
        if program is None or "<ENV:" in program or program in made or found_later:
            continue
        why, hint = _missing(program, Path(folder), path)
        if why:
            if why == _NOT_FOUND and written != configuration.env.get("PATH"):
                why, hint = f"{why} that 'environment' gives it", "Correct 'runQuantumCommand' or 'environment.PATH'."
            origin = configuration.written("runQuantumCommand", job.label)
            raise FilesError(f"job '{job.name}' runs '{program}', which {why}", origin=origin, hint=hint)


def _check_folder(job: Job, folder: str, configuration: Configuration) -> None:
    if folder and "<ENV:" not in folder and not Path(folder).is_dir():
        raise FilesError(
            f"job '{job.name}' is to run in '{folder}', which is no directory",
            origin=configuration.written("workingDirectory", job.label),
            hint="Make it, or correct 'workingDirectory'.",
        )


def _missing(program: str, folder: Path, path: str | None) -> tuple[str, str]:
    """Why a program cannot be run, and the way out; twice nothing if it can."""
    if "/" not in program:
        found = shutil.which(program, path=path)
        return _missing_interpreter(Path(found)) if found else (_NOT_FOUND, _CORRECT)
    place = folder / program
    if not place.exists():
        return "is not there", _CORRECT
    if place.is_dir():
        return "is a directory", _CORRECT
    if not os.access(place, os.X_OK):
        return "is not executable", f"Make it so with: chmod +x '{place}'"
    return _missing_interpreter(place)


def _missing_interpreter(program: Path) -> tuple[str, str]:
    """Whether the first line of a script names what is not there; the kernel would say that the script is missing."""
    try:
        with program.open("rb") as file:
            first = file.read(_LONGEST_FIRST_LINE).split(b"\n")[0]
    except OSError:
        return "", ""  # to run what one may not read is no fault
    words = first[2:].split() if first.startswith(b"#!") else []
    if not words or os.access(words[0], os.X_OK):
        return "", ""
    interpreter = os.fsdecode(words[0])
    return f"is a script for '{interpreter}', which cannot be run", f"Correct the first line of '{program}'."
