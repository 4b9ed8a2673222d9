"""Selection of a site among those that match: candidates with their state, settings, and algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class SiteCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Site that matches.

    Attributes
    ----------
    name
        Name of the site.
    state
        Values of the site by name, such as ``nodes_free``; ``None`` if nothing is known of it.
    waits_s
        Times in seconds that the user's earlier jobs waited there.
    """

    name: str
    state: Mapping[str, float | str] | None = None
    waits_s: Sequence[float] = ()


class SelectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a selection.

    Attributes
    ----------
    options
        All keys of ``siteSelection.select``.
    seed
        Seed of all chance.
    parameters
        Values of the request; the state of a site wins over them.
    """

    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    seed: int = 0
    parameters: Mapping[str, float | str] = msgspec.field(default_factory=dict)


class SiteSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a selection.

    Attributes
    ----------
    site
        The chosen site; ``None`` if none passed.
    steps
        What each step did, in order.
    warnings
        What may not be meant, such as a value that no site has.
    """

    site: str | None
    steps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class SelectionAlgorithm(Protocol):
    """Algorithm of selection, registered under ``longshore.site_selection``."""

    def __call__(self, candidates: Sequence[SiteCandidate], settings: SelectionSettings, /) -> SiteSelection:
        """Choose one of the candidates, which come in the order in which they were written. Pure.

        Raises
        ------
        ConfigError
            The options are wrong; an algorithm checks them also without candidates.
        """
