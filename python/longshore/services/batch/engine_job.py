"""The engine as a job of the workload manager: a small job, requeued when its node fails or its time limit ends."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, cast

import msgspec

from longshore.config.quantities import parse_walltime
from longshore.contract.executor import Batch
from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import DECODE_ERRORS, ConfigError, SubmissionRefusedError
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, Request
from longshore.rundir.journal import life_path, lives
from longshore.rundir.liveness import last_log_line
from longshore.rundir.run_directory import read_card, read_snapshot
from longshore.rundir.submissions import submission_paths
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.jobs import AccountRow, QueuePhase, TaskId
from longshore.services.batch.script_writer import engine_text
from longshore.services.batch.settings import one_of, own_map
from longshore.system.atomic import write_atomically
from longshore.system.reading import read_file
from longshore.system.sharing import seconds_since_boot

TEMPLATE: Final = PurePosixPath("wms", "engine.sh.j2")
_RECORD_PATH: Final = PurePosixPath("wms", "engine-job.json")
_MEMORY_B: Final = 1024 * MIB
"""Memory for a run of about a million jobs."""
_WARNING_S: Final = 120
"""Seconds before the time limit: workload managers may send the signal up to a minute early."""
_START_WAIT_S: Final = 15.0
"""Seconds a submission waits for its engine to start; the job itself may be queued for hours."""
_QUERY_PAUSE_S: Final = 0.5
_MAX_AGE_S: Final = 5.0
"""Age up to which an answer of the queue shows whether the engine is there."""


class _EngineJobRecord(msgspec.Struct, frozen=True):
    """Record of the engine's job."""

    id: int
    at: float


def wants_engine_job(service: str, settings: Mapping[str, object]) -> bool:
    """Whether the engine of a run with these executor settings is a job; raises `ConfigError` for invalid ones."""
    own = own_map(service, settings)
    if one_of(service, own, "engineAs", ("process", "job")) == "process":
        return False
    engine_request(service, own)
    return True


def engine_request(
    service: str, own: Mapping[str, YamlValue], ceilings: Mapping[str, float] = MappingProxyType({})
) -> tuple[Request, dict[str, YamlValue]]:
    """Return the engine's request (``time``), and the settings of its job in the service's words.

    Its memory is no larger than the site's ceilings allow (`longshore.sites.limits.job_ceilings`): nobody asked for
    it. Raises `ConfigError` when the settings are invalid.
    """
    options = own.get("engineJob") or {}
    if not isinstance(options, Mapping):
        raise ConfigError(
            f"'{service}.engineJob' must be a map, not '{options}'", hint="For example 'engineJob: {partition: long}'."
        )
    job_settings = {name: value for name, value in options.items() if name != "time"}
    span = options.get("time")
    limit = None if span is None else parse_walltime(span, f"{service}.engineJob.time")
    return Request(
        cpus=1, memory_b=int(min(_MEMORY_B, ceilings.get("memory", _MEMORY_B))), walltime_s=limit
    ), job_settings


def engine_batch(dialect: Dialect, settings: Mapping[str, object], run_token: str) -> Batch:
    """Return the batch of the engine's job, without members; raises `ConfigError` when the settings are invalid."""
    ceilings = cast("Mapping[str, float]", settings.get("ceilings") or {})
    request, job_settings = engine_request(dialect.name, own_map(dialect.name, settings), ceilings)
    return Batch(id="0", tag=f"{run_token}-engine", request=request, members=(), settings=job_settings)


def engine_script(
    dialect: Dialect,
    run: RunPaths,
    settings: Mapping[str, object],
    template: str,
    *,
    run_token: str,
    by: str,
    command: Sequence[str],
) -> str:
    """Render the script of the engine's job.

    `run_token` begins the name of the job, `by` is the reason of the start, and `command` starts the engine;
    ``--by`` is added. Raises `ConfigError` when the settings are invalid.
    """
    before, line = lives(run.journal), " ".join(map(shlex.quote, command))
    life = life_path(run.journal, before[-1][0] + 1 if before else 1)
    batch = engine_batch(dialect, settings, run_token)
    return engine_text(
        dialect,
        run,
        settings,
        template,
        batch,
        warning_s=_WARNING_S if batch.request.walltime_s else 0,
        by=by,
        command=line,
        body=_ENGINE_BODY.format(by=by, life=shlex.quote(str(life)), command=line),
    )


_ENGINE_BODY: Final = """\
_by={by}
[ ! -e {life} ] || _by=resume
_engine='' _again=''
trap '_again=yes; [ -z "$_engine" ] || kill -TERM "$_engine"' USR1
trap '[ -z "$_engine" ] || kill -TERM "$_engine"' TERM INT
# The warning may go to all processes of the job; the engine is to get TERM alone.
(
    trap '' USR1
    exec {command} --by "$_by"
) &
_engine=$!
wait "$_engine"
_status=$?
# A signal to this script interrupts the wait, not the engine.
while kill -0 "$_engine" 2>/dev/null; do
    wait "$_engine"
    _status=$?
done"""
"""Lines of shell that run the engine, with ``--by resume`` in a job that was started again: an engine left its `life`.

``$_status`` is then its exit status, and ``$_again`` is not empty if the time limit was near: USR1 was sent.
"""


class EngineJob:
    """The job that runs the engine of a run."""

    def __init__(self, run: RunPaths, client: BatchClient) -> None:
        self._run = run
        self._client = client
        self._dialect = client.dialect
        self._title = client.dialect.title
        self._states = client.dialect.states

    def start(self, settings: Mapping[str, object], by: str, command: Sequence[str]) -> str:
        """Submit the engine's job; describe whether the engine has started or waits in the queue.

        Raises `SubmissionRefusedError` when the job is refused or the engine does not start; the job is then removed.
        """
        before = len(lives(self._run.journal))
        template = (submission_paths(self._run).root / TEMPLATE).read_text("utf-8")
        try:
            script = engine_script(
                self._dialect,
                self._run,
                settings,
                template,
                run_token=read_card(self._run).run_token,
                by=by,
                command=command,
            )
        except ConfigError as error:
            raise SubmissionRefusedError(error.message, hint=error.hint) from error
        number = self._client.submit_with_id(script, what=f"the engine of '{self._run.root}'")
        text = msgspec.json.encode(_EngineJobRecord(number, time.time()))
        write_atomically(self._run.root / _RECORD_PATH, text, below=self._run.root, durable=True)
        return self._wait_for_start(number, before)

    def _wait_for_start(self, number: int, before: int) -> str:
        """Wait a moment for the engine to start."""
        deadline = time.monotonic() + _START_WAIT_S
        state = "PENDING"
        while time.monotonic() < deadline:
            if len(lives(self._run.journal)) > before:
                return f"the engine is job {number} of {self._title}"
            shown = self._client.show_job(TaskId(number))
            if isinstance(shown, AccountRow):
                state = shown.state or state
                if self._states.phase(state) is QueuePhase.OVER and len(lives(self._run.journal)) == before:
                    raise SubmissionRefusedError(
                        f"the engine of '{self._run.root}', job {number} of {self._title}, did not begin: "
                        f"{last_log_line(self._run) or state}",
                        hint=f"Its output is in '{self._run.engine_log}'.",
                    )
            time.sleep(_QUERY_PAUSE_S)
        return f"the engine is job {number} of {self._title}, and waits in the queue"

    def phase(self) -> QueuePhase | None:
        """Return the phase of the job; ``UNKNOWN`` without an answer, ``None`` when there is no job."""
        record = self._read_record()
        if record is None:
            return None
        snapshot, engine_lives = read_snapshot(self._run), lives(self._run.journal)
        if snapshot and snapshot.finished and snapshot.at >= record.at and engine_lives[-1][0] == snapshot.life:
            # The engine has finished, and its job is only being cleaned up.
            return QueuePhase.OVER
        # An answer to a query before the submission does not include it.
        submitted_at = seconds_since_boot() - max(0.0, time.time() - record.at)
        answer = self._client.queue(max_age_s=_MAX_AGE_S, not_before=submitted_at)
        if answer is None or answer.text is None:
            return QueuePhase.UNKNOWN
        rows = (row for row in self._client.rows(answer) if row.id.job == record.id)
        row = next(rows, None)
        return QueuePhase.OVER if row is None else self._states.phase(row.state)

    def end(self) -> None:
        """Cancel the job in any phase; raises `SubmissionRefusedError` without an answer."""
        record = self._read_record()
        if record is None:
            return
        failed = self._client.cancel([TaskId(record.id)])
        if failed is not None:
            raise SubmissionRefusedError(
                f"the engine of '{self._run.root}', job {record.id} of {self._title}, cannot be ended: {failed.why}"
            )
        deadline = time.monotonic() + _START_WAIT_S
        while time.monotonic() < deadline:
            shown = self._client.show_job(TaskId(record.id))
            if shown is None or (
                not isinstance(shown, Unreachable) and self._states.phase(shown.state) is QueuePhase.OVER
            ):
                return
            time.sleep(_QUERY_PAUSE_S)

    def _read_record(self) -> _EngineJobRecord | None:
        try:
            return msgspec.json.decode(read_file(self._run.root / _RECORD_PATH), type=_EngineJobRecord)
        except (OSError, *DECODE_ERRORS):
            return None
