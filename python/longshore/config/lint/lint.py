"""Runs all lint checks over a merged configuration; findings come in file order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from longshore.config.lint.bps_aliases import misspelt
from longshore.config.lint.schema_check import Finding, check
from longshore.config.lint.secrets import secrets
from longshore.config.lint.section_checks import BpsDefault, hidden, old, out_of_range, unmatched, without_service
from longshore.config.lint.unset_env import unset_variables
from longshore.config.lint.variable_checks import Surroundings, unused, without_place, wrong_variables
from longshore.config.values.search import Config
from longshore.model.values import JsonSchema


def lint(
    config: Config,
    schema: JsonSchema,
    around: Surroundings,
    *,
    bps: BpsDefault,
    labels: frozenset[str] | None = None,
) -> list[Finding]:
    """Find all errors and likely errors of a configuration.

    Parameters
    ----------
    config
        The merged configuration.
    schema
        JSON Schema 2020-12 with local references only.
    around
        What its variables may refer to outside the configuration.
    bps
        The service that BPS uses by default.
    labels
        Labels of the payload's tasks, where they are known.
    """
    root = config.root
    read_as = list(misspelt(root))
    known = {finding.path for finding in read_as}
    # The value of a misspelt key is checked too.
    findings = [finding for finding in check(root, schema) if not finding.at_key or finding.path not in known]
    findings += read_as
    # A finding about an item counts for its list too.
    said = {finding.path[:end] for finding in findings for end in range(1, len(finding.path) + 1)}
    findings += out_of_range(root, said)
    findings += [*wrong_variables(config, around), *unset_variables(config, around.env)]
    findings += unused(root, schema, around, said)
    findings += [*unmatched(root, labels), *hidden(root), *old(root), *without_service(root, bps), *secrets(root)]
    return [without_place(finding) for finding in covered(findings)]


def covered(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Hide all findings on a line if one of them is hidden."""
    lines = {(finding.origin.file, finding.origin.line) for finding in findings if finding.hidden}
    for finding in findings:
        is_hidden = (finding.origin.file, finding.origin.line) in lines
        yield msgspec.structs.replace(finding, hidden=True) if is_hidden else finding
