"""The program ``longshore``: finds the subcommand, runs it, and turns errors into messages and exit statuses."""

from __future__ import annotations

import codecs
import errno
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from longshore import __version__
from longshore.cli.options import INTERRUPTED, print_json
from longshore.errors import LongshoreError, OptionHelpRequest, UsageError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: Final = {
    "submit": "Prepare a run and hand it to a workload manager.",
    "report": "Show runs, or one run in detail.",
    "status": "Say in one word how a run stands; the exit status says it too.",
    "logs": "Print logs of jobs: of one, of a label, of all that failed.",
    "explain": "Say why a job waits, runs, failed or was pruned, and all that happened to it.",
    "show-job": "Say what exactly a job runs, and print a script that runs it by hand.",
    "draw": "Draw a run, or what a configuration would come to.",
    "events": "Print all that happened in a run as JSON Lines.",
    "resume": "Take up a run whose engine died.",
    "restart": "Run again what did not succeed.",
    "cancel": "End a run, or some of its jobs.",
    "pause": "Start nothing more of a run until it is unpaused.",
    "unpause": "Let a paused run go on.",
    "throttle": "Bound how many jobs of a run are active at once.",
    "hold": "Keep jobs from starting until they are released.",
    "release": "Let jobs go on that were held.",
    "set": "Change what jobs ask for that have not started.",
    "submitcmd": "Run one script of your own as a job.",
    "acquire": "Make the graph of tasks, and stop.",
    "cluster": "Pack the tasks too, and stop.",
    "transform": "Make the jobs too, and stop.",
    "prepare": "Write the run directory too, and stop.",
    "config": "Look at a configuration: show, explain, lint, schema.",
    "adopt": "Make runs known that came from elsewhere.",
    "forget": "Let runs not be known any more; their directories stay.",
    "init": "Write a file to start from.",
    "site": "List the sites there are, and show one.",
    "ping": "Ask a workload manager whether it can be used.",
    "completion": "Print what makes bash, zsh or fish complete commands, runs and jobs.",
}
"""Subcommands and their one-line help, in the order a user meets them."""

HIDDEN: Final = {"drive": "Be the engine of a run, in the foreground."}

_MODULES: Final = {
    **{name: f"run.{name}" for name in ("submit", "submitcmd", "init", "restart", "resume", "drive")},
    **dict.fromkeys(("acquire", "cluster", "transform", "prepare"), "run.stages"),
    **{name: f"inspect.{name}" for name in ("report", "status", "logs", "explain", "draw", "events")},
    "show-job": "inspect.show_job",
    **{name: f"control.{name}" for name in ("cancel", "adopt", "forget")},
    **dict.fromkeys(("pause", "unpause", "throttle", "hold", "release", "set"), "control.steer"),
    **{name: f"setup.{name}" for name in ("config", "site", "ping", "completion")},
}
"""Module of each command, imported only when the command is called."""

_FUNCTIONS: Final = {"set": "change"}
"""Function names of commands whose own names are unsuitable."""


class OutputClosed(Exception):  # noqa: N818 - a state of affairs, not an error
    """Broken pipe: the reader closed the output amid a command; click would report the error itself as a failure."""


class LazyGroup(click.Group):
    """A group that imports its commands on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands shown in the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            return None
        module = importlib.import_module(f"longshore.cli.{_MODULES[cmd_name]}")
        name = _FUNCTIONS.get(cmd_name, cmd_name)
        command: click.Command = getattr(module, "command", None) or getattr(module, name)
        if ctx.resilient_parsing:
            # Shell completion.
            from longshore.cli.complete_values import complete_values

            complete_values(command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Call a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete an option, or the name of a command without importing any."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return (
            found
            if incomplete and not incomplete.startswith("-")
            else [*found, *click.Command.shell_complete(self, ctx, incomplete)]
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown one, the error names the nearest."""
        if args and args[0] not in COMMANDS and args[0] not in HIDDEN:
            if ctx.resilient_parsing:
                return None, None, args
            hint = did_you_mean(args[0], COMMANDS, likeness=NAME_LIKENESS) or f"There are {', '.join(COMMANDS)}."
            raise UsageError(f"there is no command '{args[0]}'", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: longshore submit montage.yaml --wait",
)
@click.version_option(__version__, prog_name="longshore")
@click.option("--log-level", multiple=True, metavar="LEVEL|COMPONENT=LEVEL", help="How much to say (default INFO).")
@click.option("--long-log", is_flag=True, help="Begin log lines with time, level and component.")
@click.option("--log-file", multiple=True, type=click.Path(dir_okay=False), help="Also log to a file (.json: as JSON).")
@click.option("--log-tty/--no-log-tty", default=True, help="Log to the terminal (default: yes).")
@click.option("--log-label", multiple=True, metavar="KEY=VALUE", help="Add a field to every line of a JSON log.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def longshore(
    *, log_level: tuple[str, ...], long_log: bool, log_file: tuple[str, ...], log_tty: bool, log_label: tuple[str, ...]
) -> None:
    """Load workflows onto compute sites: layered YAML in, jobs on a workload manager out."""
    from longshore.cli.logging_setup import set_up_logging

    set_up_logging(levels=log_level, long=long_log, files=log_file, terminal=log_tty, labels=log_label)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    words = sys.argv[1:] if args is None else args
    if "_LONGSHORE_COMPLETE" in os.environ:
        # Registers the completion classes of bash and fish; click itself selects one.
        importlib.import_module("longshore.cli.setup.completion")
    _bear_any_text()
    try:
        status = _called(words)
        if sys.stdout:  # `None` if it was closed before this program began
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = error.exit_code
    except click.ClickException as error:
        status = _tell(_usage(error), words)
    except (click.Abort, KeyboardInterrupt):
        status = _interrupted(words)
    except (BrokenPipeError, OutputClosed):
        # The reader closed the pipe.
        _drop_output()
        status = 0
    except LongshoreError as error:
        status = _tell(error, words)
    except OSError as error:
        # Writes of files have handlers of their own; this is, as a rule, an error of standard output.
        _drop_output()
        status = _tell(_failed_io(error), words, error)
    except Exception as error:  # noqa: BLE001 - the last door: a user sees a line, and how to see more
        status = _tell(_unexpected(error), words, error)
    sys.exit(status if isinstance(status, int) else 0)


def _bear_any_text() -> None:
    """Let output streams escape characters that the locale cannot encode."""
    codecs.register_error("longshore", _spelled_out)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="longshore")


def _spelled_out(error: UnicodeError) -> tuple[str, int]:
    """Escape characters as JSON does, so that a JSON document stays valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4)), error.end


def _tell(error: LongshoreError, words: list[str], cause: Exception | None = None) -> int:
    if "--debug" in words:
        import traceback

        traceback.print_exception(cause or error)
    if "--json" in words:
        from longshore.app.documents.error import error_document

        print_json(error_document(error))
    from longshore.cli.show.report_text import error_text

    click.echo(error_text(error), err=True)
    return error.exit_status


def _called(words: list[str]) -> Any:
    """Call the command, or show a service's options where the user requested them."""
    try:
        return longshore.main(words, prog_name="longshore", standalone_mode=False)
    except OptionHelpRequest as wanted:
        text = str(wanted)
        if "--json" in words:
            from longshore.app.documents.site import backend_options_document

            print_json(backend_options_document(text))
        else:
            click.echo(text)
        return 0


def _interrupted(words: list[str]) -> int:
    """Report an interruption; with ``--json`` as a document."""
    if "--json" in words:
        from longshore.app.documents.error import ErrorDocument, ErrorEntry

        print_json(ErrorDocument(error=ErrorEntry("interrupted", "interrupted", None, "", INTERRUPTED)))
    return INTERRUPTED


def _drop_output() -> None:
    """Discard buffered output, which would fail again when Python flushes at exit."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: click.ClickException) -> LongshoreError:
    """Convert click's error to a `LongshoreError`, with message and hint."""
    ctx = getattr(error, "ctx", None)
    see = f"See: {ctx.command_path if ctx else 'longshore'} -h"
    if not isinstance(error, click.NoSuchOption):
        text = error.format_message().removesuffix(".")
        return UsageError(text[:1].lower() + text[1:], hint=see)
    guess = did_you_mean(error.option_name, error.possibilities or (), likeness=0.75)
    if not guess and ctx and ctx.parent is None:
        guess = "Options of a command stand behind its name."
    elif ctx and ctx.parent and any(error.option_name in each.opts for each in ctx.parent.command.params):
        guess = f"It stands before the command: longshore {error.option_name} ... {ctx.info_name} ..."
    return UsageError(f"there is no option '{error.option_name}'", hint=f"{guess} {see}".lstrip())


def _failed_io(error: OSError) -> LongshoreError:
    if error.filename:
        return LongshoreError(f"'{error.filename}' cannot be used: {error.strerror}")
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF}:
        return LongshoreError(f"the output cannot be written: {error.strerror}")
    return _unexpected(error)


def _unexpected(error: Exception) -> LongshoreError:
    what = f"{type(error).__name__}: {error}".strip().rstrip(":")
    return LongshoreError(
        f"unexpected: {what}", hint="This is a fault of Longshore's: 'longshore --debug ...' shows where it comes from."
    )
