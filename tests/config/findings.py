"""What the lint finds in YAML."""

from __future__ import annotations

import json
from typing import Any

from longshore.config.check import Finding
from longshore.config.lint import lint
from longshore.config.merge import Layer, LayerRank, layer_from_mapping, merge
from longshore.config.search import Config
from longshore.config.spelling import respelled
from longshore.config.variables import Surroundings
from longshore.world.etc import shipped
from longshore.world.yamlfile import parse_yaml

SCHEMA: dict[str, Any] = json.loads(shipped("etc", "schema", "config.json").read_text("utf-8"))
ENV = {"HOME": "/home/ada"}
PLAIN = Surroundings(env=ENV, payload_uses=frozenset())


def findings_of(text: str, around: Surroundings = PLAIN, labels: frozenset[str] | None = None) -> list[Finding]:
    weak = layer_from_mapping({"payload": {"outputRun": "d"}, "operator": "ada"}, "defaults", LayerRank.DEFAULTS)
    own = Layer("f.yaml", LayerRank.FILE, respelled(parse_yaml(text, "f.yaml")))
    return lint(Config(merge([weak, own])), SCHEMA, around, labels=labels)
