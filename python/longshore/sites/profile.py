"""Turns a site's profile, with all it inherits, into a layer of configuration and its operator's ceilings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from longshore.config.interpolate import shown
from longshore.config.merge import Node, overlay, without_deleted
from longshore.errors import ConfigError
from longshore.origin import Origin

PROFILE_ONLY_KEYS: Final = frozenset({"inherits", "hosts", "title", "limits"})
"""Keys that say something of the profile itself, or that nobody may override, and so enter no layer."""

RENAMED_KEYS: Final = {"service": "wmsServiceClass", "account": "accountingGroup"}
"""Keys of a profile that are defaults of keys with another name in BPS."""

_OWN: Final = ("hosts", "title")
"""Keys that are not inherited: with them, a profile and its heirs would be taken for each other."""


class SiteProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile as it is written.

    Attributes
    ----------
    name
        Name of the site.
    root
        What stands in it.
    personal
        Whether it lies in a place where a user puts files, and not an operator.
    """

    name: str
    root: Node
    personal: bool = False


class ResolvedSiteProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile with all it inherits.

    Attributes
    ----------
    root
        All of it merged; its own keys win.
    marked
        The same with the keys to delete still marked, for layers below may have them too.
    chain
        What it consists of, weakest first.
    """

    name: str
    root: Node
    marked: Node
    chain: tuple[SiteProfile, ...]

    def limits(self, *, personal: bool) -> Node | None:
        """The merged ``limits`` of the personal profiles of the chain, or of the others."""
        merged: Node | None = None
        for profile in self.chain:
            node = _map(profile.root).get("limits")
            if node is not None and profile.personal is personal:
                merged = node if merged is None else overlay(merged, node)
        return without_deleted(merged) if merged else None


def resolve_profile(profile: SiteProfile, find: Callable[[str, Origin], SiteProfile]) -> ResolvedSiteProfile:
    """Bring a profile and all it inherits together.

    Parameters
    ----------
    profile
        The profile.
    find
        Finds another by its name, given where that is written, or raises.

    Raises
    ------
    ConfigError
        It inherits itself, or something that is not there.
    """
    chain = tuple(_chain(profile, find, ()))
    root = Node({}, profile.root.origin)
    for part in chain:
        kept = {key: node for key, node in _map(part.root).items() if part is profile or key not in _OWN}
        root = overlay(root, Node(kept, part.root.origin))
    return ResolvedSiteProfile(name=profile.name, root=without_deleted(root), marked=root, chain=chain)


def _chain(
    profile: SiteProfile, find: Callable[[str, Origin], SiteProfile], heirs: tuple[str, ...]
) -> Iterator[SiteProfile]:
    node = _map(profile.root).get("inherits")
    ring = (*heirs, profile.name)
    for parent in parent_names(node):
        if parent in ring:
            whole = " -> ".join((*ring[ring.index(parent) :], parent))
            raise ConfigError(f"the site '{parent}' inherits itself: {whole}", origin=node.origin if node else None)
        assert node is not None
        yield from _chain(find(parent, node.origin), find, ring)
    yield profile


def parent_names(node: Node | None) -> tuple[str, ...]:
    """The names under ``inherits``, the weakest first.

    Raises
    ------
    ConfigError
        It is neither a name nor a list of names.
    """
    if node is None or node.value is None:
        return ()
    names = node.value if isinstance(node.value, list) else [node]
    for name in names:
        if not isinstance(name.value, str) or not name.value:
            raise ConfigError(
                f"'inherits' must name a site or a list of sites, not {shown(name.value)}", origin=name.origin
            )
    return tuple(str(name.value) for name in names)


def profile_layer(root: Node) -> Node:
    """What enters the layers of configuration, under the names that BPS has for it."""
    entries = {
        key: node for key, node in _map(root).items() if key not in PROFILE_ONLY_KEYS and key not in RENAMED_KEYS
    }
    return Node(rename_keys(root) | entries, root.origin)


def rename_keys(root: Node) -> dict[str, Node]:
    """The keys of a profile, or of a section, that have another name in BPS, under that."""
    given = _map(root)
    return {name: given[key] for key, name in RENAMED_KEYS.items() if key in given and given[key].value is not None}


def _map(node: Node) -> dict[str, Node]:
    return node.value if isinstance(node.value, dict) else {}
