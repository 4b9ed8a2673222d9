"""``longshore completion``: prints the shell script for completion, by click's protocol."""

from __future__ import annotations

import os
from typing import Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

_PROGRAM: Final = "longshore"
_VARIABLE: Final = "_LONGSHORE_COMPLETE"

_BASH: Final = r"""# Completion of %(prog_name)s for bash 4.4 and newer.
%(complete_func)s() {
    local line=${COMP_LINE:0:COMP_POINT} response type value
    # The word that bash replaces begins behind the last sign that parts words to it, such as ':', or with that sign if
    # it is '@' or '$' (readline's special prefixes): of what is offered, only the same part may be given back.
    local word=${line##*[[:space:]]}
    local shown=${word##*["$COMP_WORDBREAKS"]}
    local kept=${word%%"$shown"}
    case $kept in *[@$]) kept=${kept%%?} ;; esac

    response=$(COMP_LINE="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
        dir) compopt -o dirnames ;;
        file) compopt -o default ;;
        plain)
            # Behind 'key=' and 'section.' more is typed.
            case $value in *[=.]) compopt -o nospace ;; esac
            COMPREPLY+=("$(printf '%%q' "${value#"$kept"}")")
            ;;
        esac
    done <<<"$response"
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _BashComplete(BashComplete):
    """Bash, but without its own rules for word breaks."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE")
        if line is None:
            return super().get_completion_args()
        words = split_arg_string(line)[1:]
        if line[-1:].isspace() or not words:
            return words, ""
        return words[:-1], words[-1]

    @staticmethod
    def _check_version() -> None:
        """Skip click's version check, which would start bash."""


class _ZshComplete(ZshComplete):
    """Zsh, which would otherwise add a space behind ``key=`` and ``section.``."""

    source_template = (
        ZshComplete.source_template.replace(
            """            if [[ "$descr" == "_" ]]; then
""",
            """            if [[ "$key" == *[=.] ]]; then
                open+=("$key")
                [[ "$descr" == "_" ]] && open_shown+=("$key") || open_shown+=("$key  $descr")
            elif [[ "$descr" == "_" ]]; then
""",
        )
        .replace(
            """    if [ -n "$completions" ]; then
""",
            """    if [ -n "$open" ]; then
        compadd -U -S '' -V unsorted -l -d open_shown -a open
    fi

    if [ -n "$completions" ]; then
""",
        )
        .replace(
            """    local -a response
""",
            """    local -a response open open_shown
""",
        )
    )


class _FishComplete(FishComplete):
    """Fish, which would otherwise sort runs by their ids."""

    source_template = FishComplete.source_template.replace("--no-files", "--no-files --keep-order")

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type},{item.value}\t{item.help}" if item.help else f"{item.type},{item.value}"


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _BashComplete, "zsh": _ZshComplete, "fish": _FishComplete}

for _name, _kind in _SHELLS.items():
    add_completion_class(_kind, _name)


@click.command(epilog="Example: longshore completion bash > ~/.local/share/bash-completion/completions/longshore")
@click.argument("shell", type=click.Choice([*_SHELLS]))
@click.pass_context
def completion_command(ctx: click.Context, /, *, shell: str) -> None:
    """Print the script that completes commands, options, runs, labels, jobs, sites, services and keys in SHELL."""
    completer = _SHELLS[shell](ctx.find_root().command, {}, _PROGRAM, _VARIABLE)
    click.echo(completer.source_template % completer.source_vars())
