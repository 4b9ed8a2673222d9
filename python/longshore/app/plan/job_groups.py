"""Reads in which order groups of jobs are to run, and tells of labels that nobody has."""

from __future__ import annotations

from longshore.app.configure.configuration import Configuration
from longshore.app.progress import Teller
from longshore.config.select.ordering_rules import OrderingRule, ordering_rules
from longshore.model.tasks.cluster import ClusteredGraph
from longshore.plan.job_groups import unknown_label_notes


def wanted_orderings(configuration: Configuration, clustered: ClusteredGraph, tell: Teller) -> tuple[OrderingRule, ...]:
    """The orders that the configuration asks for.

    Parameters
    ----------
    configuration
        The configuration.
    clustered
        What jobs are made of.
    tell
        Is told of labels without jobs.

    Raises
    ------
    ConfigError
        A value is wrong or missing.
    """
    rules = ordering_rules(configuration.config, configuration.scope())
    if rules:
        for note in unknown_label_notes(rules, (cluster.label for cluster in clustered.dag.nodes)):
            tell.note(note)
    return rules
