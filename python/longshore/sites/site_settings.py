"""Resolves the settings of a site: its profile, keys at the root, and the user's section for the site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

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


_EXECUTOR_KEYS: Final = ("account", "qos", "directives", "partitions", "scratch")
"""Keys of a site that an executor may read, beside the service's own map."""


def executor_settings(service_key: str, site: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a site for the executor of any service; a key without a value is left out.

    `service_key` is the key of the service's own map. ``setup`` has the lines of shell before each submission, and
    ``inherit`` the rule which variables jobs inherit.
    """
    found = {key: site[key] for key in (service_key, *_EXECUTOR_KEYS) if site.get(key)}
    if lines := (site.get("setup") or {}).get("submit"):
        found["setup"] = list(lines)
    inherit = site.get("inheritEnvironment", "all")
    return found if inherit == "all" else {**found, "inherit": inherit}
