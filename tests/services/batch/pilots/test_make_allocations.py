"""What allocations ask for, on each workload manager."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import WRAPPER
from longshore.errors import ConfigError
from longshore.model.submission import RunIdentity
from longshore.model.workflow import MIB
from longshore.rundir.run_directory import write_card
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import HostLauncher
from longshore.services.batch.pilots.allocations import PilotLaunch, PilotSettings
from longshore.services.batch.pilots.setup import make_allocations
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.system.programs import ProgramResult

PILOT = PilotSettings(cpus=4, memory_b=1000 * MIB, walltime_s=3600.0)


class _Slurm:
    """Slurm's programs; they keep what they were given."""

    def __init__(self) -> None:
        self.scripts: list[str] = []

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        if argv[0] == "sbatch":
            self.scripts.append(stdin)
            return ProgramResult(argv=tuple(argv), status=0, out="29\n")
        return ProgramResult(argv=tuple(argv), status=0, out="SLURM_VERSION = 22.05.8\n" if "config" in argv else "")


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "run")
    paths.wms.mkdir(parents=True)
    (paths.root / BATCH_TEMPLATE).write_text(template_texts(SlurmService)["batch.sh"], "utf-8")
    shutil.copy(shipped_path("bin", "longshore-job"), paths.root / WRAPPER)
    write_card(
        paths,
        RunIdentity(
            format=1, id="k1", name="n", service="slurm", longshore="1", created_at=0, expected=0, labels={}, key="ab"
        ),
    )
    return paths


def submitted(run: RunPaths, pilot: PilotSettings, settings: Mapping[str, Any]) -> tuple[list[str], str]:
    """Lines of options of an allocation, and the command in the table of its batch."""
    slurm = _Slurm()
    source = make_allocations(
        settings, lambda own: BatchClient(SlurmDialect(own["slurm"]), shell=slurm), pilot, {"queue": "long"}
    )
    source.open(run, 1)
    source.request(1)
    source.poll()
    (script,) = slurm.scripts
    (table,) = run.pilots.joinpath("batches").glob("*.tsv")
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if "#SBATCH" in line], table.read_text(
        "utf-8"
    )


def test_an_allocation_asks_for_its_jobs_and_the_pilot(run: RunPaths) -> None:
    own = {"features": "fast", "launcher": "srun", "maxpendtime": "1h", "engineAs": "job"}
    options, command = submitted(run, PILOT, {"slurm": own, "account": "survey"})
    assert [option for option in options if option.startswith(("--cpus", "--mem", "--time", "--part", "--cons"))] == [
        "--partition=long",
        "--cpus-per-task=4",
        "--mem=1256M",
        "--time=60",
        "--constraint=fast",
    ]
    assert "--account=survey" in options
    assert f"{run.pilots}/program/pilot.py" in command
    assert f"{run.pilots}/mail/00001.0 0 4 {1000 * MIB} 3540 120 60" in command
    assert "srun" not in command


def test_pilots_on_several_nodes_are_started_by_srun(run: RunPaths) -> None:
    pilot = PilotSettings(cpus=2, memory_b=1000 * MIB, nodes=3)
    options, command = submitted(run, pilot, {"slurm": {}})
    assert {"--nodes=3", "--ntasks-per-node=1", "--cpus-per-task=2"} <= set(options)
    assert "srun --export=ALL --nodes=3 --ntasks=3" in command
    assert sorted(path.name for path in run.pilots.joinpath("mail").iterdir()) == ["00001.0", "00001.1", "00001.2"]


class _OneNode(SlurmDialect):
    """A workload manager that starts nothing on other nodes."""

    def node_launcher(self, nodes: int, cpus: int) -> None:  # type: ignore[override]
        return None


def test_pilots_on_several_nodes_are_refused_where_nothing_starts_them() -> None:
    with pytest.raises(ConfigError, match=r"'pilot.nodes' cannot be 2: .* a job of Slurm"):
        make_allocations({"slurm": {}}, lambda own: BatchClient(_OneNode(own["slurm"])), PilotSettings(nodes=2), {})


def test_pilots_on_several_hosts_are_started_one_by_one() -> None:
    home = RunPaths(Path("/data/u/it's, a: run/pilots"))
    launcher = HostLauncher(start=("/opt/bin/rsh", "-x"), hosts="$HOSTS", hint="Ask for it's.")
    launch = PilotLaunch(
        python="/opt/python",
        cpus=2,
        memory_b=5,
        walltime_s=None,
        lease_s=120.0,
        idle_s=60.0,
        nodes=3,
        launcher=launcher,
    )
    begin, start = launch.script(home, 7).splitlines()
    assert begin == 'PYTHON=/opt/python; [ -x "$PYTHON" ] || PYTHON=python3'
    words = shlex.split(start)
    assert words[:5] == ["exec", "$PYTHON", "-I", "-S", "-B"]
    assert words[5:9] == [f"{home.root}/program/node_starter.py", "3", "Ask for it's.", "/opt/bin/rsh"]
    assert words[9:14] == ["-x", "--", "/bin/sh", "-c", words[13]]
    assert words[14:] == ["--", "$HOSTS"]
    assert words[13].endswith(""": run/pilots/mail/00007.'"$0" "$0" 2 5 - 120 60""")
