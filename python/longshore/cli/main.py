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
from longshore.cli.interrupts import (
    INTERRUPTED,
    delay_interrupts,
    deliver_interrupts,
    end_as_terminated,
    termination_status,
    unwind_at_termination,
)
from longshore.cli.terminal import Output, discard_unwritable_output, print_json
from longshore.errors import LongshoreError, OptionHelpRequest, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS: Final = {
    "Run": {
        "submit": "Prepare a run and submit it to a workload manager.",
        "submitcmd": "Submit one script as a job.",
        "acquire": "Make the graph of tasks, then stop.",
        "cluster": "Also pack the tasks into clusters, then stop.",
        "transform": "Also make the jobs, then stop.",
        "prepare": "Also write the run directory, then stop.",
    },
    "Look": {
        "report": "List runs, or report one run in detail.",
        "dashboard": "Show runs in a browser, updated by itself.",
        "status": "Print the state of a run; the exit status is the state's.",
        "logs": "Print job logs: of one job, of a label, of all failed jobs.",
        "explain": "Explain why a job waits, runs, failed or was pruned, with its history.",
        "show-job": "Show a job's command, environment and request, or a script that runs it by hand.",
        "draw": "Draw the graph of a run or of a configuration.",
        "events": "Print the events of a run as JSON Lines.",
        "export": "Write a run for other programs: tables, metrics, traces, provenance.",
        "stats": "Print statistics of runs: waits, run times, memory, retries and badput.",
        "suggest-resources": "Write the YAML of requests that fit what the jobs of runs used.",
    },
    "Steer": {
        "cancel": "Cancel a run, or some of its jobs.",
        "pause": "Start no more jobs of a run until it is unpaused.",
        "unpause": "Continue a paused run.",
        "throttle": "Limit the number of active jobs of a run.",
        "hold": "Hold jobs: they do not start until they are released.",
        "release": "Release held jobs.",
        "set": "Change the requests of jobs that have not started.",
        "restart": "Submit again the jobs of a run that did not succeed.",
    },
    "Configure": {
        "init": "Write a commented example to start from.",
        "config": "Show, explain or lint a configuration, or print its schema.",
        "site": "List, show, check, choose or write the profiles of sites.",
        "completion": "Print the script that completes commands, runs and jobs in bash, zsh or fish.",
    },
    "Operate": {
        "ping": "Check whether a workload manager is available.",
        "resume": "Start a new engine for a run whose engine died.",
        "notify": "Send the notices of a run; --test tries the rules.",
        "verify": "Check that a run directory is as it was written.",
        "doctor": "Look for what is wrong with the installation, its runs and this machine.",
        "archive": "Write a run into one file that commands read like the run.",
        "clean": "Remove caches, logs of what succeeded, and temporary files of runs.",
        "adopt": "Add run directories to the registry.",
        "forget": "Remove runs from the registry; their directories stay.",
    },
}
"""Subcommands and their one-line help in groups, in the order in which a user meets them."""

COMMANDS: Final = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""One-line help per subcommand."""

HIDDEN: Final = {"drive": "Run the engine of a run in the foreground."}

_MODULES: Final = {
    command: module
    for module, commands in {
        "submit": ("submit", "submitcmd", "acquire", "cluster", "transform", "prepare"),
        "report": ("report", "dashboard"),
        "status": ("status",),
        "jobs": ("logs", "explain", "show-job"),
        "exports": ("events", "export", "draw"),
        "stats": ("stats", "suggest-resources"),
        "interventions": ("cancel", "pause", "unpause", "throttle", "hold", "release", "set"),
        "restart": ("restart", "resume"),
        "config": ("init", "config"),
        "site": ("site",),
        "completion": ("completion",),
        "checks": ("ping", "verify", "doctor"),
        "processes": ("notify", "drive"),
        "space": ("archive", "clean"),
        "registry": ("adopt", "forget"),
    }.items()
    for command in commands
}
"""Module of each command, imported only when the command is called; ``show-job`` is its ``show_job_command``."""

_SHOWN_BEFORE: Final = 60
"""Characters before one that cannot be written, by which a user recognizes the text."""
_SUBMITS: Final = frozenset({"submit", "submitcmd"})


class OutputClosed(Exception):  # noqa: N818 - no error: the command just ends
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
        delay_interrupts()
        try:
            module = importlib.import_module(f"longshore.cli.{_MODULES[cmd_name]}")
        finally:
            deliver_interrupts()
        if cmd_name in COMMANDS:
            # An engine ends at once: it leaves nothing that the next one does not take up.
            unwind_at_termination()
        if isinstance(sys.stdout, Output) and (cmd_name == "status" or cmd_name not in GROUPS["Look"]):
            # It has more to do than to print, and its status tells how that went.
            sys.stdout.drops = (BrokenPipeError,)
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        if ctx.resilient_parsing:
            # Shell completion.
            from longshore.cli.complete_values import complete_values

            complete_values(command)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the options; a few of them print and end."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def invoke(self, ctx: click.Context) -> Any:
        """Call a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosed from error
        except (click.UsageError, UsageError) as error:
            if ctx.invoked_subcommand in _SUBMITS:
                from longshore.rundir.find_run import record_refusal

                record_refusal(error.format_message() if isinstance(error, click.UsageError) else error.message)
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete an option, or the name of a command without importing any."""
        from click.shell_completion import CompletionItem

        completions = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return (
            completions
            if incomplete and not incomplete.startswith("-")
            else [*completions, *click.Command.shell_complete(self, ctx, incomplete)]
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, aligned with each other, without importing any."""
        width = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown one, the error names the nearest."""
        if args and args[0] not in COMMANDS and args[0] not in HIDDEN:
            if ctx.resilient_parsing:
                return None, None, args
            from longshore.cli.error_text import command_advice

            raise UsageError(f"there is no command '{args[0]}'", hint=command_advice(args[0], COMMANDS))
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: longshore submit mosaic.yaml --wait",
)
@click.version_option(__version__, prog_name="longshore")
@click.option(
    "--log-level",
    multiple=True,
    metavar="LEVEL|COMPONENT=LEVEL",
    help="Log level, of all or of one component (default INFO).",
)
@click.option("--long-log", is_flag=True, help="Start log lines with time, level and component.")
@click.option("--log-file", multiple=True, type=click.Path(dir_okay=False), help="Also log to a file (.json: as JSON).")
@click.option("--log-tty/--no-log-tty", default=True, help="Log to the terminal (default: yes).")
@click.option("--log-label", multiple=True, metavar="KEY=VALUE", help="Add a field to every line of a JSON log.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def longshore(
    *, log_level: tuple[str, ...], long_log: bool, log_file: tuple[str, ...], log_tty: bool, log_label: tuple[str, ...]
) -> None:
    """Load workflows onto compute sites: layered YAML in, jobs on a workload manager out."""
    from longshore.cli.logging_setup import set_up_logging

    set_up_logging(levels=log_level, long_lines=long_log, files=log_file, terminal=log_tty, labels=log_label)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    words = sys.argv[1:] if args is None else args
    if "_LONGSHORE_COMPLETE" in os.environ:
        # Registers the completion classes of bash and fish; click itself selects one.
        importlib.import_module("longshore.cli.completion")
    _escape_unencodable_output()
    try:
        status = _call_command(words)
        if sys.stdout:  # `None` if it was closed before this program began
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = error.exit_code
    except click.ClickException as error:
        status = _print_error(_usage_error(error), words)
    except (click.Abort, KeyboardInterrupt) as error:
        status = _report_interrupt(error, words)
    except (BrokenPipeError, OutputClosed):
        # The reader closed the pipe.
        status = 0
    except LongshoreError as error:
        status = _print_error(error, words)
    except OSError as error:
        # Writes of files have handlers of their own; this is, as a rule, an error of standard output.
        discard_unwritable_output()
        status = _print_error(_io_error(error), words, error)
    except Exception as error:  # noqa: BLE001 - a user sees one line, and the way to the traceback
        status = _print_error(_unexpected_error(error), words, error)
    discard_unwritable_output()
    end_as_terminated()
    sys.exit(status if isinstance(status, int) else 0)


def _escape_unencodable_output() -> None:
    """Let output streams escape characters that the locale cannot encode."""
    codecs.register_error("longshore", _escape_as_json)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="longshore")


def _escape_as_json(error: UnicodeError) -> tuple[str, int]:
    """Escape characters as JSON does, so that a JSON document stays valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[offset : offset + 4]}" for offset in range(0, len(units), 4)), error.end


def _print_error(error: LongshoreError, words: list[str], cause: Exception | None = None) -> int:
    if "--debug" in words:
        import traceback

        traceback.print_exception(cause or error)
    from longshore.cli.error_text import error_text

    try:
        click.echo(error_text(error), err=True)
        if "--json" in words:
            from longshore.reports.documents.document import error_document

            print_json(error_document(error))
    except OSError:
        # The reader or the terminal has gone, and the status still tells of the error.
        discard_unwritable_output()
    return error.exit_status


def _call_command(words: list[str]) -> Any:
    """Call the command, or show a service's options where the user requested them."""
    deliver_interrupts()
    try:
        return longshore.main(words, prog_name="longshore", standalone_mode=False)
    except OptionHelpRequest as requested:
        text = str(requested)
        if "--json" in words:
            from longshore.reports.documents.site import backend_options_document

            print_json(backend_options_document(text))
        else:
            click.echo(text)
        return 0


def _report_interrupt(error: BaseException, words: list[str]) -> int:
    """Report an interruption and what it left; with ``--json`` also as a document."""
    # click wraps the signal; after a question that was answered with "no", there is none.
    interrupt = error if isinstance(error, KeyboardInterrupt) else error.__context__
    message = "terminated" if termination_status() else "interrupted"
    if isinstance(interrupt, KeyboardInterrupt) and str(interrupt):
        message += f": {interrupt}"
    try:
        if "--json" in words:
            from longshore.reports.documents.document import ErrorDocument, ErrorEntry

            status = termination_status() or INTERRUPTED
            print_json(ErrorDocument(error=ErrorEntry("interrupted", message, None, "", status)))
        if isinstance(interrupt, KeyboardInterrupt):
            click.echo(f"longshore: {message}", err=True)
    except OSError:
        discard_unwritable_output()
    return INTERRUPTED


def _usage_error(error: click.ClickException) -> LongshoreError:
    """Convert click's error to a `UsageError` with a hint."""
    ctx = getattr(error, "ctx", None)
    help_hint = f"See: {ctx.command_path if ctx else 'longshore'} -h"
    if not isinstance(error, click.NoSuchOption):
        # Click lists choices line by line.
        text = " ".join(error.format_message().split()).removesuffix(".")
        return UsageError(text[:1].lower() + text[1:], hint=help_hint)
    from longshore.cli.error_text import option_advice

    known = [name for each in ctx.command.params for name in each.opts] if ctx else []
    advice = option_advice(error.option_name, (ctx.info_name or "") if ctx else "", known)
    if not advice and ctx and ctx.parent is None:
        advice = "Options of a command follow its name."
    elif ctx and ctx.parent and any(error.option_name in each.opts for each in ctx.parent.command.params):
        advice = f"It goes before the command: longshore {error.option_name} ... {ctx.info_name} ..."
    return UsageError(f"there is no option '{error.option_name}'", hint=f"{advice} {help_hint}".lstrip())


def _io_error(error: OSError) -> LongshoreError:
    if error.filename and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        from pathlib import Path

        from longshore.system.room import describe_failed_write

        path = Path(os.fsdecode(error.filename)).parent
        return LongshoreError(f"cannot write {describe_failed_write(error, path)}", hint="Make room there.")
    if error.filename:
        from pathlib import Path

        from longshore.system.room import CLOSED_ERRORS, closed_hint

        hint = closed_hint(Path(os.fsdecode(error.filename))) if error.errno in CLOSED_ERRORS else ""
        return LongshoreError(f"'{error.filename}' cannot be used: {error.strerror}", hint=hint)
    if isinstance(error, FileNotFoundError):
        # A relative path, or a search for files, where the current directory is gone.
        from longshore.system.reading import current_directory

        try:
            current_directory()
        except LongshoreError as gone:
            return gone
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF}:
        return LongshoreError(f"the output cannot be written: {error.strerror}")
    return _unexpected_error(error)


def _unexpected_error(error: Exception) -> LongshoreError:
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        # A name of a file, an argument or a variable of the environment, which the system does not require to be text.
        words = error.object[max(0, error.start - _SHOWN_BEFORE) : error.end].rpartition("\n")[2]
        return LongshoreError(
            f"'{words}' is not UTF-8 text", hint="Rename what is not, or use a locale such as C.UTF-8."
        )
    what = f"{type(error).__name__}: {error}".strip().rstrip(":")
    return LongshoreError(
        f"unexpected: {what}", hint="This is a bug in Longshore: 'longshore --debug ...' prints the traceback."
    )
