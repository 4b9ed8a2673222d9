"""The shipped configuration files, and the keys that they document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from longshore.config.merge import Layer, LayerRank
from longshore.world.etc import shipped
from longshore.world.yamlfile import read_yaml

SCHEMA: dict[str, Any] = json.loads(shipped("etc", "schema", "config.json").read_text("utf-8"))
FILES = ["defaults.yaml", "lsst.yaml"]
ALL_FILES = [*FILES, *(f"wms/{path.name}" for path in sorted(shipped("etc", "wms").glob("*.yaml")))]
_KEY = re.compile(r"^( *)(#?)([A-Za-z_]\w*):(?: |$)(.*)")
_PROSE = re.compile(r"^ *# (.*)$")


def documented(name: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Place of each key, commented out or not, the comment above it, and its line with what would be its value."""
    stack: list[tuple[int, str]] = []
    prose: list[str] = []
    for line in shipped("etc", name).read_text("utf-8").splitlines():
        if found := _PROSE.match(line):
            prose.append(found[1])
            continue
        if key := _KEY.match(line):
            stack = [step for step in stack if step[0] < len(key[1])]
            yield (*(step[1] for step in stack), key[3]), " ".join(prose), f"{key[3]}: {key[4]}"
            stack.append((len(key[1]), key[3]))
        prose = []


DOCUMENTED = [(name, *each) for name in ALL_FILES for each in documented(name)]


def layer(name: str) -> Layer:
    return Layer(name, LayerRank.DEFAULTS, read_yaml(shipped("etc", name), rank=LayerRank.DEFAULTS))
