"""Partitions, account and QOS that a site's settings name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


class ConfiguredNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names of partitions, account and QOS in a site's settings."""

    partitions: tuple[str, ...] = ()
    account: str = ""
    qos: tuple[str, ...] = ()


def configured_names(service: str, settings: Mapping[str, Any], asked: Iterable[str] = ()) -> ConfiguredNames:
    """Collect the names of partitions, account and QOS from all of a site's settings.

    `asked` are the partitions of a job that has no settings but the site's.
    """
    own: Mapping[str, Any] = settings.get(service) or {}
    rows = settings.get("partitions") or ()
    named = [*(row["name"] for row in rows), settings.get("queue"), *_to_list(own.get("partition")), *asked]
    qos = [own.get("qos") or settings.get("qos"), *(row.get("qos") for row in rows)]
    return ConfiguredNames(
        partitions=tuple(dict.fromkeys(str(name) for name in named if name)),
        account=str(settings.get("account") or ""),
        qos=tuple(dict.fromkeys(str(name) for name in qos if name)),
    )


def _to_list(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else str(value or "").split(",")
