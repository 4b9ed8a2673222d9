"""Resolves the settings of a site: its profile, keys at the root, and the user's section for the site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longshore.config.values.merge import Node, overlay
from longshore.config.values.search import Config
from longshore.origin import Origin


def site_description(config: Config, site: str, keys: Iterable[str]) -> Node:
    """Settings of a site under the keys of a profile; the user's section for it wins over the root.

    Maps of services are merged key by key, not searched.
    """
    section = config.node_at("site", site)
    own: Mapping[str, Node] = section.value if section and isinstance(section.value, dict) else {}
    found: dict[str, Node] = {}
    for key in keys:
        root, here = config.node_at(key), own.get(key)
        if root is not None and here is not None:
            found[key] = overlay(root, here)
        elif root is not None or here is not None:
            found[key] = here or root  # type: ignore[assignment]
    return Node(found, section.origin if section else Origin(""))


def drop_invalid(found: Node, wrong: Mapping[str, object]) -> Node:
    """Drop invalid keys of a description that were not meant for it.

    In BPS, a key at the root such as ``setup`` or ``group`` is a user's variable, of any type.
    """
    assert isinstance(found.value, dict)
    return Node({key: node for key, node in found.value.items() if key not in wrong}, found.origin)
