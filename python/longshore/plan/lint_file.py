"""Lint of a file (`longshore config lint`): its configuration, and its payload without functions and the machine."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.config.hidden_secrets import hidden_secrets, hide_read_secrets
from longshore.config.layers import FILE_NAME, Overrides, read_layers
from longshore.config.merge import map_items
from longshore.config.schema import Finding, Severity, check_schema
from longshore.config.schemas import profile_schema
from longshore.config.secrets import find_secrets
from longshore.config.service_lookup import default_service
from longshore.contract.service import Problem
from longshore.errors import CodeRefusedError, ConfigError, GraphError, LongshoreError, Origin, UnknownServiceError
from longshore.model.tasks import collection_paused
from longshore.plan.acquire import PAYLOAD_KEYS, acquire_run
from longshore.plan.clustering import cluster_run
from longshore.plan.configuration import Draft, make_draft
from longshore.plan.lint import (
    LeftOutError,
    LintResult,
    StaticCheck,
    file_texts,
    find_unjudged_keys,
    lint_configuration,
    sort_by_position,
    sort_findings,
)
from longshore.plan.probe import find_answer_problems
from longshore.plan.resolved_run import ResolvedRun, generate, is_generated, resolve_draft
from longshore.plan.run_plan import plan_run
from longshore.plan.script_run import LABEL as SCRIPT_LABEL
from longshore.plan.script_run import plan_script
from longshore.plan.site_choice import at_first_match
from longshore.progress import Progress
from longshore.system.host import system_folders, user_folder

# Static check of a payload (lint): the stages up to ``transform``, without files, functions and the machine.


_NOT_ASKED: Final = "what the workload manager offers now"


class PayloadCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a static check: its findings, and phrases for what was left out."""

    findings: Sequence[Finding]
    left_out: Sequence[str]


def lint_payload(draft: Draft, static: StaticCheck | None = None) -> PayloadCheck:
    """Check a payload and its jobs as ``transform`` does, as far as files and machine do not matter."""
    static = StaticCheck() if static is None else static
    stages = _StageNotes()
    findings = list(_find_fault(draft, static, stages))
    if not static.was_asked:
        static.left_out.append(_NOT_ASKED)
    findings += static.findings
    findings += [_problem_finding(problem, draft.path, Severity.WARNING) for problem in stages.problems]
    findings += [_problem_finding(problem, draft.path, Severity.NOTE) for problem in static.notes]
    findings += [
        _problem_finding(problem, draft.path, Severity.ERROR if problem.fatal else Severity.NOTE)
        for problem in static.seen
    ]
    return PayloadCheck(findings=findings, left_out=static.left_out)


class _StageNotes:
    """Collects what `submit --strict` refuses: what the stages note, with its place."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def note(self, text: str) -> None:
        """Collect a note without a place."""
        self.problems.append(Problem(message=text, fatal=False))

    def problem(self, problem: Problem) -> None:
        """Collect a problem that is not fatal."""
        self.problems.append(problem)

    def inform(self, text: str) -> None:
        """Drop a fact that is no warning."""

    def stage(self, text: str) -> None:
        """Drop the start of a stage."""


def _find_fault(draft: Draft, static: StaticCheck, stages: _StageNotes) -> Iterator[Finding]:
    """Yield what keeps a payload from becoming jobs, as the first stage that fails reports it."""
    try:
        if is_generated(draft):
            if not draft.layers.overrides.imports_code:
                static.left_out.append("tasks and jobs, because a function generates parts of the configuration")
                return
            draft, _ = generate(draft, ())
        try:
            run = resolve_draft(draft, progress=stages, static=static)
        except UnknownServiceError as error:
            # The rest does not depend on it.
            yield from _to_findings(error, draft.path)
            draft, static.is_service_known = replace(draft, service=default_service(), service_origin=None), False
            run = resolve_draft(draft, progress=stages, static=static)
        yield from _find_run_faults(run, static, stages)
    except LeftOutError as error:
        static.left_out.append(error.message)
    except CodeRefusedError as error:
        place = f" ({error.origin})" if error.origin else ""
        static.left_out.append(f"tasks and jobs, which need code of {error.what}{place}; '--import' imports it")
    except LongshoreError as error:
        yield from _to_findings(error, draft.path)


def _find_run_faults(run: ResolvedRun, static: StaticCheck, stages: _StageNotes) -> Iterator[Finding]:
    """Yield what the workload manager has against any run, then what the first stage that fails reports."""
    answered = find_answer_problems(run.context.probe)
    yield from (_problem_finding(each, run.configuration.path, Severity.ERROR) for each in answered)
    static.was_asked = run.context.probe is not None
    if static.with_probe and not static.was_asked and static.is_service_known:
        static.left_out.append(f"what '{run.configuration.service}' has, because it does not answer")
    _plan(run, static, stages)


def _plan(run: ResolvedRun, static: StaticCheck, progress: Progress) -> None:
    """Run the stages up to ``transform``; nothing is written."""
    if _is_script(run):
        plan_script(run, progress)
        return
    acquired = acquire_run(run, progress)
    is_sample = bool(static.left_out)
    try:
        clustered = cluster_run(acquired)
    except GraphError:
        if not is_sample:
            raise
        raise LeftOutError("jobs of several tasks") from None
    if not static.is_site_valid:
        raise LeftOutError("jobs, because the description of the site has errors")
    plan_run(clustered, progress)


def _is_script(run: ResolvedRun) -> bool:
    """Whether a configuration is for ``submitcmd`` alone."""
    configuration = run.configuration
    return configuration.config.node_at(SCRIPT_LABEL) is not None and not any(
        map(configuration.search, (*PAYLOAD_KEYS, "graphSource", "createQuantumGraph"))
    )


def _to_findings(error: LongshoreError, path: Path) -> Iterator[Finding]:
    """Yield each part of an error as a finding."""
    for each in error.details or (error,):
        origin = each.origin or Origin(str(path))
        yield Finding(message=each.message, origin=origin, hint=each.hint, code=each.code)


def _problem_finding(problem: Problem, path: Path, severity: Severity) -> Finding:
    return Finding(
        message=problem.message,
        origin=problem.origin or Origin(str(path)),
        hint=problem.hint,
        severity=severity,
        code=problem.code,
    )


_PROFILE_KEYS: Final = frozenset({"disabled", "inherits", "hosts", "limits", "service"})
"""Root keys that mark a file as the profile of a site, unless it has a payload."""
_PAYLOAD_KEYS: Final = frozenset({"payload", "customJob", *PAYLOAD_KEYS})
_MAX_SOURCE_BYTES: Final = 16 * 1024 * 1024


@hidden_secrets()
def lint_file(
    path: Path,
    overrides: Overrides | None = None,
    *,
    imports_code: bool = False,
    with_probe: bool = False,
    now: float | None = None,
) -> LintResult:
    """Lint a file and its includes, as if it were used in a run; raises `UsageError` for a malformed ``--set``.

    Code that only the file names is imported and called if `imports_code` is true. `with_probe` asks the workload
    manager. `now` is the time of the run, by default that of the clock.
    """
    overrides = replace(overrides or Overrides(), imports_code=imports_code)
    with collection_paused():  # garbage collection would take a third of the time
        now = time.time() if now is None else now
        return _hide_secrets(_lint_file(path, overrides, with_probe=with_probe, now=now))


def _hide_secrets(linted: LintResult) -> LintResult:
    """Mask the secrets in findings, and hide the lines that have one."""
    findings = [
        replace(
            each,
            message=hide_read_secrets(each.message),
            hint=hide_read_secrets(each.hint),
            hidden=each.hidden or (line := linted.source(each) or "") != hide_read_secrets(line),
        )
        for each in linted.findings
    ]
    return replace(linted, findings=tuple(findings), left_out=tuple(map(hide_read_secrets, linted.left_out)))


def _lint_file(path: Path, overrides: Overrides | None, *, with_probe: bool, now: float) -> LintResult:
    try:
        draft = _at_candidate(make_draft(read_layers(path, overrides, now=now)))
    except ConfigError as error:
        finding = _to_finding(error, path)
        return LintResult(findings=(finding,), sources=_source_text(finding.origin))
    sources = file_texts(draft.read_files())
    profile = next((layer.root for layer in draft.all_layers if layer.name == str(path)), None)
    if profile is not None and _is_profile(map_items(profile)):
        notes = [note for read in draft.layers.files for note in read.notes]
        findings = [*notes, *check_schema(profile, profile_schema()), *find_secrets(profile)]
        return LintResult(findings=tuple(sort_findings(findings, draft)), sources=sources)
    found = [*draft.layers.warnings, *(_to_finding(error, path) for error in draft.site_errors)]
    found += lint_configuration(draft, thorough=True)
    left_out = [*find_unjudged_keys(draft)]
    if not draft.site_errors and not _is_of_machine(draft):
        wrong = any(each.severity is Severity.ERROR and each.path[:1] == ("site",) for each in found)
        payload = lint_payload(draft, StaticCheck(with_probe=with_probe, is_site_valid=not wrong))
        found += _news(payload.findings, found)
        left_out += payload.left_out
    return LintResult(findings=tuple(sort_by_position(found, sources)), sources=sources, left_out=tuple(left_out))


def _is_profile(keys: Container[str]) -> bool:
    """Whether a file with these keys at its root is the profile of a site."""
    return any(key in keys for key in _PROFILE_KEYS) and not any(key in keys for key in _PAYLOAD_KEYS)


def _at_candidate(draft: Draft) -> Draft:
    """Return the draft at its chosen candidate, if it has candidates and no error of a site."""
    if draft.site_errors:
        return draft
    try:
        layers = at_first_match(draft.layers)
    except ConfigError as error:
        return replace(draft, site_errors=(error,))
    return draft if layers is draft.layers else make_draft(layers)


def _is_of_machine(draft: Draft) -> bool:
    """Whether the file is the machine's or the user's configuration, which holds for runs of any payload."""
    folders = (*system_folders(draft.env), user_folder(draft.env))
    return draft.path.resolve() in {(folder / FILE_NAME).resolve() for folder in folders}


def _news(findings: Sequence[Finding], known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings of a payload but for errors in lines that have another error: its cause is often the same."""
    lines = {(each.origin.file, each.origin.line) for each in known if each.severity is Severity.ERROR}
    equal = {(each.message, each.origin) for each in known}
    for finding in findings:
        origin = finding.origin
        is_somewhere = origin.line or origin.layer
        if (finding.message, origin) in equal or not is_somewhere or (origin.file, origin.line) not in lines:
            yield finding


def _to_finding(error: ConfigError, path: Path) -> Finding:
    return Finding(message=error.message, origin=error.origin or Origin(str(path)), hint=error.hint)


def _source_text(origin: Origin) -> dict[str, str]:
    """Return the text of the file that an error refers to, if any."""
    try:
        path = Path(origin.file)
        if not origin.line or path.stat().st_size > _MAX_SOURCE_BYTES:
            return {}
        return {origin.file: path.read_bytes().decode("utf-8-sig", "replace")}
    except (OSError, ValueError):
        return {}
