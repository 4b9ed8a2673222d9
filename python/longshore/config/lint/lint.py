"""Runs all lint checks over a merged configuration; findings come in file order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from longshore.config.lint.bps_aliases import find_misspelled_keys
from longshore.config.lint.schema_check import Finding, Severity, check_schema, find_unknown_keys
from longshore.config.lint.secrets import find_secrets
from longshore.config.lint.section_checks import (
    BpsDefaultService,
    find_deprecated_names,
    find_hidden_keys,
    find_missing_service,
    find_unmatched_sections,
    find_values_out_of_range,
)
from longshore.config.lint.section_effects import find_ineffective_sections
from longshore.config.lint.unset_env import find_unset_env
from longshore.config.lint.variable_checks import (
    LintContext,
    find_unused_keys,
    find_variable_errors,
    with_default_origin,
)
from longshore.config.values.merge import Node
from longshore.config.values.search import Config
from longshore.model.values import JsonSchema


def lint(
    config: Config,
    schema: JsonSchema,
    context: LintContext,
    *,
    bps: BpsDefaultService | None,
    labels: frozenset[str] | None = None,
) -> list[Finding]:
    """Find all errors and likely errors of a configuration.

    Parameters
    ----------
    config
        The merged configuration.
    schema
        JSON Schema 2020-12 with local references only.
    context
        Names and environment that its variables may use.
    bps
        The service that BPS uses by default.
    labels
        Labels of the payload's tasks, where they are known.
    """
    root = config.root
    findings, reported = _check_keys(root, schema)
    findings += find_values_out_of_range(root, reported)
    findings += [*find_variable_errors(config, context), *find_unset_env(config, context.env)]
    findings += find_unused_keys(root, schema, context, reported)
    findings += [
        *find_unmatched_sections(root, labels),
        *find_ineffective_sections(root, payload_read=context.payload_uses is not None and labels is not None),
        *find_hidden_keys(root),
        *find_deprecated_names(root),
        *find_missing_service(root, bps),
        *find_secrets(root),
    ]
    unjudged = keys_of_foreign_sites(root, schema, context.foreign_sites)
    findings = [each for each in findings if each.severity is Severity.ERROR or each.path not in unjudged]
    return [with_default_origin(finding) for finding in hide_secret_lines(findings)]


def lint_unused_keys(root: Node, schema: JsonSchema, context: LintContext) -> list[Finding]:
    """Find unused keys once the payload's variables are known, without the other checks."""
    unjudged = keys_of_foreign_sites(root, schema, context.foreign_sites)
    found = find_unused_keys(root, schema, context, _check_keys(root, schema)[1])
    return [finding for finding in found if finding.path not in unjudged]


def keys_of_foreign_sites(root: Node, schema: JsonSchema, sites: Collection[str]) -> frozenset[tuple[str, ...]]:
    """Return the paths of keys of some sites that Longshore does not know, and so cannot judge."""
    if not sites:
        return frozenset()
    unknown = (path for path, *_ in find_unknown_keys(root, schema, schema))
    return frozenset(path for path in unknown if path[0] == "site" and path[1] in sites)


def _check_keys(root: Node, schema: JsonSchema) -> tuple[list[Finding], set[tuple[str, ...]]]:
    """Return findings about keys and their values, and the paths that they are about."""
    misspelled = list(find_misspelled_keys(root))
    misspelled_paths = {finding.path for finding in misspelled}
    # The value of a misspelled key is checked too.
    findings = [
        finding for finding in check_schema(root, schema) if not finding.at_key or finding.path not in misspelled_paths
    ]
    findings += misspelled
    # A finding about an item counts for its list too.
    return findings, {finding.path[:end] for finding in findings for end in range(1, len(finding.path) + 1)}


def hide_secret_lines(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Hide all findings on a line if one of them is hidden."""
    lines = {(finding.origin.file, finding.origin.line) for finding in findings if finding.hidden}
    for finding in findings:
        is_hidden = (finding.origin.file, finding.origin.line) in lines
        yield msgspec.structs.replace(finding, hidden=True) if is_hidden else finding
