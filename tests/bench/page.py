"""Times the HTML report of a run of 100,172 jobs beside the text report, its size, and how fast a browser opens it.

Then it times the dashboard's list of 1,000 runs.

Usage: python -m tests.bench.page [--rounds N] [--jobs N]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.bigrun import SIZE, engine_lock, prepare, write_journal
from tests.bench.report import print_medians, register_runs
from tests.browser import open_browser

from longshore.reports.dashboard import DashboardPages


def print_opening(path: Path, rounds: int) -> None:
    """Print how long Chromium needs to open a page, and to filter its table of labels."""
    if shutil.which("chromium") is None:
        print("  opened by Chromium                           not measured: it is not installed")
        return
    opened, filtered = [], []
    with tempfile.TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        page = browser.new_page()
        page.resize(1400, 1000)
        page.open("about:blank")
        for _ in range(rounds + 1):
            began = time.perf_counter()
            page.open(path.as_uri())
            opened.append(time.perf_counter() - began)
            began = time.perf_counter()
            page.type("#labels-filter", "calibrate")
            page.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            filtered.append(time.perf_counter() - began)
    # The first round warms the browser up.
    print(f"  {'opened by Chromium':44} {statistics.median(opened[1:]):6.2f} s")
    print(f"  {'filtered':44} {statistics.median(filtered[1:]):6.2f} s")


def print_list(rounds: int) -> None:
    """Print how long the dashboard needs for its list of runs, with and without stored reports, and its size."""
    costs = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        made = DashboardPages().page("")
        costs.append(time.perf_counter() - began)
    print(f"  {'list of 1,000 runs, at first':44} {costs[0]:6.2f} s")
    print(f"  {'list of 1,000 runs, again':44} {statistics.median(costs[1:]):6.2f} s, {len(made.body) / 1e6:.2f} MB")


def main() -> None:
    """Write the run, alternate the commands, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=SIZE)
    options = parser.parse_args()
    longshore = [sys.executable, "-m", "longshore"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = prepare(folder, options.jobs)
        path = folder / "report.html"
        write_journal(run)
        page = [*longshore, "report", "--id", str(run.root), "--html", str(path)]
        print(f"median of {options.rounds} rounds, {options.jobs} jobs, 94 % done:")
        with engine_lock(run):
            print_medians("report --id", [*longshore, "report", "--id", str(run.root)], folder, options.rounds)
            print_medians("report --id --html", page, folder, options.rounds)
        print_medians("report --id --html, engine dead", page, folder, options.rounds)
        print(f"  {'size':44} {path.stat().st_size / 1e6:6.2f} MB")
        print_opening(path, options.rounds)
        register_runs(folder)
        print_list(options.rounds)


if __name__ == "__main__":
    main()
