"""Statistics and advice of a run: records that print as the commands do, and become tables."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longshore.app.statistics.requests_yaml import requests_yaml
from longshore.client.run_jobs import make_table

if TYPE_CHECKING:
    import pandas as pd

    from longshore.app.statistics.attempt_statistics import AttemptStatistics
    from longshore.app.statistics.request_advice import RequestAdvice
    from longshore.app.statistics.run_statistics import RunStatistics
    from longshore.app.statistics.suggest_requests import LabelSuggestion
    from longshore.model.run.report import TextPrinter
    from longshore.model.workflow.request import Request


class StatisticsTable:
    """Statistics of the attempts of a run. ``print`` and notebooks show the tables of ``longshore stats``."""

    def __init__(self, found: RunStatistics) -> None:
        self._found = found

    @property
    def total(self) -> AttemptStatistics:
        """Statistics of all attempts."""
        return self._found.grouped.total

    @property
    def labels(self) -> Mapping[str, AttemptStatistics]:
        """Statistics per label, in the order of the workflow."""
        return self._found.grouped.labels

    @property
    def hosts(self) -> Mapping[str | None, AttemptStatistics]:
        """Statistics per host; ``None`` has the attempts that started on an unknown host."""
        return self._found.grouped.hosts

    @property
    def requests(self) -> Mapping[str, Request]:
        """What the first job of each label requests."""
        return self._found.requests

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for the run, and one per label and host.

        The columns are those of ``longshore stats --csv``: ``group`` is run, label or host, and ``key`` its name.

        Raises
        ------
        LongshoreError
            pandas is not installed.

        Examples
        --------
        >>> table = run.stats().to_pandas()
        >>> table[table.group == "label"].set_index("key")[["jobs", "run_s_p50", "peak_memory_b_max"]]
        """
        from longshore.app.text.statistics_rows import COLUMNS, statistics_rows

        return make_table(list(statistics_rows(self._found)), list(COLUMNS))

    def __repr__(self) -> str:
        """Return the run, and its numbers of jobs and attempts."""
        run, total = self._found.opened.card.id, self.total
        return f"<Statistics of run {run}: jobs {total.jobs}, attempts {total.attempts}>"

    def __str__(self) -> str:
        """Return the tables as text, in the width of the terminal; 80 columns without one."""
        from longshore.app.text.statistics_table import statistics_lines
        from longshore.app.text.styled import lines_text

        return lines_text(statistics_lines([self._found], shutil.get_terminal_size().columns), color=False)

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(str(self))


class SuggestedRequests:
    """Requests that fit what the attempts of a run used. ``print`` and notebooks show the YAML that applies them."""

    def __init__(self, advice: RequestAdvice) -> None:
        self._advice = advice

    @property
    def suggestions(self) -> Sequence[LabelSuggestion]:
        """A suggestion per label, in the order of the workflow; `changes` has the requests that differ."""
        return self._advice.suggestions

    @property
    def savings(self) -> str:
        """What the run would have saved, in words."""
        return self._advice.savings

    def save(self, path: str | Path, *, over: str | Path = "") -> Path:
        """Write the YAML to a new file.

        Parameters
        ----------
        path
            The file.
        over
            A configuration that the file includes: what is written wins over it, and the file can be submitted.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        FilesError
            The file exists, or cannot be written.

        Examples
        --------
        >>> longshore.submit(run.suggest_resources().save("tuned.yaml", over="survey.yaml"))
        """
        requests_yaml(self._advice, over=str(over), output=Path(path))
        return Path(path)

    def to_pandas(self) -> pd.DataFrame:
        """Return a table of requested, measured and suggested values, with a row per label and key.

        Memory is in bytes, run time in seconds. ``is_change`` tells whether the suggestion differs by enough.

        Raises
        ------
        LongshoreError
            pandas is not installed.
        """
        names = ("key", "requested", "measured", "suggested", "samples", "exceeding", "is_change")
        rows = [
            (each.label, *(getattr(value, name) for name in names))
            for each in self.suggestions
            for value in each.values  # noqa: PD011 - no table of pandas
        ]
        return make_table(rows, ["label", *names])

    def __repr__(self) -> str:
        """Return the number of labels whose requests change."""
        return f"<SuggestedRequests: labels {len(self.suggestions)}, to change {len(self._advice.changed)}>"

    def __str__(self) -> str:
        """Return the YAML."""
        return requests_yaml(self._advice).rstrip("\n")

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(str(self))
