"""Reports of runs that `print` shows in a few lines."""

from __future__ import annotations

from longshore.model.report_text import report_summary
from longshore.model.run.report import RunReport


class PrintedReport(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    """Report of a run, whose text is made here: records are below what formats durations and causes."""

    def __str__(self) -> str:
        """Return state, counts, failures and notes in a few lines."""
        return report_summary(self)

    @staticmethod
    def of(report: RunReport) -> PrintedReport:
        """Return the same report as one that can be printed."""
        return PrintedReport(**{name: getattr(report, name) for name in report.__struct_fields__})
