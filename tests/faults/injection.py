"""Runs the real program with one failing call, and checks that nothing is lost, run twice or left hanging."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.faults.shim import SHORT, CallClass, Fault
from tests.faults.small_run import JOBS, SmallRun, count_jobs

from longshore.model.states import JobState

ERRORS: Final[dict[CallClass, tuple[int, ...]]] = {
    CallClass.WRITE: (errno.EIO, errno.ENOSPC, SHORT),
    CallClass.SYNC: (errno.EIO,),
    CallClass.RENAME: (errno.EIO, errno.ENOSPC),
    CallClass.OPEN: (errno.EIO, errno.ENOSPC, errno.EMFILE),
    CallClass.MKDIR: (errno.ENOSPC,),
    CallClass.SPAWN: (errno.EAGAIN, errno.ENOMEM),
    CallClass.UNLINK: (errno.EIO,),
}
"""What each class of calls can fail with."""
LIMIT_S: Final = 45.0
"""Time in which a run of a second ends, with all pauses that a failure brings."""


def count_calls(place: Path) -> dict[CallClass, int]:
    """Return the number of calls of each class in a run without a failure."""
    run = SmallRun(place)
    run.prepare_folders()
    run.write()
    answer = run.command("submit", "run.yaml")
    assert answer.status == 0, answer
    assert run.wait_for_end(LIMIT_S)
    return run.shim.read_counts()


def faults(counts: dict[CallClass, int]) -> list[Fault]:
    """Return all single failures of a run with so many calls."""
    return [
        # `subprocess` makes up for one failed start by itself.
        Fault(kind, number, error, times=2 if kind is CallClass.SPAWN else 1)
        for kind, errors in ERRORS.items()
        for error in errors
        for number in range(1, counts[kind] + 1)
    ]


def name_fault(fault: Fault) -> str:
    """Describe a failure, as `parse_fault` reads it."""
    error = "SHORT" if fault.error == SHORT else errno.errorcode[fault.error]
    return f"{fault.kind.name.lower()}:{fault.number}:{error}" + (f":{fault.times}" if fault.times > 1 else "")


def parse_fault(text: str) -> Fault:
    """Read a failure, for example ``write:17:EIO``."""
    kind, number, error, *times = text.split(":")
    value = SHORT if error == "SHORT" else int(getattr(errno, error))
    return Fault(CallClass[kind.upper()], int(number), value, int(times[0]) if times else 1)


def inject(fault: Fault, place: Path) -> list[str]:
    """Run the small workflow with a failure, resume it without one, and return what is wrong."""
    run = SmallRun(place)
    run.prepare_folders()
    run.write()
    try:
        return list(_check(run, fault))
    finally:
        run.kill()


def _check(run: SmallRun, fault: Fault) -> Iterator[str]:
    told = []
    answer = run.command("submit", "run.yaml", env=run.environment(fault), limit_s=LIMIT_S)
    told.append(answer.output + answer.errors)
    if answer.status is None:
        yield "'submit' does not end"
    elif not run.wait_for_end(LIMIT_S):
        yield f"the run does not end after 'submit':{engine_log(run)}"
    elif answer.status and "longshore: error" not in answer.errors:
        yield f"'submit' fails without an error: {answer}"
    for words in _ways_out(run):
        answer = run.command(*words, env=run.environment(), limit_s=LIMIT_S)
        told.append(answer.output + answer.errors)
        if answer.status == 0:
            if not run.wait_for_end(LIMIT_S):
                yield f"the run does not end after '{words[0]}':{engine_log(run)}"
            break
        if answer.status is None:
            yield f"'{words[0]}' does not end"
    told.append(engine_log(run))
    yield from _check_end(run, told)


def _ways_out(run: SmallRun) -> list[tuple[str, ...]]:
    """Return commands that continue, in the order in which a user would try them."""
    if not run.root.exists():
        return [("submit", "run.yaml")]
    if run.report().state is JobState.SUCCEEDED:
        return []
    return [("resume", str(run.root)), ("submit", str(run.root))]


def _check_end(run: SmallRun, told: list[str]) -> Iterator[str]:
    if traces := [text for text in told if "Traceback" in text]:
        yield f"an error has a traceback: {traces[0]}"
    if not run.root.exists():
        yield f"there is no run: {told}"
        return
    report = run.report()
    counts = count_jobs(report)
    if report.state is not JobState.SUCCEEDED or counts != {JobState.SUCCEEDED: len(JOBS)}:
        yield f"the run ended as {report.state}: {counts}\n{told}"
    effects = Counter(run.effects())
    if twice := [effect for effect, count in effects.items() if count > 1]:
        yield f"attempts ran twice: {twice}"
    done = Counter(effect.job for effect in effects if effect.what == "done")
    if again := [job for job, count in done.items() if count > 1]:
        yield f"jobs ran again after success: {again}\n{told}"


def engine_log(run: SmallRun) -> str:
    """Return what the engine said."""
    path = run.root / "engine.log"
    return path.read_text("utf-8", "replace") if path.exists() else ""
