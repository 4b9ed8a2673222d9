"""Resolves the settings of a site: its profile, keys at the root, and the user's section for the site."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.config.values.merge import Node, map_items, overlay
from longshore.config.values.search import Config
from longshore.origin import Origin


def site_description(config: Config, site: str, keys: Iterable[str]) -> Node:
    """Settings of a site under the keys of a profile; the user's section for it wins over the root.

    Maps of services are merged key by key, not searched.
    """
    section = config.node_at("site", site)
    items = map_items(section)
    found: dict[str, Node] = {}
    for key in keys:
        root, here = config.node_at(key), items.get(key)
        if root is not None and here is not None:
            found[key] = overlay(root, here)
        elif root is not None or here is not None:
            found[key] = here or root  # type: ignore[assignment]
    return Node(found, section.origin if section else Origin(""))
