"""Makes a whole service of an executor: the run is driven by a detached engine of its own."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from longshore.contract.context import Context, PingReport, RenderedFile, RunPaths, Unreachable
from longshore.contract.executor import CancelOutcome, Executor, Mark
from longshore.contract.service import Changes, Selection, WmsService
from longshore.engine import orders
from longshore.engine import settings as engine_settings
from longshore.engine.journal import lives, read_events
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Event, Finished, Life
from longshore.model.state import JobState
from longshore.model.submission import Submission
from longshore.world.clock import Clock, SystemClock, timestamp
from longshore.world.detach import start_detached
from longshore.world.host import host_name, user_name
from longshore.world.rundir import read_card, read_snapshot

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

_BEGIN_S: Final = 60.0
"""How long an engine may take to begin: reading a million jobs takes a while."""
_LOCK_S: Final = 2.0
"""How long an engine waits for its lock, which every reader takes for an instant."""


class EngineService(WmsService):
    """A service for a manager of single jobs; a subclass names it and gives the executor."""

    @abstractmethod
    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return an executor with its own settings, not yet opened."""

    def by_hand(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return files with which the jobs can be run without Longshore; pure."""
        return iter(())

    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the engine's settings, and what is usable by hand."""
        yield engine_settings.rendered(ctx)
        yield from self.by_hand(workflow, ctx)

    def submit(self, run: RunPaths) -> Submission:
        """Start the run's first engine."""
        return self._begin(run, "submit")

    def resume(self, run: RunPaths) -> Submission | None:
        """Start another engine for a run whose engine died."""
        self._refuse_if_alive(run)
        return None if self._finished(run) else self._begin(run, "resume")

    def restart(self, run: RunPaths, changes: Changes) -> Submission:
        """Start an engine that runs again what did not succeed."""
        self._refuse_if_alive(run)
        end = self._finished(run)
        if end and end.state == JobState.SUCCEEDED:
            raise SubmissionRefusedError(f"'{run.root}' has nothing to run again: every job succeeded")
        # What was ordered before was meant for the submission that is over.
        orders.discard(run)
        return self._begin(run, "restart")

    def cancel(self, run: RunPaths, selection: Selection) -> CancelOutcome:
        """Leave the order, and see to it that there is an engine to take it."""
        active = self._count_active(run)
        if self._finished(run):
            return CancelOutcome(ended=0)
        order = orders.Order(
            who=user_name(),
            act="cancel",
            jobs=selection.jobs,
            labels=selection.labels,
            set={"final": "no"} if selection.final_too else {},
        )
        path = orders.leave(run, order)
        while path.exists():
            if self.alive(run):
                time.sleep(_POLL_S)
            elif self._finished(run):
                # It came to its end of itself before the order was taken.
                orders.discard(run)
            else:
                self._begin(run, "cancel")
        return CancelOutcome(ended=active)

    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the journal's events; the mark is the number of those already seen."""
        everything = list(read_events(run.journal))
        return iter(everything[int(mark or 0) :]), str(len(everything))

    def alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether an engine holds the run's lock, or another host's engine wrote a snapshot a moment ago."""
        try:
            lock = os.open(run.engine_lock, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return _beats_elsewhere(run)

    def ping(self, ctx: Context) -> PingReport:
        """Return what the executor finds."""
        return self.executor(ctx.settings.get("executor", {})).probe()

    def drive(self, run: RunPaths, by: str, *, clock: Clock | None = None) -> JobState:
        """Be the engine, in the foreground, until nothing of the run can move any more."""
        # The engine proper is imported by the one process that is one; a command that asks for a status is not.
        from longshore.engine.loop import Engine, Superseded

        with _locked(run):
            settings = engine_settings.read(run)
            if settings.umask is not None:
                # Of this process, and so of its keepers and their jobs.
                os.umask(settings.umask)
            engine = Engine(
                run,
                self.executor(settings.executor),
                settings,
                clock=clock or SystemClock(),
                by=by,
                say=_teller(clock or SystemClock()),
            )
            if by == "restart":
                engine.restart()
            try:
                return engine.run()
            except Superseded as reason:
                _teller(clock or SystemClock())(f"this engine stops: {reason}")
                return JobState.UNKNOWN

    def _begin(self, run: RunPaths, by: str) -> Submission:
        before = len(lives(run.journal))
        # -P: what lies in the run directory must not pass for a module.
        command = [sys.executable, "-P", "-m", "longshore", "drive", str(run.root), "--by", by]
        said = run.engine_log.stat().st_size if run.engine_log.exists() else 0
        try:
            process, how = start_detached(command, log=run.engine_log)
        except OSError as error:
            raise SubmissionRefusedError(f"the engine of '{run.root}' cannot be started: {error}") from error
        _wait_for_life(run, process, before, said)
        card = read_card(run)
        return Submission(
            id=card.id,
            by=by,
            at=time.time(),
            user=user_name(),
            host=host_name(),
            notes=(f"the engine runs {how.description}",),
        )

    def _refuse_if_alive(self, run: RunPaths) -> None:
        if self.alive(run):
            snapshot = read_snapshot(run)
            state = snapshot.state if snapshot else JobState.RUNNING
            raise SubmissionRefusedError(
                f"'{run.root}' is {state}: its engine is alive", hint="Wait for it, or cancel the run first."
            )

    def _finished(self, run: RunPaths) -> Finished | None:
        last: Finished | None = None
        for event in read_events(run.journal):
            if isinstance(event, Finished):
                last = event
            elif isinstance(event, Life):
                last = None
        return last

    def _count_active(self, run: RunPaths) -> int:
        snapshot = read_snapshot(run)
        if snapshot is None:
            return 0
        return snapshot.counts.get(JobState.RUNNING, 0) + snapshot.counts.get(JobState.PENDING, 0)


_POLL_S: Final = 0.02
_FRESH_S: Final = 60.0
"""Age up to which another host's snapshot means that its engine lives; six of its heartbeats."""


def _beats_elsewhere(run: RunPaths) -> bool:
    snapshot = read_snapshot(run)
    if snapshot is None or snapshot.finished or snapshot.host == host_name():
        return False
    # Both times are the file system's own, so that no two clocks are compared.
    probe = run.root / f".clock-{os.getpid()}"
    try:
        probe.touch()
        age = probe.stat().st_mtime - run.status.stat().st_mtime
        probe.unlink()
    except OSError:
        return True
    return age < _FRESH_S


@contextmanager
def _locked(run: RunPaths) -> Iterator[None]:
    lock = os.open(run.engine_lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SubmissionRefusedError(f"'{run.root}' already has an engine on this host") from None
                time.sleep(_POLL_S)
            else:
                break
        yield
    finally:
        os.close(lock)


def _wait_for_life(run: RunPaths, process: subprocess.Popen[bytes], before: int, said: int) -> None:
    deadline = time.monotonic() + _BEGIN_S
    while True:
        # Asked before its life is looked for: that of a small run may be over in between.
        over = process.poll() is not None
        if len(lives(run.journal)) > before:
            # It goes on without us, as it should; `Popen` would complain about that.
            process.returncode = 0
            return
        if over or time.monotonic() > deadline:
            words = run.engine_log.read_bytes()[said:].decode("utf-8", "replace").strip().splitlines()
            process.kill()
            process.wait()
            raise SubmissionRefusedError(
                f"the engine of '{run.root}' did not begin: {words[-1] if words else 'it said nothing'}",
                hint=f"Its words are in '{run.engine_log}'." if words[1:] else "",
            )
        time.sleep(_POLL_S)


def _teller(clock: Clock) -> Callable[[str], None]:
    def say(line: str) -> None:
        # Standard error is the engine's log; see `start_detached`.
        # The engine must not die of what it cannot say: the disk that is full may be the one its log is on.
        with suppress(OSError):
            sys.stderr.write(f"{timestamp(clock.now())} {line}\n")
            sys.stderr.flush()

    return say
