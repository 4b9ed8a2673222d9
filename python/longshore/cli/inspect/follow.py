"""What a command that follows a run says when there is nothing left to follow, though the run is not over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from longshore.model.run.report import RunReport


def end_of_following(report: RunReport) -> int:
    """Say why no more will come, and return the exit status: that of the run's state."""
    from longshore.model.run.state import EXIT_STATUS

    for note in report.notes:
        click.echo(f"longshore: {note}", err=True)
    return EXIT_STATUS[report.state]
