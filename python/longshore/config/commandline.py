"""Turns ``runQuantumCommand`` into templates: a line for the shell of a job, or a program and its arguments."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from longshore.config.interpolate import Template, shown, undelayed_env
from longshore.config.merge import Node, plain
from longshore.config.search import Config, Expander, Hit, Scope, did_you_mean, empty
from longshore.errors import ConfigError, UndefinedVariableError
from longshore.origin import Origin

CommandTemplate: TypeAlias = Template | tuple[Template, ...]

_MAY_BE_ABSENT: Final = frozenset({"inCollection", "dataQuery"})


def command_template(config: Config, scope: Scope, otherwise: Node | None) -> CommandTemplate | None:
    """``runQuantumCommand``: for the shell if it is text, word by word if it is a list.

    Parameters
    ----------
    config, scope
        Where it is looked up.
    otherwise
        What runs where the configuration has none.

    Raises
    ------
    ConfigError
        It names no program, or (as `UndefinedVariableError`) uses a variable that nothing defines.
    """
    key = "runQuantumCommand"
    hit = config.lookup(key, scope)
    if hit is None and otherwise is not None:
        key, hit = "command", Hit(otherwise.value, otherwise)
    if hit is None or hit.value is None:
        return None
    words = hit.value if isinstance(hit.value, list) else [hit.value]
    nodes = [word if isinstance(word, Node) else Node(word, hit.origin or Origin(key)) for word in words]
    if not nodes:
        raise ConfigError(f"'{key}' names no program", origin=hit.origin)
    for node in nodes:
        if isinstance(node.value, bool) or not isinstance(node.value, str | int | float):
            raise ConfigError(
                f"'{key}' must be text or a list of texts, not {shown(plain(node))}",
                origin=node.origin,
                hint="Words such as true and no must be quoted in YAML to be text.",
            )
    if not str(nodes[0].value).strip():
        raise ConfigError(f"'{key}' names no program", origin=hit.origin)
    if not isinstance(hit.value, list):
        return shell_line(str(hit.value), hit.origin, config, scope)
    undefined = partial(_undefined_in_command, config=config, scope=scope)
    word_by_word = Expander(config, replace(scope, undefined=undefined, keep_delayed=True))
    return tuple(word_by_word.template(str(node.value), node.origin) for node in nodes)


def shell_line(text: str, origin: Origin | None, config: Config, scope: Scope) -> Template:
    """A command as a line for the shell of the job, which expands the environment variables that are left in it.

    Raises
    ------
    UndefinedVariableError
        It uses a variable that nothing defines.
    """
    undefined = partial(_undefined_in_command, config=config, scope=scope)
    line = Expander(config, replace(scope, undefined=undefined, expand_env=False)).template(text, origin)
    return Template(tuple(undelayed_env(part) if isinstance(part, str) else part for part in line.parts), line.origin)


def _undefined_in_command(name: str, origin: Origin | None, config: Config, scope: Scope) -> str:
    """What stands for an undefined variable of a command: nothing where BPS's commands rely on that."""
    extra = name.startswith("extra") and name.endswith("Options")
    if extra or name.endswith("PreCmdOpts") or name in _MAY_BE_ABSENT:
        return empty(name, origin)
    guess = did_you_mean(name, config.names(scope))
    raise UndefinedVariableError(
        f"the command uses '{{{name}}}', which nothing defines",
        origin=origin,
        hint=f"{guess} If no variable is meant, double the braces: '{{{{{name}}}}}'.".strip(),
    )
