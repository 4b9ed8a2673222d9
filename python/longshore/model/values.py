"""Types of YAML and JSON values, and of JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

YamlValue: TypeAlias = "bool | int | float | str | list[YamlValue] | dict[str, YamlValue] | None"
"""An ordinary value of YAML: a scalar, or a list or a map of such values."""

JsonSchema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, or a part of one."""
