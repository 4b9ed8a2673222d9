"""Lint of a file (`longshore config lint`): its configuration, and its payload as far as that can be checked."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from longshore.app.acquire.read_payload import PAYLOAD_KEYS
from longshore.app.configure.configuration import Draft, make_draft
from longshore.app.configure.layers import FILE_NAME, Overrides, read_layers
from longshore.app.configure.lint import (
    LintResult,
    file_texts,
    find_unjudged_keys,
    lint_configuration,
    sort_by_position,
    sort_findings,
)
from longshore.app.configure.schemas import profile_schema
from longshore.app.progress import hidden_secrets, hide_read_secrets
from longshore.app.site_choice.choose import at_first_match
from longshore.app.static_check import StaticCheck
from longshore.app.submit.lint_payload import lint_payload
from longshore.config.merge import map_items
from longshore.config.schema import Finding, Severity, check_schema
from longshore.config.secrets import find_secrets
from longshore.errors import ConfigError, Origin
from longshore.model.tasks import collection_paused
from longshore.system.host import system_folders, user_folder

_PROFILE_KEYS: Final = frozenset({"disabled", "inherits", "hosts", "limits", "service"})
"""Root keys that mark a file as the profile of a site, unless it has a payload."""
_PAYLOAD_KEYS: Final = frozenset({"payload", "customJob", *PAYLOAD_KEYS})
_MAX_SOURCE_BYTES: Final = 16 * 1024 * 1024


@hidden_secrets()
def lint_file(
    path: Path, overrides: Overrides | None = None, *, imports_code: bool = False, now: float | None = None
) -> LintResult:
    """Lint a file and its includes, as if it were used in a run; raises `UsageError` for a malformed ``--set``.

    Code that only the file names is imported and called if `imports_code` is true. `now` is the time of the run, by
    default that of the clock.
    """
    overrides = replace(overrides or Overrides(), imports_code=imports_code)
    with collection_paused():  # garbage collection would take a third of the time
        return _hide_secrets(_lint_file(path, overrides, now=time.time() if now is None else now))


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


def _lint_file(path: Path, overrides: Overrides | None, *, now: float) -> LintResult:
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
        payload = lint_payload(draft, StaticCheck(is_site_valid=not wrong))
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
