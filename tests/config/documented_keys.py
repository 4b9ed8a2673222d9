"""The shipped configuration files, and the keys that they document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import longshore.services
from longshore.config.includes import read_yaml
from longshore.config.merge import Layer, LayerRank
from longshore.config.plugins import shipped_path
from longshore.config.schemas import configuration_schema

SCHEMA: Final[dict[str, Any]] = configuration_schema()
SERVICES: Final = Path(longshore.services.__file__).parent
FILES: Final = ["defaults.yaml", "lsst.yaml"]
ALL_FILES: Final = [*FILES, *sorted(str(path.relative_to(SERVICES)) for path in SERVICES.glob("*/defaults.yaml"))]
"""Names of the files; those of services begin with the name of the service."""
_KEY: Final = re.compile(r"^( *)(#?)([A-Za-z_]\w*):(?: |$)(.*)")
_PROSE: Final = re.compile(r"^ *# (.*)$")


def file_of(name: str) -> Path:
    return SERVICES / name if "/" in name else shipped_path("etc", name)


def documented(name: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Place of each key, commented out or not, the comment above it, and its line with what would be its value."""
    stack: list[tuple[int, str]] = []
    prose: list[str] = []
    for line in file_of(name).read_text("utf-8").splitlines():
        if found := _PROSE.match(line):
            prose.append(found[1])
            continue
        if key := _KEY.match(line):
            stack = [step for step in stack if step[0] < len(key[1])]
            yield (*(step[1] for step in stack), key[3]), " ".join(prose), f"{key[3]}: {key[4]}"
            stack.append((len(key[1]), key[3]))
        prose = []


DOCUMENTED: Final = [(name, *each) for name in ALL_FILES for each in documented(name)]


def layer(name: str) -> Layer:
    return Layer(name, LayerRank.DEFAULTS, read_yaml(file_of(name), rank=LayerRank.DEFAULTS))
