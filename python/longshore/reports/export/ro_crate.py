"""A run as Process Run Crate 0.5 (RO-Crate 1.1): what ran with which files, as a directory or one archive."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec

from longshore.errors import FilesError
from longshore.model.event import Attempt
from longshore.model.report import RunReport
from longshore.model.states import TERMINAL_STATES, JobState
from longshore.model.tasks import is_remote
from longshore.model.wording import count_noun, format_timestamp
from longshore.reports.documents.document import to_json
from longshore.reports.export.wfformat import TracedRun, readable
from longshore.system.atomic import atomic_file, create_file, draft_path
from longshore.system.folder import make_folders, move, remove_tree
from longshore.system.output_file import require_parent, write_error

Entity: TypeAlias = dict[str, Any]

METADATA: Final = "ro-crate-metadata.json"
ATTEMPTS: Final = "attempts.csv"
WORKFLOW: Final = "workflow.json"
MAX_JOBS: Final = 5000
"""Jobs up to which each has an action, and each file an entity."""
_PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
_CONTEXT: Final = ("https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context")
_LICENSE: Final = "No licence was stated. Ask the owner of the run before its data are used."
_TYPES: Final = MimeTypes()
"""Types of files by their suffix, the same on every host."""
_TYPES.add_type("application/yaml", ".yaml")
_URL_SIGNS: Final = ":/?#[]@!$&'()*+,;=%"


class CrateFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file or directory that a crate refers to, by its absolute path or URL."""

    path: str
    is_directory: bool = False
    size_b: int | None = None
    sha256: str = ""


class CrateRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a crate tells of a run.

    Attributes
    ----------
    newest
        The newest attempt of each job that has one.
    files
        Files of the workflow by name.
    sources
        Files that the run was made from.
    """

    trace: TracedRun
    report: RunReport
    newest: Mapping[int, Attempt]
    files: Mapping[str, CrateFile]
    sources: Sequence[CrateFile] = ()


def render_metadata(run: CrateRun) -> str:
    """Return the metadata of a crate, which has the table of attempts and the trace of the workflow beside it."""
    return to_json({"@context": _CONTEXT, "@graph": list(_entities(run))}) + "\n"


def _entities(run: CrateRun) -> Iterator[Entity]:
    report, is_small = run.report, len(run.trace.jobs) <= MAX_JOBS
    sources = _file_entities(run.sources)
    files = _file_entities(_used_files(run)) if is_small else {}
    actions = [_run_action(run, sources, files), *(_job_actions(run) if is_small else ())]
    user = _person(report)
    yield {
        "@id": METADATA,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    yield {
        "@id": "./",
        "@type": "Dataset",
        "name": readable(report.name) or report.id,
        "description": _describe(run, is_small=is_small),
        "datePublished": _time(report.finished_at or run.trace.created_at),
        "license": _LICENSE,
        "author": {"@id": user["@id"]},
        "conformsTo": {"@id": _PROFILE},
        "hasPart": _references([ATTEMPTS, WORKFLOW, *{**sources, **files}]),
        "mentions": _references(action["@id"] for action in actions),
    }
    yield {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    yield {
        "@id": "#longshore",
        "@type": "SoftwareApplication",
        "name": "Longshore",
        "softwareVersion": run.trace.version or "unknown",
    }
    yield user
    yield _part(ATTEMPTS, "text/csv", "Table of all attempts of jobs")
    yield _part(WORKFLOW, "application/json", "Workflow and its execution in WfFormat 1.5")
    if is_small:
        for label in dict.fromkeys(run.trace.jobs[job].label for job in run.newest):
            yield {"@id": _label_id(label), "@type": "SoftwareApplication", "name": readable(label)}
    for action in actions:
        yield {**action, "agent": {"@id": user["@id"]}}
    yield from {**sources, **files}.values()


def _describe(run: CrateRun, *, is_small: bool) -> str:
    report = run.report
    where = f" at site {report.site}" if report.site else ""
    text = f"Run {report.id} of {count_noun(report.expected, 'job')} on {report.service}{where}: {report.state.value}."
    # Metadata that are too large for programs help no reader; the two files have all of it.
    rest = "" if is_small else f" Its jobs and files are too many to be listed here: see {ATTEMPTS} and {WORKFLOW}."
    return readable(text + rest)


def _part(name: str, form: str, text: str) -> Entity:
    return {"@id": name, "@type": "File", "name": name, "description": text, "encodingFormat": form}


def _person(report: RunReport) -> Entity:
    name = readable(report.operator or report.user) or "unknown"
    return {"@id": f"#person-{_quoted(name)}", "@type": "Person", "name": name}


def _run_action(run: CrateRun, sources: Mapping[str, Entity], files: Mapping[str, Entity]) -> Entity:
    report, trace = run.report, run.trace
    made = {_file_id(run.files[name]) for job in trace.jobs if job.success for name in job.outputs if name in run.files}
    read = {_file_id(run.files[name]) for job in trace.jobs for name in job.inputs if name in run.files}
    return _action(
        "#run",
        f"Run {report.id}",
        f"The whole run {report.name}",
        _Execution("#longshore", report.started_at, report.finished_at, report.state),
        objects=[*sources, *(each for each in files if each in read and each not in made)],
        results=[ATTEMPTS, WORKFLOW, *(each for each in files if each in made)],
    )


def _job_actions(run: CrateRun) -> Iterator[Entity]:
    """Yield an action per job with an attempt that started: its newest one."""
    for number, attempt in sorted(run.newest.items()):
        job = run.trace.jobs[number]
        if attempt.started_at is None:
            continue
        where = f" on {attempt.host}" if attempt.host else ""
        action = _action(
            f"#job-{_quoted(job.name)}",
            f"Job {job.name}",
            f"Attempt {attempt.number} of job {job.name}, label {job.label}{where}",
            _Execution(_label_id(job.label), attempt.started_at, attempt.ended_at, attempt.state),
            objects=[_file_id(run.files[name]) for name in job.inputs if name in run.files],
            results=[_file_id(run.files[name]) for name in job.outputs if job.success and name in run.files],
        )
        if attempt.cause is not None:
            action["error"] = readable(attempt.reason or attempt.cause.value)
        yield action


class _Execution(NamedTuple):
    """What ran, from when to when, and with which outcome."""

    instrument: str
    start: float | None
    end: float | None
    state: JobState


def _action(
    own: str, name: str, text: str, execution: _Execution, *, objects: Sequence[str], results: Sequence[str]
) -> Entity:
    found: Entity = {
        "@id": own,
        "@type": "CreateAction",
        "name": readable(name),
        "description": readable(text),
        "instrument": {"@id": execution.instrument},
        "startTime": _time(execution.start),
        "endTime": _time(execution.end),
        "actionStatus": f"http://schema.org/{_status(execution.state)}",
        "object": _references(objects),
        "result": _references(results),
    }
    return {key: value for key, value in found.items() if value}


def _status(state: JobState) -> str:
    if state is JobState.SUCCEEDED:
        return "CompletedActionStatus"
    # The profile names no status for what still runs, and takes none for a success.
    is_over = state in TERMINAL_STATES or state in {JobState.UNKNOWN, JobState.MISFIT}
    return "FailedActionStatus" if is_over else "ActiveActionStatus"


def _used_files(run: CrateRun) -> Iterator[CrateFile]:
    """Yield inputs of all jobs, and outputs of those that succeeded."""
    for job in run.trace.jobs:
        for name in (*job.inputs, *(job.outputs if job.success else ())):
            if name in run.files:
                yield run.files[name]


def _file_entities(files: Iterable[CrateFile]) -> dict[str, Entity]:
    return {_file_id(file): _file_entity(file) for file in files}


def _file_entity(file: CrateFile) -> Entity:
    found: Entity = {
        "@id": _file_id(file),
        "@type": "Dataset" if file.is_directory else "File",
        "name": readable(file.path.rstrip("/").rpartition("/")[2]) or "/",
        "contentSize": None if file.size_b is None else str(file.size_b),
        "encodingFormat": _TYPES.guess_type(file.path)[0],
        "sha256": file.sha256,
    }
    return {key: value for key, value in found.items() if value}


def _file_id(file: CrateFile) -> str:
    if is_remote(file.path):
        return quote(_bytes(file.path), safe=_URL_SIGNS)
    end = "/" if file.is_directory and not file.path.endswith("/") else ""
    return f"file://{quote(_bytes(file.path))}{end}"


def _label_id(label: str) -> str:
    return f"#label-{_quoted(label)}"


def _quoted(name: str) -> str:
    return quote(_bytes(name), safe="")


def _bytes(text: str) -> bytes:
    """Return the bytes of a name: those of a name of a file that is no UTF-8, too."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _references(ids: Iterable[str]) -> list[Entity] | Entity:
    """Return references, a single one without a list, as RO-Crate recommends."""
    found = [{"@id": each} for each in dict.fromkeys(ids)]
    return found[0] if len(found) == 1 else found


def _time(at: float | None) -> str | None:
    text = format_timestamp(at, exact=True)
    return text.replace("Z", "+00:00") if text else None


CrateFiles: TypeAlias = Mapping[str, Iterable[bytes]]
"""Content per name of a file."""
_OLDEST: Final = (1980, 1, 1, 0, 0, 0)
"""Time of files in archives, so that equal crates are equal archives."""


def write_crate(path: Path, content: CrateFiles) -> None:
    """Write a crate to an archive if the path ends with ``.zip``, else to a new directory: whole, or not at all.

    Raises
    ------
    FilesError
        The path exists and is no archive, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    is_archive = path.suffix.lower() == ".zip"
    if target.exists() and not (is_archive and target.is_file()):
        raise FilesError(f"'{path}' exists already", hint="Remove it, or name another directory, or an archive (.zip).")
    require_parent(path, target)
    try:
        if is_archive:
            _write_archive(target, content)
        else:
            _write_directory(target, content)
    except OSError as error:
        raise write_error(error, path, target) from error


def _write_archive(target: Path, content: CrateFiles) -> None:
    with atomic_file(target) as file, zipfile.ZipFile(file, "w") as archive:
        for name, chunks in content.items():
            entry = zipfile.ZipInfo(name, _OLDEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, b"".join(chunks))


def _write_directory(target: Path, content: CrateFiles) -> None:
    draft = draft_path(target)
    make_folders(draft)
    try:
        for name, chunks in content.items():
            create_file(draft / name, chunks)
        move(draft, target)
    except BaseException:
        remove_tree(draft)
        raise
