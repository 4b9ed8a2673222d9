"""Numbers in records of a run that are none, or beyond any: what is told of the run has none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.written_run import NOW, finished_run

from longshore.errors import LongshoreError
from longshore.reports.documents.document import to_json
from longshore.reports.documents.job import explain_job_document
from longshore.reports.explain import explain_job
from longshore.reports.page.content import collect_page
from longshore.reports.page.render import render_run_page
from longshore.reports.report import report_run
from longshore.reports.statistics import read_attempts
from longshore.rundir.run_archive import write_archive
from longshore.runstate.open_run import OpenRun, open_run

_NUMBER = re.compile(rb"(?<=[:\[, ])-?[0-9]+(\.[0-9]+)?(?=[,}\]\n])")
NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400]


def looks(opened: OpenRun) -> Iterator[str]:
    """What looks at a run tell; a damaged record is an error of ours."""
    with suppress(LongshoreError):
        report = report_run(opened, details=True, now=NOW)
        yield f"{report} {report.summary} {[*(report.jobs or ())]}"
    with suppress(LongshoreError):
        explained = explain_job(opened, "j1", now=NOW)
        yield explained.text
        yield to_json(explain_job_document(explained))
    with suppress(LongshoreError):
        yield str(list(read_attempts(opened).attempts))
    with suppress(LongshoreError):
        yield re.sub(
            "<(style|script).*?</(style|script)>", "", render_run_page(collect_page(opened, now=NOW)), flags=re.DOTALL
        )


@pytest.mark.parametrize("value", NO_NUMBERS, ids=[value[:9] for value in NO_NUMBERS])
def test_a_number_that_is_none_is_not_told(value: str, tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    files = [path for path in run.run.root.rglob("*.json*") if path.is_file()]
    tried = 0
    for path in files:
        content = path.read_bytes()
        found = list(_NUMBER.finditer(content))
        for number in found[:: max(1, len(found) // 3)]:
            path.write_bytes(content[: number.start()] + value.encode() + content[number.end() :])
            told = " ".join(looks(OpenRun(run=run.run, card=run.opened.card)))
            assert not re.search(r"\b(nan|inf|infinity)\b", told, re.IGNORECASE), (path, number)
            tried += 1
        path.write_bytes(content)
    assert tried > 8


@pytest.mark.parametrize("value", NO_NUMBERS[:4])
def test_a_number_that_is_none_makes_an_archive_of_a_stranger_unreadable(value: str, tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    card = run.run.card.read_bytes()
    run.run.card.write_bytes(re.sub(rb'"expected": [0-9]+', b'"expected": ' + value.encode(), card))
    assert card != run.run.card.read_bytes()
    archive = tmp_path / "run.tar.gz"
    with archive.open("wb") as stream:
        write_archive(run.run.root, stream, suffix=".tar.gz")
    with pytest.raises(LongshoreError, match=r"run\.json"):
        open_run(str(archive))
