"""``longshore doctor``: looks for what is wrong with the installation, its runs and this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, print_json
from longshore.cli.show.format import escape_controls
from longshore.control.doctor import diagnose
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.control.doctor import Diagnosis

_WIDTH = 23
"""Columns before the sentence."""

FOUND_ERROR = 1
"""Exit status if there is an error."""


@click.command(epilog="Example: longshore doctor    or: longshore doctor --json")
@click.option("--problems", is_flag=True, help="Leave out what is in order.")
@JSON
@click.pass_context
def doctor_command(ctx: click.Context, /, *, problems: bool, as_json: bool) -> None:
    """Look for what is wrong: installation, configuration, workload managers, runs, disks, clocks; nothing is changed.

    The exit status is 1 if there is an error. Notes and warnings do not count.
    """
    found = []
    for diagnosis in diagnose():
        found.append(diagnosis)
        if not as_json and not (problems and diagnosis.state == "ok"):
            click.echo(_diagnosis_text(diagnosis))
    if as_json:
        from longshore.control.documents import doctor_document

        print_json(doctor_document(found, as_of=time.time()))
    else:
        click.echo(_summary_text(found))
    ctx.exit(FOUND_ERROR if any(diagnosis.state == "error" for diagnosis in found) else 0)


def _diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return the line of a diagnosis: state, area, sentence; a second one has the way out."""
    head = f"{diagnosis.state:<8} {diagnosis.area:<14}"
    lines = [f"{head}{escape_controls(diagnosis.message)}"]
    if diagnosis.hint:
        lines.append(" " * _WIDTH + escape_controls(diagnosis.hint))
    return "\n".join(lines)


def _summary_text(found: Sequence[Diagnosis]) -> str:
    """Return the last line: how many errors, warnings and notes there are."""
    counts = {state: sum(each.state == state for each in found) for state in ("error", "warning", "note")}
    if not any(counts.values()):
        return "everything is in order"
    return ", ".join(count_noun(count, state) for state, count in counts.items() if count)
