"""Finds the site of a host, by the host patterns of profiles."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from longshore.errors import ConfigError


def host_matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether a host, with or without its domain, matches a pattern (``login*``, ``*.campus.edu``)."""
    names = {host.lower(), host.lower().partition(".")[0]}
    return any(fnmatchcase(name, pattern.lower()) for name in names for pattern in patterns)


def only_site(host: str, sites: Iterable[tuple[str, str]]) -> str | None:
    """The matching site, given pairs of site and profile file; ``None`` without a match.

    Raises `ConfigError` if there are several.
    """
    found = sorted(sites)
    if len(found) > 1:
        both = " and ".join(f"'{name}' ({path})" for name, path in found)
        raise ConfigError(
            f"the host '{host}' belongs to more than one site: {both}",
            hint=f"Choose one, for example with --compute-site {found[0][0]}.",
        )
    return found[0][0] if found else None
