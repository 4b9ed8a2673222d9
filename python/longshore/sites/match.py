"""Finds the one site that a host belongs to, by the patterns of profiles."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from longshore.errors import ConfigError


def host_matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether a host is meant by any of some patterns (``login*``, ``*.campus.edu``), with or without its domain."""
    names = {host.lower(), host.lower().partition(".")[0]}
    return any(fnmatchcase(name, pattern.lower()) for name in names for pattern in patterns)


def only_site(host: str, sites: Iterable[tuple[str, str]]) -> str | None:
    """The site among those whose patterns match a host; ``None`` where there is none.

    Parameters
    ----------
    host
        Name of the host.
    sites
        Name of each, and the file that says so.

    Raises
    ------
    ConfigError
        There are several.
    """
    found = sorted(sites)
    if len(found) > 1:
        both = " and ".join(f"'{name}' ({path})" for name, path in found)
        raise ConfigError(
            f"the host '{host}' belongs to more than one site: {both}",
            hint=f"Choose one, for example with --compute-site {found[0][0]}.",
        )
    return found[0][0] if found else None
