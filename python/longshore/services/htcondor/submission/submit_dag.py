"""Submits a run to DAGMan exactly once, the first time or with a rescue file; resolves interrupted submissions."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final

import msgspec

from longshore import __version__
from longshore.contract.service import RunPaths
from longshore.errors import (
    FilesError,
    LongshoreError,
    SubmissionRefusedError,
    SubmissionUncertainError,
    UnreachableError,
)
from longshore.model.event import PLAIN_FORMAT, Life, Restarted, Steer
from longshore.rundir.job_table import JobTable, read_header
from longshore.rundir.run_directory import read_card
from longshore.rundir.submissions import newest_submission
from longshore.runstate.replay import read_reused_jobs
from longshore.services.htcondor.codes import FINAL_NODE
from longshore.services.htcondor.render.barrier_script import dag_lines
from longshore.services.htcondor.render.dag import CONFIG, OVERRIDES_TEXT
from longshore.services.htcondor.render.log_names import log_folder, subfolder
from longshore.services.htcondor.render.retries import NO_RETRY
from longshore.services.htcondor.schedd.client import CondorClient, DagmanJob, quoted
from longshore.services.htcondor.submission.validate import validate_dag
from longshore.services.htcondor.submission_record import (
    DAG,
    OVERRIDES,
    DagSubmission,
    SubmissionRecord,
    backup_folder,
    newest_folder,
    read_submissions,
    write_submissions,
)
from longshore.system.atomic import atomic_file, write_atomically
from longshore.system.folder import make_folders, move, remove_empty_folder, remove_file
from longshore.system.host import boot_id, host_name

# Writes what BPS's HTCondor plug-in keeps of a submission, so that ``bps`` finds DAGMan's job: ``*.info.json``.


def write_dag_info(path: Path, dagman: DagmanJob, attributes: Mapping[str, str], *, below: Path) -> None:
    """Write the ids of DAGMan's job and the attributes of the run; raises `OSError` if that fails."""
    ad = {"ClusterId": dagman.cluster, "GlobalJobId": dagman.global_id, **attributes}
    content = {dagman.schedd: {f"{dagman.cluster}.0": ad}}
    write_atomically(path, msgspec.json.encode(content), below=below)


def resolve_submission(run: RunPaths, client: CondorClient, record: SubmissionRecord) -> SubmissionRecord:
    """The record of submissions, without an unresolved one.

    A submission that arrived is recorded; otherwise all files return to their places. The caller must keep others from
    submitting the run meanwhile: a submission in progress is not recorded either.

    Raises `UnreachableError` if the schedd does not answer.
    """
    pending = record.pending
    if pending is None:
        return record
    dagman = client.find_dagman(submission_constraint(run, pending.life.life), since=pending.life.t)
    if dagman is None:
        roll_back(run, record)
        return read_submissions(run)
    return record_dagman(run, msgspec.structs.replace(record, pending=None), pending, dagman)


def record_dagman(
    run: RunPaths, record: SubmissionRecord, pending: DagSubmission, dagman: DagmanJob
) -> SubmissionRecord:
    """Record that the schedd took a submission; return the new record."""
    submission = msgspec.structs.replace(
        pending,
        life=msgspec.structs.replace(pending.life, pid=dagman.cluster),
        cluster=dagman.cluster,
        schedd=dagman.schedd,
        global_id=dagman.global_id,
    )
    record = msgspec.structs.replace(record, submissions=(*record.submissions, submission))
    write_submissions(run, record)
    card = read_card(run)
    summary = ";".join(f"{label}:{count}" for label, count in card.labels.items())
    attributes = {key: value for key, value in card.attributes.items() if key.startswith("bps_")}
    # Only `bps` reads it.
    with suppress(OSError):
        path = submission.files(run).wms / "run.info.json"
        write_dag_info(path, dagman, {**attributes, "bps_job_summary": summary}, below=run.root)
    return record


def submission_constraint(run: RunPaths, life: int) -> str:
    """Constraint that only the DAGMan job of this submission meets."""
    return f"LongshoreRun =?= {quoted(read_card(run).run_token)} && LongshoreLife =?= {life} && JobUniverse == 7"


def roll_back(run: RunPaths, record: SubmissionRecord) -> None:
    """Restore the files of the run directory to their state before a failed submission."""
    current = read_submissions(run)
    if len(current.submissions) != len(record.submissions):
        return
    last, folder = record.last_submission, backup_folder(run, len(record.submissions))
    failed = current.pending.files(run) if current.pending is not None else run
    with suppress(OSError):
        if last is None:
            for path in run.wms.glob(f"{DAG.name}.*"):
                remove_file(path, below=run.root)
        elif folder.is_dir():
            if (folder / OVERRIDES.name).exists():
                # The backup is complete: the files there belong to the failed submission.
                for path in failed.wms.glob(f"{DAG.name}.*"):
                    remove_file(path, below=run.root)
            # The mark of a complete backup first: if killed from here on, no restored file is deleted.
            for path in sorted(folder.iterdir(), key=lambda path: path.name != OVERRIDES.name):
                if not path.name.startswith("."):
                    move(path, last.files(run).wms / path.name, below=run.root)
                else:
                    remove_file(path, below=run.root)
            remove_empty_folder(folder, below=run.root)
        write_submissions(run, msgspec.structs.replace(current, pending=None))


# With a rescue file, DAGMan skips the nodes that succeeded.


_NOOP: Final = re.compile(r"^JOB\s+(\S+)\s.*\bNOOP\b", re.IGNORECASE)
_AFTER: Final = re.compile(r'^VARS\s+(\S+)\s+after\d+="([^"]*)"')
_RETRY: Final = re.compile(r"^RETRY\s+(\S+)\s+(\d{1,9})\b(?:\s+UNLESS-EXIT\s+(\d{1,9}))?", re.IGNORECASE)
_JOB: Final = re.compile(r"^j(\d{1,9})$")


def parse_retries(lines: Iterable[str], size: int) -> tuple[dict[int, int], dict[int, int]]:
    """Number of retries by DAGMan itself, for the jobs that have any: after all failures, and after removals alone.

    `size` is the number of jobs.
    """
    failures: dict[int, int] = {}
    removals: dict[int, int] = {}
    for line in lines:
        if retry := _RETRY.match(line):
            job = _JOB.match(retry[1])
            if job or retry[1] == FINAL_NODE:
                number = int(job[1]) if job else size - 1
                (removals if retry[3] == str(NO_RETRY) else failures)[number] = int(retry[2])
                # The later of two lines counts.
                (failures if retry[3] == str(NO_RETRY) else removals).pop(number, None)
    return failures, removals


def done_nodes(lines: Iterable[str], done: Collection[int]) -> Iterator[str]:
    """Names of the nodes to skip: jobs that are done, and joins behind only such nodes."""
    joins: dict[str, list[str]] = {}
    edges: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if found := _NOOP.match(line):
            joins[found[1]] = []
        elif (found := _AFTER.match(line)) and found[1] in joins:
            # A gate lists in variables what it waits for; it has no edges to that.
            joins[found[1]] += found[2].split()
        elif line.startswith("PARENT"):
            before, _, behind = line.removeprefix("PARENT").partition(" CHILD ")
            edges.append((before.split(), behind.split()))
    for parents, children in edges:
        for child in children:
            if child in joins:
                joins[child] += parents
    yield from (f"j{job}" for job in sorted(done))
    yield from _done_joins(joins, done)


def _done_joins(joins: dict[str, list[str]], done: Collection[int]) -> Iterator[str]:
    is_join_done: dict[str, bool] = {}
    for first in joins:
        stack = [first]
        while stack:
            join = stack[-1]
            open_joins = [node for node in joins[join] if node in joins and node not in is_join_done]
            if open_joins:
                stack += open_joins
                continue
            stack.pop()
            is_join_done[join] = all(
                is_join_done[node] if node in joins else _is_done(node, done) for node in joins[join]
            )
    yield from (join for join, is_done in is_join_done.items() if is_done)


def _is_done(node: str, done: Collection[int]) -> bool:
    job = _JOB.match(node)
    return job is not None and int(job[1]) in done


def rescue_text(done: Iterable[str]) -> Iterator[str]:
    """The text of a rescue file with these nodes done."""
    yield "# Rescue DAG file\n# Rescue DAG version: 2.1.0\n#\n"
    yield from (f"DONE {node}\n" for node in done)


_RESCUE: Final = "run.dag.rescue001"
APPEND: Final = "APPEND "
"""Prefix of a command that is appended to the submit description, where no macro sets it."""


class DagRestart(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a restart."""

    restarted: Restarted
    """The jobs that run again."""
    steers: tuple[Steer, ...]
    """The requests that change."""
    done: Collection[int]
    """Numbers of the jobs that are done and stay so."""
    from_first_task: Collection[int]
    """File numbers of the jobs that start from their first task, even if some tasks were done."""
    overrides: Mapping[str, Mapping[str, str]]
    """Per node, the macros and commands of its new request, with their values."""


def submit_run(run: RunPaths, client: CondorClient, *, by: str, plan: DagRestart | None = None) -> DagSubmission:
    """Submit a run and record the submission.

    `by` is ``submit`` or ``restart``; `plan` is ``None`` for the first submission. Raises `LongshoreError` if HTCondor
    did not take it; then nothing of it is in the queue. Raises `SubmissionUncertainError` if the outcome is not known.
    """
    before = read_submissions(run)
    record = resolve_submission(run, client, before)
    if record.last_submission is not None and len(record.submissions) > len(before.submissions):
        last = record.last_submission
        if plan is None:
            return last
        raise SubmissionRefusedError(
            f"'{run.root}' was submitted before: DAGMan is job {last.cluster}.0 of '{last.schedd}'",
            hint="Wait for it, or cancel the run first.",
        )
    pending = _pending_submission(run, record, by, plan, _check_dag(run, client, plan))
    # Without an answer here, nothing was submitted.
    client.require_answer()
    try:
        # If this process is killed from here on, the record tells the next one.
        write_submissions(run, msgspec.structs.replace(record, pending=pending))
        if plan is not None:
            _prepare_restart(run, record, pending, plan)
        else:
            _skip_reused_jobs(run)
        return _submit_and_record(run, client, record, pending)
    except UnreachableError as error:
        return _find_submission(run, client, record, error)
    except OSError as error:
        roll_back(run, record)
        raise FilesError(f"'{error.filename or run.wms}' cannot be written: {error.strerror}") from error
    except LongshoreError:
        roll_back(run, record)
        raise


def _check_dag(run: RunPaths, client: CondorClient, plan: DagRestart | None) -> tuple[dict[int, int], dict[int, int]]:
    """The retries by DAGMan of each job, after all checks of the DAG."""
    dag = run.root / newest_folder(run) / DAG
    if not dag.is_file():
        raise FilesError(f"there is no DAG '{dag}' to submit", hint="Prepare the run again.")
    retries = parse_retries(dag_lines(dag), read_header(run).jobs)
    _refuse_run_by_hand(run, plan)
    _refuse_strict_tmp(dag, client)
    validate_dag(dag, dag_lines(dag), client)
    return retries


def _pending_submission(
    run: RunPaths,
    record: SubmissionRecord,
    by: str,
    plan: DagRestart | None,
    retries: tuple[dict[int, int], dict[int, int]],
) -> DagSubmission:
    """The record written before the schedd is asked."""
    submission, digest = newest_submission(run)
    life = Life(
        v=PLAIN_FORMAT,
        life=len(record.submissions) + 1,
        t=time.time(),
        host=host_name(),
        pid=os.getpid(),
        boot=boot_id(),
        by=by,
        longshore=__version__,
        s=submission,
        manifest=digest,
    )
    return DagSubmission(
        life=life,
        cluster=0,
        schedd="",
        restarted=plan.restarted if plan else None,
        steers=plan.steers if plan else (),
        retries=retries[0],
        removal_retries=retries[1],
        folder=newest_folder(run),
    )


def _find_submission(
    run: RunPaths, client: CondorClient, record: SubmissionRecord, error: LongshoreError
) -> DagSubmission:
    """A submission whose result is unknown: the schedd stopped answering, or did not commit it.

    Raises `SubmissionUncertainError` if its fate is still unknown, another `LongshoreError` if it did not arrive.
    """
    try:
        current = resolve_submission(run, client, read_submissions(run))
    except LongshoreError:
        raise SubmissionUncertainError(
            f"whether the schedd took '{run.root}' is not known: {error.message}",
            hint=f"When the schedd answers again, 'longshore submit {quote(str(run.root))}' finds it or submits it.",
        ) from error
    if current.last_submission is None or len(current.submissions) == len(record.submissions):
        raise SubmissionRefusedError(error.message) if isinstance(error, SubmissionUncertainError) else error
    return current.last_submission


def _submit_and_record(
    run: RunPaths, client: CondorClient, record: SubmissionRecord, pending: DagSubmission
) -> DagSubmission:
    card = read_card(run)
    options: dict[str, str | int] = {"BatchName": card.name}
    attributes = {
        "My.LongshoreRun": quoted(card.run_token),
        "My.LongshoreName": quoted(card.name),
        "My.LongshoreLife": str(pending.life.life),
        "My.LongshorePath": quoted(str(run.root)),
    }
    dagman = client.submit_dag(pending.files(run).root / DAG, options, attributes)
    try:
        return record_dagman(run, record, pending, dagman).submissions[-1]
    except BaseException as error:
        # A DAG without a record must not run.
        client.apply_action("Remove", f"ClusterId == {dagman.cluster}", "its submission could not be recorded")
        if isinstance(error, OSError):
            raise FilesError(f"'{run.wms}' cannot be written: {error.strerror}") from error
        raise


def _refuse_run_by_hand(run: RunPaths, plan: DagRestart | None) -> None:
    """Refuse a DAG that was run by hand: DAGMan would take its files for those of this run."""
    path = run.root / f"{DAG}.condor.sub"
    if plan is None and path.exists():
        raise SubmissionRefusedError(
            f"'{path}' exists: this DAG was run by hand",
            hint="Prepare the run again, or remove that file if no job of the DAG is in the queue any more.",
        )


def _refuse_strict_tmp(dag: Path, client: CondorClient) -> None:
    """Refuse a DAG under ``/tmp`` where DAGMan is strict: it would end at once, without a message."""
    strict = _read_config(dag.parent / CONFIG, "DAGMAN_USE_STRICT") or client.setting("DAGMAN_USE_STRICT") or "1"
    if dag.is_relative_to("/tmp") and strict != "0":  # noqa: S108 - HTCondor's own rule names it
        raise SubmissionRefusedError(
            f"DAGMan refuses to run a DAG from '{dag.parent}': logs under /tmp are lost when the machine starts anew, "
            f"and DAGMAN_USE_STRICT is {strict}",
            hint="Set 'submitPath' to a directory elsewhere.",
        )


def _read_config(config: Path, name: str) -> str:
    """Setting in the run's DAGMan configuration, which overrides the pool's; empty if absent."""
    if not config.exists():
        return ""
    assignments = (line.partition("=") for line in config.read_text("utf-8").splitlines())
    return {key.strip().upper(): value.strip() for key, _, value in assignments}.get(name, "")


# ------------------------------------------------------------------------------------------------------------ restart


def _prepare_restart(run: RunPaths, record: SubmissionRecord, pending: DagSubmission, plan: DagRestart) -> None:
    """Move the last submission's files to the backups; write the rescue file and the overrides of the next."""
    # Imported here: a first submission forgets no tasks.
    from longshore.engine.run.judge_end import forget_tasks

    last, files, folder = record.last_submission, pending.files(run), backup_folder(run, len(record.submissions))
    assert last is not None
    try:
        forget_tasks(run, plan.from_first_task)
        make_folders(folder, below=run.root, durable=True)
        for path in sorted(last.files(run).wms.glob("run.dag.*")):
            move(path, folder / path.name, below=run.root)
        overrides = last.files(run).root / OVERRIDES
        before = overrides.read_text("utf-8") if overrides.exists() else ""
        # This file in the backup marks the backup as complete.
        write_atomically(folder / overrides.name, before, below=run.root, durable=True)
        if pending.folder != last.folder:
            # Those of another DAG name its nodes. An interrupted restart may have written here before.
            before = OVERRIDES_TEXT
            _make_log_folders(run)
        text = before + "".join(_override_lines(plan.overrides))
        write_atomically(files.root / OVERRIDES, text, below=run.root, durable=True)
        _write_rescue(run, files, plan.done)
    except OSError as error:
        raise FilesError(f"'{error.filename or folder}' cannot be written: {error.strerror}") from error


def _make_log_folders(run: RunPaths) -> None:
    """Make the folders of the logs of a changed workflow: HTCondor creates none."""
    jobs = JobTable(run, "numbers")
    numbered = ((jobs.label(job), jobs.file_number(job)) for job in range(len(jobs)))
    for folder in sorted({log_folder(label, subfolder(number)) for label, number in numbered}):
        make_folders(run.root / folder, below=run.root)


def _skip_reused_jobs(run: RunPaths) -> None:
    """Have DAGMan skip the jobs whose results another run made."""
    if (reused := read_reused_jobs(run)) is not None:
        _write_rescue(run, run, reused.jobs)


def _write_rescue(run: RunPaths, files: RunPaths, done: Collection[int]) -> None:
    nodes = done_nodes(dag_lines(files.root / DAG), done)
    with atomic_file(files.wms / _RESCUE, below=run.root, durable=True) as file:
        file.writelines(line.encode() for line in rescue_text(nodes))


def _override_lines(overrides: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for node, values in overrides.items():
        macros = [f'{name}="{value}"' for name, value in sorted(values.items()) if not name.startswith(APPEND)]
        if macros:
            yield f"VARS {node} {' '.join(macros)}\n"
        for name, value in sorted(values.items()):
            if name.startswith(APPEND):
                yield f'VARS {node} {name}="{value}"\n'
