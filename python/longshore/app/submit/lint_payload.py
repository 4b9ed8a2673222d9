"""Static check of a payload (lint): the stages up to ``transform``, without files, functions and the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from longshore.app.acquire.dimension_tables import TableUnreadableError
from longshore.app.acquire.read_payload import PAYLOAD_KEYS, acquire_run
from longshore.app.configure.configuration import Draft
from longshore.app.configure.generate import generate, is_generated
from longshore.app.configure.resolved_run import ResolvedRun, resolve_draft
from longshore.app.plan.clustering import cluster_run
from longshore.app.progress import Progress
from longshore.app.static_check import LeftOutError, StaticCheck
from longshore.app.submit.submitcmd import LABEL as SCRIPT_LABEL
from longshore.app.submit.submitcmd import plan_script
from longshore.app.submit.transform import plan_run
from longshore.config.schema import Finding, Severity
from longshore.contract.service import Problem
from longshore.errors import CodeRefusedError, FilesError, GraphError, LongshoreError, Origin

_ALWAYS_LEFT_OUT: Final = "what the workload manager offers now"


class PayloadCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a static check: its findings, and phrases for what was left out."""

    findings: Sequence[Finding]
    left_out: Sequence[str]


def lint_payload(draft: Draft, static: StaticCheck | None = None) -> PayloadCheck:
    """Check a payload and its jobs as ``transform`` does, as far as files and machine do not matter."""
    static = StaticCheck() if static is None else static
    stages = _StageNotes()
    findings = list(_find_fault(draft, static, stages))
    findings += static.findings
    findings += [_to_finding(problem, draft.path, Severity.WARNING) for problem in stages.problems]
    findings += [_to_finding(problem, draft.path, Severity.NOTE) for problem in static.notes]
    findings += [_to_finding(problem, draft.path, Severity.NOTE, ", as seen from this host") for problem in static.seen]
    return PayloadCheck(findings=findings, left_out=[*static.left_out, _ALWAYS_LEFT_OUT])


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
        _plan(resolve_draft(draft, progress=stages, static=static), static, stages)
    except LeftOutError as error:
        static.left_out.append(error.message)
    except CodeRefusedError as error:
        place = f" ({error.origin})" if error.origin else ""
        static.left_out.append(f"tasks and jobs, which need code of {error.what}{place}; '--import' imports it")
    except _UnreadableError as error:
        static.left_out.append("tasks and jobs, because a file cannot be read")
        yield from _to_findings(error.fault, draft.path, Severity.WARNING)
    except LongshoreError as error:
        yield from _to_findings(error, draft.path, Severity.ERROR)


class _UnreadableError(Exception):
    """A payload cannot be read; another machine may have it, such as one with LSST's packages."""

    def __init__(self, fault: FilesError) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _plan(run: ResolvedRun, static: StaticCheck, progress: Progress) -> None:
    """Run the stages up to ``transform``; nothing is written."""
    try:
        if _is_script(run):
            plan_script(run, progress)
            return
        acquired = acquire_run(run, progress)
    except TableUnreadableError:
        raise
    except FilesError as error:
        raise _UnreadableError(error) from error
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


def _to_findings(error: LongshoreError, path: Path, severity: Severity) -> Iterator[Finding]:
    """Yield each part of an error as a finding."""
    for each in error.details or (error,):
        origin = each.origin or Origin(str(path))
        yield Finding(message=each.message, origin=origin, hint=each.hint, severity=severity)


def _to_finding(problem: Problem, path: Path, severity: Severity, restriction: str = "") -> Finding:
    """Return a problem as a finding; a file that is missing here may be on another machine."""
    return Finding(
        message=problem.message + restriction,
        origin=problem.origin or Origin(str(path)),
        hint=problem.hint,
        severity=severity,
    )
