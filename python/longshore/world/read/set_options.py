"""Parses ``--set`` and ``--var`` options of the command line into a layer and variables."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.config.lint import add_intended_keys
from longshore.config.merge import Layer, LayerRank, Node, nest, overlay, plain_map, with_origin
from longshore.config.search import is_delimited
from longshore.errors import ConfigError, Origin, UsageError
from longshore.model.values import YamlValue
from longshore.model.wording import is_utf8, quote_value
from longshore.world.read.yaml_text import parse_yaml


def parse_set_options(pairs: Iterable[str], *, name: str = "--set") -> Layer:
    """Build the layer of ``KEY=VALUE`` pairs from the command line.

    A plain key goes under ``bps_cmdline``; one with dots (``site.local.queue``), or with a delimiter in front
    (``.queue``, ``/site/local/queue``), to its place. VALUE is parsed as YAML, except that no value means the empty
    text. A later pair wins over an earlier one.

    Raises `UsageError` when a pair is malformed.
    """
    rank = LayerRank.COMMAND_LINE
    origin = Origin(name, layer=rank.label)
    root = Node({}, origin)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        delimiter = key[:1] if is_delimited(key) else "."
        path = key.removeprefix(delimiter).split(delimiter)
        if not equals or not all(path):
            raise UsageError(
                f"{quote_value(pair)} is not KEY=VALUE",
                hint=f"For example: {name} queue=long {name} site.local.requestCpus=2",
            )
        if not is_utf8(pair):
            raise UsageError(f"{quote_value(pair)} is not UTF-8 text", hint="Write it in UTF-8.")
        try:
            value = with_origin(parse_yaml(text, name, rank=rank), origin) if text else Node("", origin)
        except ConfigError as error:
            raise UsageError(
                f"the value in {quote_value(pair)} cannot be read: {error.message}", hint=error.hint
            ) from error
        place = path if len(path) > 1 or is_delimited(key) else ["bps_cmdline", *path]
        root = overlay(root, nest(value, place))
    return Layer(name, rank, add_intended_keys(root))


def parse_variables(pairs: Iterable[str], *, name: str = "--var") -> dict[str, YamlValue]:
    """Parse ``NAME=VALUE`` pairs from the command line; values are parsed as in `parse_set_options`.

    Raises `UsageError` when a pair is malformed.
    """
    # In a section of their own, names are not interpreted as paths.
    values = parse_set_options((f"/given/{pair}" for pair in pairs), name=name).root.value
    return plain_map(values.get("given") if isinstance(values, dict) else None)
