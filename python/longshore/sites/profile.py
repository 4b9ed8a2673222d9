"""Resolves the inheritance of a site's profile into a layer of configuration and the operator's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from longshore.config.values.merge import Node, drop_deleted_keys, map_items, overlay
from longshore.errors import ConfigError
from longshore.model.wording import quote_value
from longshore.origin import Origin

PROFILE_ONLY_KEYS: Final = frozenset({"inherits", "hosts", "title", "disabled", "limits"})
"""Keys about the profile itself, or that users cannot override; they enter no layer."""

RENAMED_KEYS: Final = {"service": "wmsServiceClass", "account": "accountingGroup"}
"""Keys of a profile that are defaults of keys with another name in BPS."""

_OWN_KEYS: Final = ("hosts", "title")
"""Keys that are not inherited, because they identify a profile."""


class SiteProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile as written."""

    name: str
    root: Node
    """The profile's keys."""
    personal: bool = False
    """Whether the file lies in a user's directory, not in an operator's."""


class ResolvedSiteProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile merged with all that it inherits."""

    name: str
    root: Node
    """All profiles merged; the keys of the heir win."""
    marked: Node
    """Like `root`, but keys to delete keep their marks, for the layers below."""
    chain: tuple[SiteProfile, ...]
    """The merged profiles, weakest first."""

    def limits(self, *, personal: bool) -> Node | None:
        """Merged ``limits`` of the personal profiles of the chain, or of the others."""
        merged: Node | None = None
        for profile in self.chain:
            node = map_items(profile.root).get("limits")
            if node is not None and profile.personal is personal:
                merged = node if merged is None else overlay(merged, node)
        return drop_deleted_keys(merged) if merged else None


def resolve_profile(profile: SiteProfile, find: Callable[[str, Origin], SiteProfile]) -> ResolvedSiteProfile:
    """Merge a profile with all that it inherits; `find` finds a profile by name and origin, or raises.

    Raises `ConfigError` if it inherits itself, or an unknown profile.
    """
    chain = tuple(_chain(profile, find, ()))
    root = Node({}, profile.root.origin)
    for part in chain:
        kept = {key: node for key, node in map_items(part.root).items() if part is profile or key not in _OWN_KEYS}
        root = overlay(root, Node(kept, part.root.origin))
    return ResolvedSiteProfile(name=profile.name, root=drop_deleted_keys(root), marked=root, chain=chain)


def _chain(
    profile: SiteProfile, find: Callable[[str, Origin], SiteProfile], heirs: tuple[str, ...]
) -> Iterator[SiteProfile]:
    node = map_items(profile.root).get("inherits")
    ring = (*heirs, profile.name)
    for parent in parent_names(node):
        if parent in ring:
            whole = " -> ".join((*ring[ring.index(parent) :], parent))
            raise ConfigError(f"the site '{parent}' inherits itself: {whole}", origin=node.origin if node else None)
        assert node is not None
        yield from _chain(find(parent, node.origin), find, ring)
    yield profile


def parent_names(node: Node | None) -> tuple[str, ...]:
    """Names under ``inherits``, weakest first.

    Raises `ConfigError` if the value is neither a name nor a list of names.
    """
    if node is None or node.value is None:
        return ()
    names = node.value if isinstance(node.value, list) else [node]
    for name in names:
        if not isinstance(name.value, str) or not name.value:
            raise ConfigError(
                f"'inherits' must name a site or a list of sites, not {quote_value(name.value)}", origin=name.origin
            )
    return tuple(str(name.value) for name in names)


def profile_layer(root: Node) -> Node:
    """Layer of configuration from a profile, under the key names of BPS."""
    entries = {
        key: node for key, node in map_items(root).items() if key not in PROFILE_ONLY_KEYS and key not in RENAMED_KEYS
    }
    return Node(rename_keys(root) | entries, root.origin)


def rename_keys(root: Node) -> dict[str, Node]:
    """Keys of a profile or section with another name in BPS, under that name."""
    given = map_items(root)
    return {name: given[key] for key, name in RENAMED_KEYS.items() if key in given and given[key].value is not None}
