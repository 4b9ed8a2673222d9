"""Turns commands of the configuration into templates, a shell line or words, with hints for undefined placeholders.

The reason is in decision 0093.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from longshore.config.interpolate import Interpolator, RawValue, Scope, empty_text, is_optional
from longshore.config.merge import PACKAGED_LAYERS, Node, map_items, to_node
from longshore.config.quantities import parse_bool, quote_node, quoting_hint
from longshore.config.search import Config
from longshore.config.templates import (
    PLAIN,
    WMS_HINT,
    Data,
    Field,
    Parts,
    Quotation,
    ShellContext,
    Template,
    Word,
    is_value,
    is_wms_name,
    parts_text,
    plain_parts,
    protect_data,
    shell_contexts,
    split_fields,
    undelay_env,
)
from longshore.errors import ConfigError, Origin, UndefinedVariableError
from longshore.model.wording import did_you_mean, quote_value

# Hints for undefined placeholders in commands.


PROVIDED: Final = {
    "cpus": "LONGSHORE_JOB_CPUS",
    "threads": "LONGSHORE_JOB_CPUS",
    "mem_mb": "LONGSHORE_JOB_MEMORY_MB",
    "memory": "LONGSHORE_JOB_MEMORY_MB",
    "disk_mb": "LONGSHORE_JOB_DISK_MB",
    "tmpdir": "TMPDIR",
    "attempt": "LONGSHORE_JOB_ATTEMPT",
}
"""Variable of a job's environment that has the value of a name of other systems."""
_FILES: Final = {"input": "inputs", "inputs": "inputs", "output": "outputs", "outputs": "outputs"}
"""Section of a task for a name that other systems have for its files."""
_MAX_NAMES: Final = 5


def placeholder_advice(name: str, config: Config, scope: Scope) -> str:
    """Return a sentence on a name that nothing defines; empty if there is no advice."""
    is_final = scope.searchobj is not None and scope.searchobj is config.node_at("finalJob")
    dataset = config.node_at("pipeline", "datasets", name)
    if is_final and (dataset is not None or config.node_at("pipeline", "dimensions", name) is not None):
        return f"A final job has no datasets and no dimensions: write the path{_example(dataset)}."
    if variable := PROVIDED.get(name):
        return f"Did you mean '${variable}'?"
    if section := _FILES.get(name):
        label = str(scope.current.get("curr_pipetask", ""))
        return _files_advice(section, _names(config.node_at("pipeline", "tasks", label, section)))
    return did_you_mean(name, config.names(scope))


def _example(dataset: Node | None) -> str:
    """Path of a dataset that is one file, as an example."""
    path = dataset.value if dataset is not None else None
    return f", such as '{path}'" if isinstance(path, str) and "{" not in path else ""


def _files_advice(section: str, names: list[str]) -> str:
    if not names:
        return f"A command names the {section} of its task one by one."
    if len(names) == 1:
        return f"Did you mean '{{{names[0]}}}'?"
    shown = ", ".join(f"'{{{name}}}'" for name in names[:_MAX_NAMES])
    return f"The {section} of the task are {shown}{' and others' if names[_MAX_NAMES:] else ''}."


def _names(node: Node | None) -> list[str]:
    """Names of datasets in a list or a map of a task."""
    if node is None:
        return []
    if isinstance(node.value, list):
        return [each.text for each in node.value]
    return list(map_items(node)) if isinstance(node.value, dict) else [node.text]


CommandTemplate: TypeAlias = Template | tuple[Template, ...]


class ShellLine(Template, frozen=True, eq=False, dict=True):
    """A shell line in which each value is exactly the value, also within quotation marks."""

    @cached_property
    def contexts(self) -> tuple[ShellContext, ...]:
        """Quotation marks around each value."""
        return shell_contexts(self.parts)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all values are fields, and none of them is in quotation marks."""
        return not any(isinstance(part, Word) for part in self.parts) and all(
            context == PLAIN for context in self.contexts
        )

    def names_in(self, quotation: Quotation) -> Iterator[str]:
        """Names of the fields that stand there."""
        values = filter(is_value, self.parts)
        for part, context in zip(values, self.contexts, strict=True):
            if isinstance(part, Field) and context.quotation is quotation:
                yield part.name


_PRIVATE: Final = re.compile("\ue000([0-9]+)\ue001")
"""Stands for data while a line is divided into words."""
_PROGRAM_VARIABLES: Final = ("CTRL_MPEXEC_DIR", "DAF_BUTLER_DIR")
_PROGRAM: Final = re.compile(
    r"\$(?:\{(?P<braced>CTRL_MPEXEC_DIR|DAF_BUTLER_DIR)\}|(?P<bare>CTRL_MPEXEC_DIR|DAF_BUTLER_DIR)(?=/))"
    r"/bin/(?P<program>pipetask|butler)(?![\w./-])"
)
"""An LSST program by the variable that its set-up defines; packages from PyPI define no such variable."""


def read_command_template(config: Config, scope: Scope, default: Node | None) -> CommandTemplate | None:
    """Read ``runQuantumCommand``: a shell line if it is text, a program and arguments if it is a list.

    `default` is the command of a configuration without this key.

    Raises
    ------
    ConfigError
        The command names no program, or (as `UndefinedVariableError`) uses an undefined variable.
    """
    key = "runQuantumCommand"
    hit = config.lookup(key, scope)
    if hit is None and default is not None:
        key, hit = "command", RawValue(default.value, default)
    if hit is None or hit.value is None:
        return None
    whole = hit.node or to_node(hit.value, Origin(key))
    nodes = whole.value if isinstance(whole.value, list) else [whole]
    if not nodes:
        raise ConfigError(f"'{key}' names no program", origin=hit.origin)
    for node in nodes:
        if not node.has_text:
            raise ConfigError(
                f"'{key}' must be text or a list of texts, not {quote_node(node)}",
                origin=node.origin,
                hint=quoting_hint(node),
            )
    if not str(nodes[0].value).strip():
        raise ConfigError(f"'{key}' names no program", origin=hit.origin)
    setting = config.lookup("useLazyCommands", scope)
    # Lazy: variables that only the job's machine knows are left to the job.
    lazy = (
        setting is None or setting.value is None or parse_bool(setting.plain_value(), "useLazyCommands", setting.origin)
    )
    if key == "command":
        for node in nodes:
            _refuse_collection(node, config, scope)
    if not isinstance(hit.value, list):
        line = interpolate_shell_line(hit.text, hit.origin, config, scope, lazy=lazy)
        # Tasks of quantum graphs have no command of their own, and lines for them are as in BPS.
        return Template(plain_parts(line.parts), line.origin) if default is None else line
    undefined = partial(_undefined_in_command, config=config, scope=scope)
    interpolator = Interpolator(config, replace(scope, undefined=undefined, keep_delayed=lazy, of_attempts=True))
    return tuple(
        Template(
            protect_data(
                _map_literals(interpolator.parts(node.text, node.origin), partial(replace_program_paths, env=scope.env))
            ),
            node.origin,
        )
        for node in nodes
    )


def interpolate_shell_line(
    text: str, origin: Origin | None, config: Config, scope: Scope, *, lazy: bool = True
) -> ShellLine:
    """Interpolate a shell command for a job.

    With `lazy`, environment variables are left to the job's shell.

    Raises
    ------
    UndefinedVariableError
        The line uses an undefined variable.
    """
    undefined = partial(_undefined_in_command, config=config, scope=scope)
    own = replace(scope, undefined=undefined, expand_env=not lazy, of_attempts=True, is_shell_line=True)
    line = Interpolator(config, own).parts(text, origin)
    return ShellLine(_map_literals(line, lambda part: _shell_program_paths(undelay_env(part))), origin)


def read_command_words(config: Config, key: str, scope: Scope) -> tuple[str, ...]:
    """Program and arguments of a command that runs at once, without a shell; empty where the key is missing.

    Raises
    ------
    ConfigError
        The value is no text, its quotation marks do not match, or (as `UndefinedVariableError`) it uses an undefined
        variable.
    """
    hit = config.lookup(key, scope)
    if hit is None or hit.value is None:
        return ()
    if not hit.has_text:
        raise ConfigError(f"'{key}' must be text, not {quote_value(hit.plain_value())}", origin=hit.origin)
    undefined = partial(_undefined_in_command, config=config, scope=scope)
    env = _without_empty_program_paths(scope.env)
    parts = Interpolator(config, replace(scope, env=env, undefined=undefined)).parts(hit.text, hit.origin, name=key)
    parts = _map_literals(parts, partial(replace_program_paths, env=env))
    try:
        return split_words(parts)
    except ValueError as error:
        raise ConfigError(
            f"'{key}' cannot be divided into words: {str(error).lower()} in {quote_value(parts_text(parts))}",
            origin=hit.origin,
        ) from None


def split_words(parts: Parts) -> tuple[str, ...]:
    """Divide a line into words as a shell does; blanks and quotation marks in data divide nothing.

    Raises
    ------
    ValueError
        The quotation marks of the line do not match.
    """
    data = [part for part in parts if isinstance(part, Data)]
    # A sign for private use is an ordinary letter of a word.
    numbered = iter(range(len(data)))
    line = "".join(f"\ue000{next(numbered)}\ue001" if isinstance(part, Data) else str(part) for part in parts)
    return tuple(_PRIVATE.sub(lambda found: data[int(found[1])], word) for word in shlex.split(line))


def replace_program_paths(text: str, env: Mapping[str, str]) -> str:
    """Replace variables of LSST programs by plain program names where the environment does not define them."""
    return _PROGRAM.sub(
        lambda found: found.group() if env.get(found["braced"] or found["bare"]) else found["program"], text
    )


def _without_empty_program_paths(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which an empty variable of LSST's programs is as good as none."""
    return {name: value for name, value in env.items() if value or name not in _PROGRAM_VARIABLES}


def _shell_program_paths(line: str) -> str:
    """Like `replace_program_paths`, for the environment of the job's shell."""

    def either(found: re.Match[str]) -> str:
        variable = found["braced"] or found["bare"]
        return f"${{{variable}:+${{{variable}}}/bin/}}{found['program']}"

    return _PROGRAM.sub(either, line)


def _refuse_collection(node: Node, config: Config, scope: Scope) -> None:
    """Refuse ``{output}`` in a command of a pipeline unless a user defined it: a collection is no file."""
    if "output" in scope.free or not any(
        isinstance(part, Field) and part.name == "output" for part in split_fields(node.text)
    ):
        return
    hit = config.lookup("output", scope)
    if hit is not None and hit.origin is not None and hit.origin.layer in PACKAGED_LAYERS:
        raise UndefinedVariableError(
            "the command uses '{output}', which is no file of the task, but BPS's name of the run's collection",
            origin=node.origin,
            hint=f"{placeholder_advice('output', config, scope)} If the collection is meant, define 'payload.output'.",
        )


def _map_literals(parts: Parts, change: Callable[[str], str]) -> Parts:
    """The parts with the texts changed that a user wrote."""
    return tuple(change(part) if type(part) is str else part for part in parts)


def _undefined_in_command(name: str, origin: Origin | None, config: Config, scope: Scope) -> str:
    """Replacement of an undefined variable in a command: empty where BPS's commands rely on that."""
    if is_optional(name):
        return empty_text(name, origin)
    if is_wms_name(name):
        raise UndefinedVariableError(
            f"the command uses '{{{name}}}', which no workload manager replaces", origin=origin, hint=WMS_HINT
        )
    guess = placeholder_advice(name, config, scope)
    raise UndefinedVariableError(
        f"the command uses '{{{name}}}', which nothing defines",
        origin=origin,
        hint=f"{guess} If no variable is meant, double the braces: '{{{{{name}}}}}'.".strip(),
    )
