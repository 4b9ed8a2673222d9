"""Cases of what workload managers print and write: Slurm's programs, and HTCondor's logs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.kind import ROOT, Files, Kind, NotReadError, Step
from tests.fuzz.mutate import SCALARS, mutate_text

from longshore.contract.service import RunPaths
from longshore.model.event import FORMAT, Life
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.job_table import JobTable
from longshore.runstate.apply_events import apply_event
from longshore.runstate.replay import replay
from longshore.runstate.run_state import RunState
from longshore.services.batch.client import BatchClient
from longshore.services.batch.native.observe import NativeObserver, NativeRecord, derive_events
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.services.htcondor.events.dagman_end import barrier_failures, dag_errors, read_dagman_end, submit_failures
from longshore.services.htcondor.events.event_source import LogEventSource
from longshore.services.htcondor.events.log_records import UserLog
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    SubmissionRecord,
    read_submissions,
    write_submissions,
)
from longshore.services.slurm.answers import (
    ACCOUNT_FIELDS,
    GATHERED_FIELDS,
    REPLIES,
    SEPARATOR,
    gathered_rows,
    queue_rows,
)
from longshore.services.slurm.cluster import cluster_facts
from longshore.services.slurm.dialect import SlurmDialect
from longshore.system.atomic import create_file
from longshore.system.programs import ProgramResult

# -------------------------------------------------------------------------------------------------------------- Slurm

_JOB: Final = 29
_JOBS: Final = 4
_STATES: Final = (
    *("PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "CANCELLED by 1000", "TIMEOUT", "OUT_OF_MEMORY"),
    *("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "REQUEUED", "COMPLETING", "REVOKED", "SUSPENDED"),
)
_TIMES: Final = ("2026-11-20T14:06:30", "2026-11-20T14:06:31", "Unknown", "N/A", "None", "2026-03-29T02:30:00")
_ODD: Final = (
    *("29_[0-3]", "29_[0-2,3:2%1]", "29+0", "29_[0-4000000:500000]", "²", "٣", "29_٣", "9" * 30, "9" * 5000, "1e400"),
    *("-1", "0:9", "0:²", "1:1:1", "99999-00:00:00", "9" * 400 + "G", "1.5G", "50Mn", "0n", "0001-01-01T00:00:00"),
    *("9999-12-31T23:59:59", "2026-11-20T14:06:30+99:99", "2026-W01", "\x85", "a|b", "(null)", "\x1f", "\x1c"),
)


def _cell(value: str, chance: Random, odds: float) -> str:
    """Return a value, or sometimes another."""
    if chance.random() > odds:
        return value
    return str(chance.choice(_ODD if chance.random() < 0.7 else SCALARS))


def _slurm_texts(chance: Random) -> dict[str, str]:
    odds = chance.choice((0.0, 0.03, 0.03, 0.1, 0.3))
    cell = partial(_cell, chance=chance, odds=odds)
    queue, accounts = [], []
    for index in range(_JOBS):
        state = chance.choice(_STATES)
        number = f"{_JOB}_{index}"
        if chance.random() < 0.6:
            fields = (number, str(_JOB + index), state, "None", chance.choice(_TIMES), "node7", "k7f3a-1")
            queue.append("|".join(map(cell, fields)))
        for step in ("", ".batch", ".0") if chance.random() < 0.8 else ():
            values = {
                "JobID": number + step,
                "JobIDRaw": f"{_JOB + index}{step}",
                "State": state,
                "ExitCode": chance.choice(("0:0", "3:0", "0:9", "137:0")),
                "ElapsedRaw": "7",
                "TotalCPU": chance.choice(("00:01.250", "1-02:03:04", "")),
                "MaxRSS": chance.choice(("113561K", "1.50G", "")),
                **dict.fromkeys(("Start", "End", "Submit"), chance.choice(_TIMES)),
            }
            row = tuple(values.get(name, "x") for name in (*ACCOUNT_FIELDS, *GATHERED_FIELDS))
            accounts.append(SEPARATOR.join(map(cell, row)))
    shown = {"JobId": "29", "JobState": "FAILED", "ExitCode": "3:0", "StartTime": _TIMES[0], "EndTime": _TIMES[1]}
    shown |= {
        "RunTime": "00:00:07",
        "SubmitTime": _TIMES[0],
        "BatchHost": "node7",
        "Reason": "None",
        "Command": "a b=c",
    }
    facts = {"SLURM_VERSION": "22.05.8", "MaxArraySize": "1001", "MaxJobCount": "10000", "MinJobAge": "300 sec"}
    facts |= {"AccountingStorageType": "accounting_storage/slurmdbd", "Licenses": "a:3,b", "GresTypes": "gpu,(null)"}
    return {
        "sacct": "".join(f"{line}\n" for line in accounts),
        "squeue": "".join(f"{line}\n" for line in queue),
        "job": " ".join(f"{name}={cell(value)}" for name, value in shown.items()) + "\n",
        "config": "Configuration data\n" + "".join(f"{name:<24}= {cell(value)}\n" for name, value in facts.items()),
        "sbatch": cell("29;testclu", odds=odds * 3) + "\n",
    }


def _slurm(chance: Random, _: Path) -> Files:
    texts = _slurm_texts(chance)
    order = sorted(texts, key=lambda _: chance.random()) if chance.random() < 0.5 else list(texts)
    files = {f"{name}.txt": texts[name].encode("utf-8", "replace") for name in order}
    if chance.random() < 0.2:
        files[f"{order[0]}.txt"] = mutate_text(files[f"{order[0]}.txt"], chance)
    return files


class _PrintedAnswers:
    """Answers queries with the texts of a case."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        del env, timeout_s, stdin
        program = argv[0]
        if program == "scontrol":
            program = "config" if "config" in argv else "job"
        text = " ".join(GATHERED_FIELDS) if "--helpformat" in argv else self._texts[program]
        return ProgramResult(argv=tuple(argv), status=0, out=text)


def _slurm_steps(files: Files) -> Iterator[Step]:
    # As the client decodes what programs print.
    texts = {name.removesuffix(".txt"): content.decode("utf-8", "replace") for name, content in files.items()}

    def parse() -> None:
        if not gathered_rows(texts["sacct"]) and not list(queue_rows(texts["squeue"])):
            raise NotReadError

    yield parse
    yield lambda: REPLIES.read(ProgramResult(argv=(), status=0, out=texts["sbatch"]))
    yield lambda: REPLIES.classify(texts["job"])
    yield lambda: cluster_facts(texts["config"])
    yield lambda: _observe(texts)


def _observe(texts: Mapping[str, str]) -> None:
    """Derive the events of a run from what is printed, as for one that Slurm runs by itself."""
    run = RunPaths(Path("run").absolute())
    run.root.mkdir()
    members = tuple((job, 1) for job in range(_JOBS))
    BatchRecords(run).write(BatchRecord(tag="t", name="k7f3a-1", members=members, at=0.0, memory_b=10**8, id=_JOB))
    client = BatchClient(SlurmDialect({}), shell=_PrintedAnswers(texts))
    client.query_facts()
    observed = NativeObserver(run, client, NativeRecord(at=0.0, accounting=True)).observe_jobs([Request()] * _JOBS)
    if isinstance(observed, dict):
        parents = [(), (0,), (0,), (1, 2)]
        state = RunState(parents, [0] * _JOBS, final=False)
        for event in derive_events(parents, -1, observed, None):
            apply_event(state, event)


SLURM: Final = Kind(make=_slurm, steps=_slurm_steps)


# ----------------------------------------------------------------------------------------------------------- HTCondor

_END: Final = b"\n...\n"
_NODES_LOG: Final = "run/wms/run.dag.nodes.log"
_DAGMAN_LOG: Final = "run/wms/run.dag.dagman.log"
_DAGMAN_OUT: Final = "run/wms/run.dag.dagman.out"
_HEADS: Final = (
    *(
        b"2026-11-22 06:32:17",
        b"2026-13-22 06:32:17",
        b"0000-01-01 00:00:00",
        b"9999-12-31 23:59:59",
        b"11/22 06:32:17",
    ),
    *(b"02/30/2026 06:32:17", b"2026-11-22T06:32:17Z", b"2026-11-22 06:32:17+99:99", b"2026-11-22 25:61:61"),
    *(b"2026-11-22 06:32:17.123456", b"02/29 06:32:17", b"0000-00-00 00:00:00Z", b"00/00/00 00:00:00"),
)
_ODD_BYTES: Final = (
    *(b"-1", b"9" * 30, b"9" * 400, b"9" * 5000, b"nan", b"inf", b"1e400", b"0.5"),
    *(b"", b"\xff", b"\0", "²".encode(), b'"'),
)
_OVER: Final = b"""\
001 (001.000.000) 2026-11-22 06:32:14 Job executing on host: <127.0.0.1:1>
...
005 (001.000.000) 2026-11-22 06:34:05 Job terminated.
\t(1) Normal termination (return value 1)
...
"""
_SAID: Final = b"""
11/22/26 06:32:14 ERROR: Failed to submit
11/22/26 06:32:15 Shortcutting node j1 retries because of submit failure(s)
11/22/26 06:32:16 PRE Script of Node g1 failed with status 3
11/22/26 06:32:17 Warning is fatal error
"""


@cache
def _logs() -> tuple[bytes, ...]:
    return tuple(
        (ROOT / "tests/data/htcondor" / name).read_bytes() for name in ("mixed.nodes.log", "removed.nodes.log")
    )


def _change_record(records: list[bytes], chance: Random) -> None:
    """Change one record: its kind, its numbers, its time, its text or its place."""
    row = chance.randrange(len(records))
    text = records[row]
    match chance.randrange(9):
        case 0:
            records.insert(chance.randrange(len(records)), text)
        case 1 if len(records) > 1:
            del records[row]
        case 2:
            records.append(records.pop(row))
        case 3:
            records[row] = b"%03d" % chance.choice((0, 1, 4, 5, 7, 9, 12, 13, 16, 21, 22, 40, 999)) + text[3:]
        case 4:
            records[row] = text[:5] + b"%03d" % chance.choice((1, 2, 3, 7, 10**9, 10**30)) + text[8:]
        case 5:
            records[row] = text[:18] + chance.choice(_HEADS) + text[37:]
        case 6:
            donor = chance.choice(records)
            records[row] = text.partition(b"\n")[0] + b"\n" + donor.partition(b"\n")[2]
        case _:
            # A number or a word in its text.
            words = text.split(b" ")
            at = chance.randrange(len(words))
            words[at] = chance.choice(_ODD_BYTES)
            records[row] = b" ".join(words)


def _changed_log(text: bytes, chance: Random) -> bytes:
    records = text.split(_END)[:-1]
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        _change_record(records, chance)
    text = b"".join(record + _END for record in records)
    return mutate_text(text, chance) if chance.random() < 0.2 else text


def _htcondor(chance: Random, _: Path) -> Files:
    files = {_NODES_LOG: chance.choice(_logs()), _DAGMAN_LOG: _OVER, _DAGMAN_OUT: _SAID}
    name = chance.choice((_NODES_LOG, _NODES_LOG, _NODES_LOG, _DAGMAN_LOG, _DAGMAN_OUT))
    change = mutate_text if name == _DAGMAN_OUT else _changed_log
    return {name: change(files[name], chance), **{other: text for other, text in files.items() if other != name}}


def _htcondor_steps(_: Files) -> Iterator[Step]:
    run = RunPaths(Path("run").absolute())

    def parse() -> None:
        log = UserLog(Path(_NODES_LOG))
        if not list(log.read_records()) or log.invalid_records:
            raise NotReadError

    def prepare() -> None:
        run.journal.mkdir(exist_ok=True)
        jobs = [Job(name=f"a{job}", label="a", command=("true",), settings=JobSettings(label="a")) for job in range(7)]
        final = Job(name="f", label="f", command=("true",), settings=JobSettings(label="f"))
        create_file(run.workflow, workflow_lines(Workflow("w", Dag.by_name(jobs), final=final)))
        life = Life(v=FORMAT, life=1, t=1795329133.0, host="ap", pid=1, boot="", by="submit")
        handed = DagSubmission(life=life, cluster=1, schedd="ap", retries={1: 1})
        write_submissions(run, SubmissionRecord(submissions=(handed,)))

    def read(is_gone: bool, is_brief: bool) -> None:
        shutil.rmtree(run.cache, ignore_errors=True)
        source = LogEventSource(run, read_submissions(run), lambda: is_gone)
        replay(JobTable(run), (source.brief_events() if is_brief else source.events())[0])

    yield parse
    yield prepare
    for is_gone in (False, True):
        for is_brief in (False, True):
            yield partial(read, is_gone, is_brief)
    readers: tuple[Callable[[Path], object], ...] = (dag_errors, barrier_failures, partial(submit_failures, size=8))
    yield lambda: [reader(Path(_DAGMAN_OUT)) for reader in readers]
    yield lambda: read_dagman_end(Path(_DAGMAN_LOG), 1)


HTCONDOR: Final = Kind(make=_htcondor, steps=_htcondor_steps)
