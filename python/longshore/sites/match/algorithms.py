"""Algorithms of requirements: ``match`` compares a field exactly, ``range`` compares versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longshore.contract.site_match import Metadata
from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.sites.match.versions import Version, is_in_range, parse_version

_DEFAULT_FIELD: Final = {"match": "type", "range": "version"}


def match_field(options: Mapping[str, YamlValue], metadata: Metadata | None) -> str | None:
    """Compare a field with a text, exactly; only texts are equal.

    Options are ``field`` and ``value``, or ``FIELD: TEXT``. Without any, each member matches.
    """
    field, wanted = _read_match(options)
    if metadata is None or field is None:
        return None
    value = metadata.get(field)
    if isinstance(value, str) and value == wanted:
        return None
    return value if isinstance(value, str) else ""


def match_range(options: Mapping[str, YamlValue], metadata: Metadata | None) -> str | None:
    """Compare a field, ``version`` by default, with a range of semantic versions; bounds are inside.

    Options are ``field``, and ``min``, ``max`` or both.
    """
    _refuse_unknown(options, ("field", "min", "max"), "range")
    least, most = _read_bound(options, "min"), _read_bound(options, "max")
    if least is None and most is None:
        raise ConfigError("a 'range' needs 'min', 'max' or both", hint="For example 'range: {min: \"0.5.1\"}'.")
    field = str(options.get("field", _DEFAULT_FIELD["range"]))
    value = None if metadata is None else metadata.get(field)
    if metadata is None:
        return None
    if not isinstance(value, str):
        return ""
    version = parse_version(value)
    return None if version is not None and is_in_range(version, least, most) else value


def _read_match(options: Mapping[str, YamlValue]) -> tuple[str | None, str]:
    if not options:
        return None, ""
    if "field" in options or "value" in options:
        _refuse_unknown(options, ("field", "value"), "match")
        if "value" not in options:
            raise ConfigError("a 'match' of a field needs a 'value'", hint="For example '{field: type, value: shm}'.")
        return str(options.get("field", _DEFAULT_FIELD["match"])), _text(options["value"], "value")
    if len(options) > 1:
        raise ConfigError(
            f"a 'match' has one field, not {len(options)}: {', '.join(map(quote_value, options))}",
            hint="Write a list: '- type: shm' and '- vendor: acme'.",
        )
    (field, value), *_ = options.items()
    return field, _text(value, field)


def _text(value: YamlValue, key: str) -> str:
    if isinstance(value, str):
        return value
    raise ConfigError(
        f"'{key}' must be text, not {quote_value(value)}", hint="Write quotation marks around it: fields are texts."
    )


def _read_bound(options: Mapping[str, YamlValue], key: str) -> Version | None:
    value = options.get(key)
    if value is None:
        return None
    # A number such as 2024.10 has lost its last digit.
    version = parse_version(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if version is None:
        raise ConfigError(
            f"'{key}' must be a semantic version, not {quote_value(value)}",
            hint=f"For example '{key}: \"0.5.1\"', in quotation marks.",
        )
    return version


def _refuse_unknown(options: Mapping[str, YamlValue], known: tuple[str, ...], algorithm: str) -> None:
    for key in options:
        if key not in known:
            raise ConfigError(
                f"a '{algorithm}' has no key '{key}'",
                hint=did_you_mean(key, known, likeness=NAME_LIKENESS) or name_all(known),
            )
