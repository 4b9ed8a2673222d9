"""Launcher line: the shell command that starts a job's tasks with srun or mpirun."""

from __future__ import annotations

from typing import Final

from longshore.errors import ConfigError

_SRUN: Final = 'srun --export=ALL --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}"'
"""Since 22.05 srun does not take the processors of a task from the job; and it would take ``--export`` from there."""
_MPIRUN: Final = '-n "${SLURM_NTASKS:-1}"'
_KNOWN: Final = {
    "srun": _SRUN,
    "mpirun": f"mpirun {_MPIRUN}",
    "mpiexec": f"mpiexec {_MPIRUN}",
}


def launcher_line(launcher: object, components: int = 1) -> str:
    """Return the line of shell in front of a command; empty for none.

    ``srun``, ``mpirun`` and ``mpiexec`` start as many tasks as the job has; any other text is such a line itself. A
    heterogeneous job is started in all of its components. Raises `ConfigError` when the launcher is no text.
    """
    if launcher is None or launcher == "":
        return ""
    if not isinstance(launcher, str) or "\n" in launcher.strip():
        raise ConfigError(
            f"'slurm.launcher' must be one line of text, not {launcher!r}",
            hint=f"For example {', '.join(_KNOWN)}, or 'srun --mpi=pmix'.",
        )
    if launcher.strip() == "srun" and components > 1:
        # Their tasks may have different numbers of processors, which one option cannot express.
        return f"srun --export=ALL --het-group={','.join(map(str, range(components)))}"
    return _KNOWN.get(launcher.strip(), launcher.strip())
