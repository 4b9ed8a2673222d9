"""The message where a followed run can have no more news although it is not over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from longshore.model.run.report import RunReport


def end_of_following(report: RunReport) -> int:
    """Print why no more news can come; return the exit status of the run's state."""
    from longshore.model.run.state import STATE_EXIT_STATUS

    for note in report.notes:
        click.echo(f"longshore: {note}", err=True)
    return STATE_EXIT_STATUS[report.state]
