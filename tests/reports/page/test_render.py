"""The page of a run as HTML: complete, the same for the same data, and no text of others is markup."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.reports.page.page_examples import HOSTILE, NOW, example_page, texts

from longshore.model.measurements import distribution_of
from longshore.model.report import JobReport, RunReport
from longshore.model.states import JobState
from longshore.reports.page.content import RunPage, page_of_report
from longshore.reports.page.render import content_policy, render_run_page, shown_cpu_use
from longshore.reports.statistics import AttemptStatistics, BadputSum

SECTIONS = (
    *("wrong", "change", "failures", "labels", "graph", "timeline", "resources", "badput", "jobs"),
    *("configuration", "again"),
)
VOID = {"meta", "input", "link", "br", "img"}


class Reader(HTMLParser):
    """Reads a document as a browser does: elements, attributes, ids and text, and which elements are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.references: set[str] = set()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        for name, value in attrs:
            self.attributes[name] += 1
            if name == "id":
                self.ids[value or ""] += 1
            elif name in {"aria-labelledby", "aria-describedby"}:
                self.references |= set((value or "").split())
            elif name == "href" and (value or "").startswith("#"):
                self.references.add((value or "")[1:])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: RunPage, **values: str | int) -> Reader:
    return Reader(render_run_page(page, **values))  # type: ignore[arg-type]


def test_a_page_has_every_section_and_landmark_once() -> None:
    found = read(example_page())
    assert not found.open
    assert set(SECTIONS) <= found.ids.keys()
    assert [name for name, number in found.ids.items() if number > 1] == []
    assert found.references <= found.ids.keys()
    assert [found.elements[name] for name in ("main", "header", "nav", "footer", "h1", "title")][:5] == [1] * 5
    # No heading is more than a step below the one before.
    assert all(after <= before + 1 for before, after in zip(found.headings, found.headings[1:], strict=False))


def test_the_first_screen_tells_what_went_wrong_and_what_to_change() -> None:
    text = " ".join("".join(read(example_page()).text).split())
    first = text[text.index("What went wrong", text.index("Run again")) : text.index("Failures 1. warp")]
    assert "warp: 2 jobs (signal SIGSEGV)" in first
    assert "Request less memory for isr" in first
    assert "1 job is retried after a failed attempt, the last warp (exit code 3): warp" in first
    assert "2 jobs were removed from the workload manager, the last warp: warp" in first
    assert "Running longest: warp for 10.0 s on warp" in first
    assert "Memory: 3000 MiB before; 95th percentile of 20 attempts 78 MiB." in first
    assert "isr: {requestMemory: 96}" in first


def test_counts_are_those_of_the_report_and_add_up() -> None:
    page = example_page()
    text = "".join(read(page).text)
    legend = text.partition("27 attempts")[2].partition("What went wrong")[0]
    numbers = re.findall(r"(\d+) (succeeded|failed|running|unready)", legend)
    assert {state: int(number) for number, state in numbers} == {
        state.value.lower(): number for state, number in page.report.counts.items()
    }
    assert sum(page.report.counts.values()) == page.report.expected


def test_the_same_data_gives_the_same_text() -> None:
    assert render_run_page(example_page()) == render_run_page(example_page())


def test_a_page_needs_nothing_from_elsewhere() -> None:
    text = render_run_page(example_page())
    assert re.findall(r"(?:src|href)=\"(?!#)", text) == []
    assert "url(" not in text
    assert "@import" not in text
    assert content_policy(is_live=False).startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'none'" in unescape(text)


@settings(max_examples=examples(50))
@given(words=texts.filter(bool), log=st.lists(texts, max_size=4))
@example(words=HOSTILE[0], log=list(HOSTILE))
def test_no_text_of_others_is_markup(words: str, log: list[str]) -> None:
    plain = read(example_page("plain", ["line"] * len(log)))
    found = read(example_page(words, log))
    assert not found.open
    assert found.elements == plain.elements
    assert found.attributes == plain.attributes


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_text_is_shown_as_it_is_written(words: str) -> None:
    text = "".join(read(example_page(words)).text)
    shown = words if words.isprintable() else r"\x00\x1b[31m\ud800\u202e"
    assert shown in text


def test_a_page_has_no_character_that_html_forbids() -> None:
    text = render_run_page(example_page(HOSTILE[-1], HOSTILE))
    assert text.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", text)


def test_a_run_of_which_only_the_report_is_known_has_a_page() -> None:
    counts = {JobState.SUCCEEDED: 1, JobState.PENDING: 1}
    report = RunReport(
        id="12.0", name="r", path="/there", service="htcondor", state=JobState.RUNNING, expected=2, counts=counts,
        labels={"a": counts},
    )  # fmt: skip
    text = " ".join("".join(read(page_of_report(report, now=NOW)).text).split())
    assert "the run directory is not here: it is '/there'" in text
    assert "Too little has run so far." in text


@given(st.dictionaries(st.sampled_from(JobState), st.integers(1, 9999)))
@settings(max_examples=examples(25))
def test_the_states_of_a_label_add_up(counts: dict[JobState, int]) -> None:
    page, jobs = example_page(), sum(counts.values())
    row = msgspec.structs.replace(page.labels[0], counts=counts, expected=jobs)
    report = msgspec.structs.replace(page.report, counts=counts)
    text = render_run_page(msgspec.structs.replace(page, report=report, labels=(row,), spans=None))
    table = text[text.index('<table id="labels-table"') :].partition("</table>")[0]
    heads = re.findall(r'<button type="button">([^<]*)</button>', table)
    cells = [
        int(cell.replace(",", "") or -1) for cell in re.findall(r'<td class="n[^"]*" data-v="[^"]*">([\d,]*)<', table)
    ]
    assert cells[0] == jobs
    numbers = cells[1 : heads.index("Retries") - 1]
    assert sum(numbers) == jobs
    assert ("Deleted" in heads) == (JobState.DELETED in counts)


def test_many_jobs_have_no_table_and_the_page_says_how_to_get_them() -> None:
    text = "".join(read(msgspec.structs.replace(example_page(), jobs=None)).text)
    assert "longshore report k7f3aa --json" in text


def test_many_groups_of_failures_and_many_labels_keep_the_page_small() -> None:
    page = example_page()
    assert page.report.summary
    (failure,) = page.report.summary.failures
    many = tuple(msgspec.structs.replace(failure, job=f"j{number}", tail=("x" * 500,) * 20) for number in range(400))
    summary = msgspec.structs.replace(page.report.summary, failures=many)
    labels = tuple(msgspec.structs.replace(page.labels[0], name=f"l{number}") for number in range(3000))
    report = msgspec.structs.replace(page.report, summary=summary)
    text = render_run_page(msgspec.structs.replace(page, report=report, labels=labels))
    assert len(text) < 2_600_000
    words = " ".join("".join(Reader(text).text).split())
    assert "360 more groups of 720 jobs are in longshore report k7f3aa --json." in words
    assert "The first 400 of 3,000 labels" in words
    assert "1,000 of 3,000 labels, those with failures first" in words


def test_only_a_page_of_the_dashboard_polls() -> None:
    page = example_page()
    assert "data-poll" not in render_run_page(page).partition("</style>")[2].partition("<script>")[0]
    live = render_run_page(page, home="/runs", poll_s=2)
    assert '<body data-poll="2">' in live
    assert "connect-src 'self'" in unescape(live)


@pytest.mark.parametrize(
    ("run_s", "use", "shown"), [(0.1, 2.5, None), (0.1, 0.5, 0.5), (1.0, 2.5, 2.5), (9.0, None, None)]
)
def test_more_than_the_requested_processors_is_shown_of_long_attempts(
    run_s: float, use: float | None, shown: float | None
) -> None:
    found = AttemptStatistics(
        run_s=distribution_of([run_s]), cpu_efficiency=distribution_of([] if use is None else [use])
    )
    assert shown_cpu_use(found) == shown


def test_a_run_time_below_a_tenth_of_a_second_is_not_0() -> None:
    page = example_page()
    job = JobReport(name="quick", label="isr", state=JobState.SUCCEEDED, attempts=1, run_s=0.024)
    text = " ".join(Reader(render_run_page(msgspec.structs.replace(page, jobs=(job,)))).text)
    assert "0.02 s" in text


def test_a_signal_has_the_place_of_its_exit_code() -> None:
    jobs = [JobReport(name=f"j{number}", label="isr", state=JobState.FAILED, signal=number) for number in (9, 15)]
    text = render_run_page(msgspec.structs.replace(example_page(), jobs=tuple(jobs)))
    assert '<td data-v="137">SIGKILL</td>' in text
    assert '<td data-v="143">SIGTERM</td>' in text


def test_badput_that_is_unknown_is_not_0_in_the_table_of_labels() -> None:
    page = example_page()
    lost = AttemptStatistics(jobs=1, attempts=1, badput=BadputSum(attempts=1, unknown=1))
    rows = [msgspec.structs.replace(row, statistics=lost) for row in page.labels]
    text = render_run_page(msgspec.structs.replace(page, labels=tuple(rows)))
    cells = re.findall("<td.*?</td>", text.partition('id="labels-table"')[2].partition("</tr>\n<tr")[0])
    assert cells[-1] == '<td class="n" data-v=""></td>'


def test_memory_that_was_never_measured_is_no_sign_of_good_requests() -> None:
    page = example_page()
    words = "Peak memory was not measured"
    assert words in render_run_page(page), "the total of the example has none"
    total = msgspec.structs.replace(page.total, peak_memory_b=distribution_of([1e6]))
    assert words not in render_run_page(msgspec.structs.replace(page, total=total))
