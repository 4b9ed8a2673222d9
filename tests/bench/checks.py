"""Times the checks before a run is written: for valid jobs, and for jobs that all fail them.

Usage: python -m tests.bench.checks [JOBS ...]

Without numbers: 10,000, 100,000 and 1,000,000 jobs of ten labels, each with an input and a program that are there, and
an output of its own; then as many in which each of these is wrong. Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longshore.errors import LongshoreError
from longshore.model.tasks import Dag, File, collection_paused
from longshore.model.workflow import Job, JobSettings, Request, Workflow
from longshore.plan.checks import check_jobs
from longshore.plan.resolved_run import resolve_run

SIZES: Final = (10_000, 100_000, 1_000_000)
LABELS: Final = 10
INPUTS: Final = 10_000
"""Number of input files; more jobs than files share them."""


class _Quiet:
    def note(self, text: str) -> None:
        pass

    def stage(self, text: str) -> None:
        pass


def build_workflow(number: int, folder: Path, *, well: bool) -> Workflow:
    """Build a workflow of ``number`` jobs."""
    settings = [JobSettings(label=f"l{label}", request=Request(cpus=1 if well else 10_000)) for label in range(LABELS)]
    program = "true" if well else "no-such-program"

    def jobs() -> Iterator[Job]:
        for each in range(number):
            reads = f"in{each % INPUTS}" if well else f"gone{each}"
            yield Job(
                name=f"job_{each}",
                label=f"l{each % LABELS}",
                command=(program, str(each)),
                settings=settings[each % LABELS],
                inputs=(reads,),
                outputs=(f"out{each if well else each // 2}",),
            )

    made = list(jobs())
    names = {name: f"{folder}/{name}" for job in made for name in (*job.inputs, *job.outputs)}
    return Workflow(
        "bench", Dag.by_name(made), files={name: File(name=name, path=path) for name, path in names.items()}
    )


def measure(number: int, folder: Path, *, well: bool) -> tuple[float, int]:
    """Return seconds of the checks and the number of lines they report."""
    begun = resolve_run(Path("run.yaml"), now=0.0, progress=_Quiet())
    jobs = build_workflow(number, folder, well=well)
    lines = 0
    began = time.process_time()
    with collection_paused():
        try:
            check_jobs(begun, jobs, _Quiet())
        except LongshoreError as error:
            lines = len(error.details)
    return time.process_time() - began, lines


def main() -> None:
    """Print one line per number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("jobs", nargs="*", type=int, default=SIZES)
    sizes = parser.parse_args().jobs or SIZES
    print("      jobs     well s  all wrong s   lines")
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        Path("run.yaml").write_text("wmsServiceClass: local\n", "utf-8")
        folder = Path(name, "data")
        folder.mkdir()
        for each in range(INPUTS):
            os.mknod(folder / f"in{each}")
        for number in sizes:
            well, _ = measure(number, folder, well=True)
            wrong, lines = measure(number, folder, well=False)
            print(f"{number:>10,} {well:>10.2f} {wrong:>12.2f} {lines:>7}")


if __name__ == "__main__":
    main()
