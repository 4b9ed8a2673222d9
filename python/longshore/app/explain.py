"""Explains the values of a configuration, key by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longshore.app.configuration import Configuration
from longshore.config.explain import Explained, explain_key
from longshore.config.search import Scope
from longshore.world.yamlfile import given_values


def explain(
    configuration: Configuration, keys: Iterable[str], *, current: Mapping[str, str], given: Iterable[str]
) -> dict[str, Explained]:
    """What a search gives for each key, and why; a key that cannot be worked out has its error there.

    Parameters
    ----------
    configuration
        Where to search.
    keys
        The keys.
    current
        BPS's current values that choose sections, such as ``curr_pipetask``.
    given
        ``NAME=VALUE`` of further current values.

    Raises
    ------
    UsageError
        A pair cannot be understood.
    """
    scope = Scope(current={**given_values(given), **current}, env=configuration.env)
    return {key: explain_key(configuration.config, key, scope) for key in keys}
