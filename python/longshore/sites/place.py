"""Works out what holds at a site: its profile, what users say of sites at the root, and their section for this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from longshore.config.merge import Node, overlay
from longshore.config.search import Config
from longshore.origin import Origin


def site_description(config: Config, site: str, keys: Iterable[str]) -> Node:
    """All that is said of a site, under the keys of a profile; the user's section for it wins over the root.

    Maps such as ``slurm`` are merged and not searched: a part of one would be as good as none.

    Parameters
    ----------
    config
        The configuration with the site's own layer.
    site
        Its name.
    keys
        What can be said of a site.
    """
    section = config.at("site", site)
    own: Mapping[str, Node] = section.value if section and isinstance(section.value, dict) else {}
    found: dict[str, Node] = {}
    for key in keys:
        root, here = config.at(key), own.get(key)
        if root is not None and here is not None:
            found[key] = overlay(root, here)
        elif root is not None or here is not None:
            found[key] = here or root  # type: ignore[assignment]
    return Node(found, section.origin if section else Origin(""))


def drop_invalid(found: Node, wrong: Mapping[str, Any]) -> Node:
    """The description without what is wrong in it and was not meant for it.

    To BPS, a key at the root such as ``setup`` or ``group`` is a variable of the user's, of any type.
    """
    assert isinstance(found.value, dict)
    return Node({key: node for key, node in found.value.items() if key not in wrong}, found.origin)
