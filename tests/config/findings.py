"""What the lint finds in YAML."""

from __future__ import annotations

from typing import Any

from longshore.config.lint import BpsDefaultService, add_intended_keys, lint
from longshore.config.lint_variables import LintContext
from longshore.config.merge import Layer, LayerRank, make_layer, merge_layers
from longshore.config.schema import Finding
from longshore.config.schemas import configuration_schema
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml

SCHEMA: dict[str, Any] = configuration_schema()
ENV = {"HOME": "/home/ada"}
BPS = BpsDefaultService(service="htcondor", title="HTCondor", keys=frozenset({"nodeset", "condor"}))
PLAIN = LintContext(env=ENV, payload_uses=frozenset())


def findings_of(text: str, around: LintContext = PLAIN, labels: frozenset[str] | None = None) -> list[Finding]:
    weak = make_layer({"payload": {"outputRun": "d"}, "operator": "ada"}, "defaults", LayerRank.DEFAULTS)
    own = Layer("f.yaml", LayerRank.FILE, add_intended_keys(parse_yaml(text, "f.yaml")))
    return lint(Config(merge_layers([weak, own])), SCHEMA, around, bps=BPS, labels=labels)
