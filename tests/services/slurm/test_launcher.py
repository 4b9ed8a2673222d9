"""What starts the tasks of a job becomes a line of shell, and stands between the set-up and the command."""

from __future__ import annotations

import subprocess

import pytest

from longshore.errors import ConfigError
from longshore.jobs.commands import add_launcher, add_setup
from longshore.services.slurm.service import SlurmService, launcher_line
from longshore.sites.profile import launch_line


def test_none_is_none() -> None:
    assert launcher_line(None) == launcher_line("") == ""


def test_the_names_of_launchers() -> None:
    assert launcher_line("srun").startswith("srun --export=ALL --cpus-per-task=")
    assert launcher_line("mpirun") == 'mpirun -n "${SLURM_NTASKS:-1}"'
    assert launcher_line("srun --mpi=pmix -n 3") == "srun --mpi=pmix -n 3"


def test_all_components_are_started() -> None:
    assert launcher_line("srun", 3).endswith(" --het-group=0,1,2")
    assert SlurmService().launcher_line({"launcher": "srun", "gres1": "gpu:1"}).endswith(" --het-group=0,1")


@pytest.mark.parametrize("launcher", [["srun"], 3, "srun\nrm"])
def test_anything_else_is_refused(launcher: object) -> None:
    with pytest.raises(ConfigError, match=r"slurm\.launcher"):
        launcher_line(launcher)


@pytest.mark.parametrize("command", ["echo \"$LINES\" 'a  b'; exit 3", ("sh", "-c", "echo \"$LINES\" 'a  b'; exit 3")])
def test_a_command_runs_behind_launcher_and_container(command: str | tuple[str, ...]) -> None:
    line = launch_line("env LINES=7", ["env", "--"])
    assert line == "env LINES=7 env --"
    whole = add_setup(add_launcher(command, line), ["echo first"])
    assert isinstance(whole, str)
    done = subprocess.run(["/bin/sh", "-c", whole], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "first\n7 a  b\n")


def test_without_either_a_command_is_left_alone() -> None:
    assert launch_line("", None) == ""
    assert add_launcher(("true",), "") == ("true",)
