"""What the programs of a workload manager answer to one process, and what of that others may use."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from longshore.contract.service import Unreachable
from longshore.errors import SubmissionRefusedError
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.jobs import TaskId
from longshore.services.lsf.dialect import LsfDialect
from longshore.services.sge.dialect import SgeDialect
from longshore.services.slurm.dialect import SlurmDialect
from longshore.system.programs import ProgramResult

SLURM: Final = SlurmDialect({})
DIALECTS: Final[Mapping[str, tuple[Dialect, str]]] = {
    "slurm": (SLURM, "1|1|RUNNING|None|n|2026-01-01T00:00:00|n1"),
    "sge": (SgeDialect({}), "<job_info></job_info>"),
    "lsf": (LsfDialect({}), '{"COMMAND":"bjobs","JOBS":0,"RECORDS":[]}'),
}


def programs(folder: Path, script: str, *names: str) -> str:
    """Write programs; return a PATH that has them first."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\necho x >>{folder}/{name}.calls\n{script}\n", "utf-8")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def calls(folder: Path, name: str) -> int:
    path = folder / f"{name}.calls"
    return len(path.read_text("utf-8").split()) if path.exists() else 0


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("trouble", ["exit 127", "exit 126", "kill -SEGV $$", "exit 139", "missing", "no program"])
def test_a_broken_program_of_one_run_is_not_believed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trouble: str
) -> None:
    dialect, out = DIALECTS[name]
    queue = dialect.programs.queue
    # The same file for both: one finds what it needs, the other does not.
    path = programs(tmp_path / "bin", f"[ -e {tmp_path}/good ] || {trouble}\ncat <<'END'\n{out}\nEND", queue)
    if trouble == "missing":
        (tmp_path / "bin" / queue).unlink()
        path = str(tmp_path / "bin")
    elif trouble == "no program":
        (tmp_path / "bin" / queue).write_bytes(b"\x7fELF, but no program")
        path = str(tmp_path / "bin")
    monkeypatch.setenv("PATH", path)
    broken = BatchClient(dialect).queue(max_age_s=1000.0)
    assert broken is not None
    assert broken.text is None
    words = "crashed" if trouble in {"kill -SEGV $$", "exit 139"} else "the program cannot be run here"
    assert words in broken.why
    (tmp_path / "good").touch()
    programs(tmp_path / "bin", f"cat <<'END'\n{out}\nEND", queue)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    found = BatchClient(dialect).queue(max_age_s=1000.0)
    assert found is not None
    assert (found.text or "").strip() == out


@pytest.mark.parametrize("name", DIALECTS)
def test_only_the_same_program_shares_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    dialect, out = DIALECTS[name]
    queue = dialect.programs.queue
    answer = f"cat <<'END'\n{out}\nEND"
    good = programs(tmp_path / "good", answer, queue)
    # It answers that nothing is there, as a program of another cluster does.
    other = programs(tmp_path / "other", "echo; exit 0" if name == "slurm" else answer, queue)
    for path in (good, other, good, other):
        monkeypatch.setenv("PATH", path)
        assert BatchClient(dialect).queue(max_age_s=1000.0) is not None
    assert (calls(tmp_path / "good", queue), calls(tmp_path / "other", queue)) == (1, 1)
    # Another name of the same file is the same program.
    (tmp_path / "link").symlink_to(tmp_path / "good")
    monkeypatch.setenv("PATH", f"{tmp_path / 'link'}:/usr/bin:/bin")
    assert BatchClient(dialect).queue(max_age_s=1000.0) is not None
    assert calls(tmp_path / "good", queue) == 1
    # What it loads, and the lines before it, may make it another one.
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert BatchClient(dialect).queue(max_age_s=1000.0) is not None
    assert BatchClient(dialect, setup=("true",)).queue(max_age_s=1000.0) is not None
    assert calls(tmp_path / "good", queue) == 3


def test_what_the_manager_answers_is_shared_and_a_program_that_hangs_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", f"echo '{down}' >&2\nexit 1", "squeue"))
    for _ in range(2):
        found = BatchClient(SLURM).queue(max_age_s=1000.0)
        assert found is not None
        assert found.why == down
    assert calls(tmp_path / "bin", "squeue") == 1
    shell = _Shell(ProgramResult(argv=("squeue",), status=None, seconds=60.0), None)
    for _ in range(2):
        found = BatchClient(SLURM, shell=shell).queue(max_age_s=-1.0)
        assert found is not None
        assert found.why == "'squeue' did not answer within 60 s"
    assert BatchClient(SLURM, shell=shell).queue(max_age_s=1000.0) is not None
    assert shell.calls == ["squeue", "squeue"], "the answer from before holds"


def test_accounting_is_shared_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = programs(tmp_path / "bad", "echo 'sacct: command not found' >&2; exit 127", "sacct")
    good = programs(tmp_path / "good", "true", "sacct")
    task = TaskId(1)
    for path, is_answer in ((bad, False), (good, True)):
        monkeypatch.setenv("PATH", path)
        client = BatchClient(SLURM)
        share = client.accounting_share("ends")
        answer = client.ask_accounting(share, {task: 0.0}, min_interval_s=1000.0)
        assert answer is not None
        assert isinstance(answer.rows, Unreachable) is not is_answer
    monkeypatch.setenv("PATH", bad)
    rows = BatchClient(SLURM).query_accounting([task])
    assert isinstance(rows, Unreachable)
    assert rows.why == "the program cannot be run here: sacct: command not found"


class _Shell:
    """Answers in turn, the last one for ever."""

    def __init__(self, *answers: ProgramResult | None) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        self.calls.append(argv[0])
        answer = self.answers[0] if len(self.answers) < 2 or self.answers[1] is None else self.answers.pop(0)
        assert answer is not None
        return answer


def _said(err: str) -> ProgramResult:
    return ProgramResult(argv=("sbatch",), status=1, err=f"sbatch: error: Batch job submission failed: {err}")


@pytest.mark.parametrize(
    ("err", "tries", "words"),
    [
        ("System submissions disabled", 4, "does not take the engine for now: "),
        ("Required partition not available (inactive or drain)", 1, "does not take the engine for now: "),
        ("Invalid partition name specified", 1, "does not take the engine: "),
        ("Unspecified error", 1, "does not take the engine: "),
    ],
)
def test_a_submission_at_hand_waits_a_moment_and_tells_whose_fault_a_refusal_is(
    monkeypatch: pytest.MonkeyPatch, err: str, tries: int, words: str
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    shell = _Shell(_said(err))
    with pytest.raises(SubmissionRefusedError, match=words) as refused:
        BatchClient(SLURM, shell=shell).submit_with_id("#!/bin/sh\n", what="the engine")
    assert err in refused.value.message
    assert ("try again" in refused.value.hint) is ("for now" in words)
    assert (len(shell.calls), pauses) == (tries, [1.0, 2.0, 4.0][: tries - 1])


def test_what_passes_in_a_moment_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    shell = _Shell(_said("Rate limit exceeded, please retry momentarily"), ProgramResult(argv=(), status=0, out="7"))
    assert BatchClient(SLURM, shell=shell).submit_with_id("#!/bin/sh\n", what="the engine") == 7
