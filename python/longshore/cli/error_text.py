"""What an error says, and advice for an unknown command or option; apart so that only an error imports it.

No text in an error can imitate a second line of it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from longshore.errors import LongshoreError, Origin
from longshore.model.report import INDENT, escape_controls
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all

_COMMAND_SYNONYMS: Final = {
    **dict.fromkeys(("run", "start", "launch", "qsub", "sbatch", "condor_submit"), "submit"),
    **dict.fromkeys(("list", "ls", "ps", "runs", "queue", "top", "show", "qstat", "squeue", "condor_q"), "report"),
    **dict.fromkeys(("kill", "stop", "abort", "delete", "qdel", "scancel", "condor_rm"), "cancel"),
    **dict.fromkeys(("retry", "rerun", "again"), "restart"),
    **dict.fromkeys(("lint", "check", "validate"), "config lint"),
    **dict.fromkeys(("graph", "plot", "dag"), "draw"),
    **dict.fromkeys(("log", "tail", "output"), "logs"),
    **dict.fromkeys(("why", "diagnose"), "explain"),
    **dict.fromkeys(("continue", "recover"), "resume"),
    **dict.fromkeys(("dry-run", "dryrun", "plan"), "transform"),
    **dict.fromkeys(("rm", "remove"), "forget"),
    "sites": "site list",
    "job": "show-job",
    "new": "init",
}
"""Command per word that other programs have for it."""
DRY_RUN_ADVICE: Final = (
    "'longshore transform FILE' makes the jobs and submits none; 'longshore prepare FILE' also writes them, "
    "for 'longshore show-job DIR JOB'."
)
_OPTION_ADVICE: Final = {
    "--dry-run": DRY_RUN_ADVICE,
    "-n": DRY_RUN_ADVICE,
    "--dryrun": DRY_RUN_ADVICE,
    "--watch": "'--wait' follows the run to its end.",
    "--follow": "'--wait' follows the run to its end.",
    "--config": "The configuration is named without an option: longshore submit FILE.",
    "--site": "Did you mean '--compute-site'?",
    "--service": "Did you mean '--wms-service-class'?",
}
"""Advice per option that `submit` does not have."""


def command_advice(word: str, commands: Collection[str]) -> str:
    """Return the command that an unknown word may mean, or all commands."""
    if word in _COMMAND_SYNONYMS:
        return f"Did you mean '{_COMMAND_SYNONYMS[word]}'?"
    if word.endswith((".yaml", ".yml")):
        return f"Did you mean 'submit {word}'?"
    if word.startswith("@"):
        return "A run is named after a command: longshore report @last."
    return did_you_mean(word, commands, likeness=NAME_LIKENESS) or name_all(commands)


def option_advice(option: str, command: str, known: Collection[str]) -> str:
    """Return the option that an unknown one may mean; empty where none is near."""
    if command == "submit" and option in _OPTION_ADVICE and option not in known:
        return _OPTION_ADVICE[option]
    return did_you_mean(option, known, likeness=0.75)


def indent_paragraph(text: str) -> str:
    """Keep line breaks but indent the lines, so that no message can imitate a second one."""
    return f"\n{INDENT}".join(escape_controls(line) for line in text.strip().splitlines())


_MAX_FAULTS: Final = 40
"""Maximum number of faults shown of one error; ``--json`` gives all."""


def error_text(error: LongshoreError) -> str:
    """Format an error: origin and message, then the hint; each fault of several."""
    if len(error.details) <= 1:
        return _fault_text(error.origin, error.message, error.hint)
    faults = error.details[:_MAX_FAULTS]
    # A hint that consecutive faults share is printed after the last of them.
    following = [*(fault.hint for fault in faults[1:]), ""]
    shown = [
        _fault_text(fault.origin, fault.message, fault.hint if fault.hint != after else "")
        for fault, after in zip(faults, following, strict=True)
    ]
    left = len(error.details) - len(faults)
    more = f", {left} of which are not shown; --json gives all" if left else ""
    return "\n".join([*shown, f"longshore: error: {len(error.details)} problems in all{more}"])


def _fault_text(origin: Origin | None, message: str, hint: str) -> str:
    place = f"{escape_controls(str(origin))}: " if origin else ""
    text = f"longshore: error: {place}{indent_paragraph(message)}"
    return f"{text}\n{INDENT}{indent_paragraph(hint)}" if hint else text
