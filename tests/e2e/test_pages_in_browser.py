"""Pages in a real browser: no network, no error, tables that sort and filter, any width, light, dark and print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from tests.browser import Browser, Page, open_browser
from tests.reports.page.page_examples import HOSTILE, example_page
from tests.written_run import WrittenRun, course

from longshore.model.report import JobReport
from longshore.model.states import JobState
from longshore.reports.dashboard import open_dashboard
from longshore.reports.page.render import render_run_page
from longshore.rundir.registry import RegistryEntry, write_entry

pytestmark = pytest.mark.full

VISIBLE = (
    "[...document.querySelectorAll('#{table} tbody tr')].filter(row => !row.hidden).map(row => row.cells[0].innerText)"
)
CONTRAST = """
(() => {
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (each) => {
    for (; each; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor;
      if (!color.endsWith(", 0)")) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  const kinds = "h1, h2, h3, p, a, td, th, dt, dd, small, code, pre, .badge, label, summary";
  for (const each of document.querySelectorAll(kinds)) {
    if (!each.checkVisibility() || !each.innerText.trim()) continue;
    const [one, other] = [light(getComputedStyle(each).color), light(behind(each))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) poor.push(`${each.tagName} ${each.className} ${ratio.toFixed(2)}: ${each.innerText.slice(0, 30)}`);
  }
  return poor;
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_run_page(example_page(HOSTILE[0], HOSTILE)), "utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Page:
    opened = browser.new_page()
    opened.resize(1400, 1000)
    opened.open(address)
    return opened


def test_a_page_asks_for_nothing_and_reports_no_error(page: Page, address: str) -> None:
    page.run("new Promise(done => setTimeout(done, 100))")
    assert page.requests == [address]
    assert page.console == []
    assert page.run("document.scripts.length") == 1
    assert page.run("document.images.length") == 0


def test_a_table_is_filtered_by_text_and_by_state(page: Page) -> None:
    rows = VISIBLE.replace("{table}", "jobs-table")
    assert len(page.run(rows)) == 21
    page.type("#jobs-filter", "isr_1")
    assert page.run(rows) == ["isr_1", *(f"isr_{number}" for number in range(10, 20))]
    assert page.run("document.querySelector('[data-tools=jobs-table] output').value") == "11 of 21"
    page.type("#jobs-filter", "")
    page.type("#jobs-state", "FAILED")
    assert page.run(rows) == [HOSTILE[0]]
    page.type("#jobs-state", "")
    assert len(page.run(rows)) == 21


def test_of_many_jobs_the_first_are_shown_until_all_are_asked_for(browser: Browser, tmp_path: Path) -> None:
    jobs = tuple(JobReport(name=f"j{number}", label="a", state=JobState.READY) for number in range(400))
    path = tmp_path / "many.html"
    path.write_text(render_run_page(msgspec.structs.replace(example_page(), jobs=jobs)), "utf-8")
    opened = browser.new_page()
    opened.open(path.as_uri())
    rows = VISIBLE.replace("{table}", "jobs-table")
    count = "document.querySelector('[data-tools=jobs-table] output').value"
    assert (len(opened.run(rows)), opened.run(count)) == (300, "400 of 400, the first 300 shown")
    opened.type("#jobs-filter", "j39")
    assert len(opened.run(rows)) == 11, "the filter finds rows that were not shown"
    opened.type("#jobs-filter", "")
    opened.run("dispatchEvent(new Event('beforeprint'))")
    assert len(opened.run(rows)) == 400, "a printed page has all"
    opened.run("dispatchEvent(new Event('afterprint'))")
    assert len(opened.run(rows)) == 300
    opened.click("[data-show-all]")
    assert (len(opened.run(rows)), opened.run(count)) == (400, "400 of 400")


def test_a_label_shows_its_jobs(page: Page) -> None:
    page.click("#labels-table tbody a")
    assert len(page.run(VISIBLE.replace("{table}", "jobs-table"))) == 20


def test_a_table_is_sorted_by_number_both_ways_and_unknown_values_come_last(page: Page) -> None:
    rows = VISIBLE.replace("{table}", "labels-table")
    before = page.run(rows)
    # The column of median run times: the first label alone has one.
    heads = page.run("[...document.querySelectorAll('#labels-table thead th')].map(each => each.innerText.trim())")
    median = f"#labels-table th:nth-child({[head.startswith('Median') for head in heads].index(True) + 1})"
    page.click(f"{median} button")
    assert page.run(f"document.querySelector('{median}').getAttribute('aria-sort')") == "descending"
    assert page.run(rows)[0] == before[0]
    page.click(f"{median} button")
    assert page.run(rows)[0] == before[0]
    page.click("#labels-table th:nth-child(3) button")
    page.click("#labels-table th:nth-child(3) button")
    assert page.run(rows) == [before[1], before[2], before[0]]
    page.click("#labels-table th:nth-child(1) button")
    assert page.run(rows)[-1] == "isr"


def test_signals_are_sorted_as_exit_codes(page: Page) -> None:
    rows = VISIBLE.replace("{table}", "jobs-table")
    # The last job alone has an exit: a signal.
    for _ in range(2):
        page.click("#jobs-table th:nth-child(5) button")
        assert page.run(rows)[0] == HOSTILE[0]


def test_the_keyboard_reaches_and_uses_a_heading(page: Page) -> None:
    page.run("document.querySelector('#jobs-table th button').focus()")
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    assert page.run("document.querySelector('#jobs-table th').getAttribute('aria-sort')") == "ascending"


def test_a_screen_reader_has_a_name_for_whatever_can_be_used(page: Page) -> None:
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    kinds = {"button", "link", "searchbox", "combobox", "image", "region", "navigation", "table", "row", "search"}
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    used = [(role, name) for role, name in roles if role in kinds - {"table", "row"}]
    assert {role for role, _ in used} >= {"button", "link", "searchbox", "combobox", "image", "region", "navigation"}
    assert [role for role, name in used if not name.strip()] == []
    assert {"main", "banner", "contentinfo", "columnheader", "rowheader"} <= {role for role, _ in roles}


def test_no_long_word_widens_a_page(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    page.resize(400, 900)
    (tmp_path / "page.html").write_text(render_run_page(example_page("x" * 2000, ["x" * 2000])), "utf-8")
    page.open((tmp_path / "page.html").as_uri())
    assert page.run("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_fits_any_width_and_can_be_read(page: Page, width: int, dark: bool) -> None:
    page.resize(width, 900, dark=dark)
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(CONTRAST) == []


def test_a_page_of_the_dashboard_updates_and_keeps_what_its_reader_did(browser: Browser, tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    events = course()
    for event in events[:8]:
        run.write(event)
    write_entry(RegistryEntry.of(run.opened.card, str(run.run.root)))
    with open_dashboard(0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            opened = browser.new_page()
            opened.open(f"{server.address}run/k7f3aa")
            opened.type("#jobs-filter", "j2")
            opened.click("#jobs-table th button")
            opened.run("scrollTo(0, 300)")
            opened.run("window.mine = document.querySelector('#configuration')")
            for event in events[8:]:
                run.write(event)
            opened.wait_for("document.querySelector('.badge').innerText === 'FAILED'")
            rows = VISIBLE.replace("{table}", "jobs-table")
            assert opened.run(rows) == ["j2"]
            assert opened.run("document.querySelector('#jobs-filter').value") == "j2"
            assert opened.run("document.querySelector('#jobs-table th').getAttribute('aria-sort')") == "ascending"
            assert opened.run("scrollY") > 200
            assert opened.run("window.mine === document.querySelector('#configuration')")
            assert opened.console == []
            assert {request.partition("/run/")[0] for request in opened.requests} == {server.address.rstrip("/")}
            server.shutdown()
            server.server_close()
            opened.wait_for("!document.querySelector('#lost').hidden")
        finally:
            server.shutdown()
            thread.join()


def test_a_printed_page_shows_what_is_folded(page: Page) -> None:
    assert page.run("document.querySelectorAll('details:not([open])').length") > 0
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("document.querySelectorAll('details:not([open])').length") == 0
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("document.querySelectorAll('details:not([open])').length") > 0
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
