"""Reads ``notify``: commands and webhooks that tell people of a run (pure functions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from longshore.config.merge import Node, plain_value
from longshore.config.quantities import parse_walltime
from longshore.errors import ConfigError
from longshore.model.notice import NoticeEvent, NoticeRule, SecretReference
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all, quote_value

SECTION: Final = "notify"
_KEYS: Final = ("events", "command", "webhook", "format", "timeout")
_EVENTS: Final = tuple(event.value for event in NoticeEvent)
_FORMATS: Final = ("json", "slack")
_LONGEST_TIMEOUT_S: Final = 600.0
_REFERENCE_HINT: Final = "For example webhook: {env: CHAT_URL}, or webhook: {file: ~/.config/chat-url}."


def read_notices(section: Node | None) -> tuple[NoticeRule, ...]:
    """Read the rules of ``notify``, in the order of their names.

    Raises
    ------
    ConfigError
        A key, an event or a value is wrong; a rule has no command and no webhook, or both.
    """
    if section is None or section.value is None:
        return ()
    rules = _map_of(section, SECTION)
    return tuple(_read_rule(name, rules[name]) for name in sorted(rules) if rules[name].value is not None)


def no_rules_error(name: str) -> ConfigError:
    """Return the error of a command that needs rules, for a configuration or a run without any."""
    return ConfigError(
        f"'{name}' has no rule of notices",
        hint="For example: notify: {mail: {events: [end], command: 'mail -s \"$LONGSHORE_SUBJECT\" $USER'}}",
    )


def _read_rule(name: str, node: Node) -> NoticeRule:
    place = f"{SECTION}.{name}"
    parts = {key: item for key, item in _map_of(node, place).items() if item.value is not None}
    _refuse_unknown(parts, _KEYS, place)
    if ("command" in parts) == ("webhook" in parts):
        raise ConfigError(
            f"'{place}' must have either a command or a webhook, and has {'both' if 'command' in parts else 'neither'}",
            origin=node.origin,
        )
    return NoticeRule(
        name=name,
        events=_read_events(parts.get("events"), place),
        command=_read_command(parts["command"], f"{place}.command") if "command" in parts else "",
        webhook=_read_reference(parts["webhook"], f"{place}.webhook") if "webhook" in parts else None,
        format=_read_format(parts.get("format"), place),
        timeout_s=_read_timeout(parts.get("timeout"), place),
    )


def _read_events(node: Node | None, place: str) -> tuple[NoticeEvent, ...]:
    """Read the events of a rule: a list, or one; the end where there is none."""
    if node is None:
        return (NoticeEvent.END,)
    if node.value == []:
        raise ConfigError(
            f"'{place}.events' is empty, so the rule would never send a notice",
            origin=node.origin,
            hint=f"{name_all(_EVENTS)} Without this key it is {NoticeEvent.END.value}.",
        )
    found = []
    for item in node.value if isinstance(node.value, list) else [node]:
        if item.value not in _EVENTS:
            word = plain_value(item)
            hint = did_you_mean(str(word), _EVENTS, likeness=NAME_LIKENESS) or name_all(_EVENTS)
            raise ConfigError(f"'{place}.events' has no event {quote_value(word)}", origin=item.origin, hint=hint)
        found.append(item.value)
    return tuple(event for event in NoticeEvent if event in found)


def _read_command(node: Node, place: str) -> str:
    """Read a command; its program cannot be in the directory of the run, which is new when a notice is sent."""
    command = _read_text(node, place)
    program = command.split(maxsplit=1)[0]
    if program.startswith(("./", "../")):
        raise ConfigError(
            f"'{place}' starts in the directory of the run, where '{program}' is not",
            origin=node.origin,
            hint="Give the whole path, or one that begins with ~/.",
        )
    return command


def _read_reference(node: Node, place: str) -> SecretReference:
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"'{place}' must name the variable or the file with the address: an address is a secret",
            origin=node.origin,
            hint=_REFERENCE_HINT,
        )
    parts = {key: item for key, item in node.value.items() if item.value is not None}
    _refuse_unknown(parts, ("env", "file"), place)
    if len(parts) != 1:
        raise ConfigError(f"'{place}' must have either env or file", origin=node.origin, hint=_REFERENCE_HINT)
    return SecretReference(**{key: _read_text(item, f"{place}.{key}") for key, item in parts.items()})


def _read_format(node: Node | None, place: str) -> Literal["json", "slack"]:
    if node is None:
        return "json"
    if node.value not in _FORMATS:
        hint = did_you_mean(node.text, _FORMATS, likeness=NAME_LIKENESS) or name_all(_FORMATS)
        value = quote_value(plain_value(node))
        raise ConfigError(f"'{place}.format' has no format {value}", origin=node.origin, hint=hint)
    return "slack" if node.value == "slack" else "json"


def _read_timeout(node: Node | None, place: str) -> float:
    if node is None:
        return NoticeRule(name="", events=()).timeout_s
    seconds = parse_walltime(plain_value(node), f"{place}.timeout", node.origin)
    if not 0.0 < seconds <= _LONGEST_TIMEOUT_S:
        raise ConfigError(
            f"'{place}.timeout' must be between 1 s and 10 minutes, not {quote_value(plain_value(node))}",
            origin=node.origin,
        )
    return seconds


def _read_text(node: Node, place: str) -> str:
    if not node.has_text:
        raise ConfigError(f"'{place}' must be a text, not {quote_value(plain_value(node))}", origin=node.origin)
    if not node.text.strip():
        raise ConfigError(f"'{place}' is empty", origin=node.origin)
    return node.text


def _map_of(node: Node, place: str) -> Mapping[str, Node]:
    if not isinstance(node.value, dict):
        raise ConfigError(f"'{place}' must be a map, not {quote_value(plain_value(node))}", origin=node.origin)
    return node.value


def _refuse_unknown(parts: Mapping[str, Node], known: tuple[str, ...], place: str) -> None:
    for key, item in parts.items():
        if key not in known:
            hint = did_you_mean(key, known, likeness=NAME_LIKENESS) or name_all(known)
            raise ConfigError(f"'{place}' has no key '{key}'", origin=item.origin, hint=hint)
