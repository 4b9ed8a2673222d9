"""What the lint finds in YAML."""

from __future__ import annotations

from typing import Any

from longshore.app.configure.schemas import configuration_schema
from longshore.config.lint.bps_aliases import respelled
from longshore.config.lint.lint import lint
from longshore.config.lint.schema_check import Finding
from longshore.config.lint.section_checks import BpsDefault
from longshore.config.lint.variable_checks import Surroundings
from longshore.config.values.merge import Layer, LayerRank, layer_from_mapping, merge
from longshore.config.values.search import Config
from longshore.world.read.yaml_file import parse_yaml

SCHEMA: dict[str, Any] = configuration_schema()
ENV = {"HOME": "/home/ada"}
BPS = BpsDefault(service="htcondor", title="HTCondor", keys=frozenset({"nodeset", "condor"}))
PLAIN = Surroundings(env=ENV, payload_uses=frozenset())


def findings_of(text: str, around: Surroundings = PLAIN, labels: frozenset[str] | None = None) -> list[Finding]:
    weak = layer_from_mapping({"payload": {"outputRun": "d"}, "operator": "ada"}, "defaults", LayerRank.DEFAULTS)
    own = Layer("f.yaml", LayerRank.FILE, respelled(parse_yaml(text, "f.yaml")))
    return lint(Config(merge([weak, own])), SCHEMA, around, bps=BPS, labels=labels)
