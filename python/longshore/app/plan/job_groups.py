"""Ordering rules between groups of jobs, read from the configuration."""

from __future__ import annotations

from longshore.app.configure.configuration import Configuration
from longshore.app.progress import Progress
from longshore.config.select.ordering_rules import OrderingRule, parse_ordering_rules
from longshore.model.tasks.cluster import ClusteredGraph
from longshore.plan.job_groups import unknown_label_notes


def read_ordering_rules(
    configuration: Configuration, clustered: ClusteredGraph, progress: Progress
) -> tuple[OrderingRule, ...]:
    """Read the ordering rules; a note names labels without jobs.

    Raises `ConfigError` if a value is wrong or missing.
    """
    rules = parse_ordering_rules(configuration.config, configuration.scope())
    if rules:
        for note in unknown_label_notes(rules, (cluster.label for cluster in clustered.dag.nodes)):
            progress.note(note)
    return rules
