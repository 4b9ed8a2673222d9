"""Times loading and linting of configurations of 5,000 and 50,000 lines.

Usage: python -m tests.bench.configuration [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from longshore.plan.lint_file import lint_file


def configuration_text(lines: int) -> str:
    """Return a configuration of ``lines`` lines, five per task."""
    parts = ["wmsServiceClass: local\nproject: bench\npipetask:\n"]
    parts += [
        f"  task{number}:\n    requestMemory: {1000 + number}\n    requestCpus: 2\n"
        f"    queue: 'q_{{project}}_{number}'\n    environment: {{THREADS: '{number}'}}\n"
        for number in range(lines // 5)
    ]
    return "".join(parts)


def main() -> None:
    """Lint each size in several rounds and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "run.yaml")
        for lines in (5_000, 50_000):
            path.write_text(configuration_text(lines), "utf-8")
            taken = []
            for _ in range(options.rounds):
                began = time.perf_counter()
                found = lint_file(path, now=0).findings
                taken.append(time.perf_counter() - began)
            print(f"{lines:6,} lines: {statistics.median(taken):.2f} s, {len(found)} findings")


if __name__ == "__main__":
    main()
