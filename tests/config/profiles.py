"""Profiles of labels, compiled from YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from longshore.config.interpolate import Scope
from longshore.config.merge import Layer, LayerRank, merge_layers
from longshore.config.profile import JobProfile, compile_profile
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml

ENV = {"HOME": "/home/me", "PWD": "/here", "FOO": "fooval"}


def config_of(text: str, *, defaults: str = "{}", service: str = "{}") -> Config:
    texts = {LayerRank.DEFAULTS: defaults, LayerRank.SERVICE: service, LayerRank.FILE: text}
    return Config(
        merge_layers(
            Layer(rank.label, rank, parse_yaml(each, f"{rank.label}.yaml", rank=rank)) for rank, each in texts.items()
        )
    )


def profile_of(
    text: str, label: str = "isr", *, free: str = "", cluster: str | None = None, **options: Any
) -> JobProfile:
    config = config_of(text, defaults=options.pop("defaults", "{}"), service=options.pop("service", "{}"))
    return compile_profile(config, label, scope_of(free.split(), **options), cluster=cluster)


def scope_of(free: Iterable[str] = (), *, site: str = "", cloud: str = "", env: Mapping[str, str] = ENV) -> Scope:
    """What the searches of one profile go by."""
    chosen = {"curr_site": site, "curr_cloud": cloud}
    return Scope(current={name: value for name, value in chosen.items() if value}, env=env, free=frozenset(free))
