"""Looks whether the programs that jobs start are there, as far as that can be told without running anything."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from longshore.errors import FilesError
from longshore.model.workflow import Workflow
from longshore.plan.commands import program_of


def check_programs(workflow: Workflow, env: Mapping[str, str]) -> None:
    """Refuse commands whose program is not there.

    Raises
    ------
    FilesError
        A program is missing or not executable.
    """
    made = {file.path for file in workflow.files.values()}
    seen: set[tuple[str, str, str | None]] = set()
    for job in workflow:
        program = program_of(job.command)
        path = job.settings.environment.get("PATH", env.get("PATH"))
        folder = job.settings.working_directory or ""
        if program is None or (program, folder, path) in seen or "<ENV:" in program or program in made:
            continue
        seen.add((program, folder, path))
        why, hint = _missing(program, Path(folder), path)
        if why:
            raise FilesError(f"job '{job.name}' runs '{program}', which {why}", hint=hint)


def _missing(program: str, folder: Path, path: str | None) -> tuple[str, str]:
    """Why a program cannot be run, and the way out; twice nothing if it can."""
    correct = "Correct 'runQuantumCommand', or begin it with 'sh -c' if an earlier job makes the program."
    if "/" not in program:
        return ("", "") if shutil.which(program, path=path) else ("is not on the PATH", correct)
    place = folder / program
    if not place.exists():
        return "is not there", correct
    if place.is_dir():
        return "is a directory", correct
    return ("", "") if shutil.which(place) else ("is not executable", f"Make it so with: chmod +x '{place}'")
