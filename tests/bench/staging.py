"""Staging: seconds for many jobs with three small files each by the stage program, and by the same commands by hand.

    python tests/bench/staging.py [JOBS] [ROUNDS]

Both begin with an empty temporary directory per job, as the job wrapper makes it, copy three inputs, run a command that
writes three outputs, copy these to a directory beside their targets, and rename them. They take turns. The program gets
the options that an engine gives it for few files, and both processor time and wall time are told: the latter depends on
what else the machine does.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "longshore-stage"
COMMAND = "cat a b c > x; echo y > y; echo z > z"
BY_HAND = f"""set -e
mkdir "$TMPDIR/scratch"
cp "$1/in/a" "$1/in/b" "$1/in/c" "$TMPDIR/scratch/"
(cd "$TMPDIR/scratch" && exec /bin/sh -c '{COMMAND}')
mkdir "$2/.new"
cp "$TMPDIR/scratch/x" "$TMPDIR/scratch/y" "$TMPDIR/scratch/z" "$2/.new/"
mv "$2/.new/x" "$2/.new/y" "$2/.new/z" "$2/"
rmdir "$2/.new"
"""


def main() -> None:
    jobs, rounds = (int(word) for word in (*sys.argv[1:], *("1000", "3")[len(sys.argv) - 1 :]))
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "in").mkdir()
        for each in "abc":
            (root / "in" / each).write_text(each, "utf-8")
        for number in range(rounds):
            seconds = {"hand": 0.0, "stage": 0.0}
            processor = dict(seconds)
            for job in range(jobs):
                for way in seconds:
                    before = processor_time()
                    seconds[way] += run_job(root / f"{way}{number}" / str(job), way, root)
                    processor[way] += processor_time() - before
            ratios.append((seconds["stage"] / seconds["hand"], processor["stage"] / processor["hand"]))
            for kind, spent, ratio in zip(("wall", "processor"), (seconds, processor), ratios[-1], strict=True):
                figures = f"by hand {spent['hand']:.2f} s, longshore-stage {spent['stage']:.2f} s"
                print(f"{jobs} jobs, {kind} time: {figures}, {ratio:.2f} times", flush=True)
    walls, processors = zip(*ratios, strict=True)
    print(f"median: {median(walls):.2f} times the wall time, {median(processors):.2f} times the processor time")


def processor_time() -> float:
    """Return the processor time of all processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_job(folder: Path, way: str, root: Path) -> float:
    """Run a job; return its seconds."""
    out, tmp = folder / "out", folder / "tmp"
    out.mkdir(parents=True)
    tmp.mkdir()
    if way == "hand":
        words = ["/bin/sh", "-c", BY_HAND, "sh", str(root), str(out)]
    else:
        table = [f"i\t{root}/in/{each}\t{each}\n" for each in "abc"] + [f"o\t{each}\t{out}/{each}\n" for each in "xyz"]
        options = ["-b", "-n", "1.1", "-r", f"{folder}/record", "-t", "".join(table)]
        words = ["/bin/sh", str(PROGRAM), *options, "/bin/sh", "-c", COMMAND]
    environment = {**os.environ, "TMPDIR": str(tmp)}
    begin = time.perf_counter()
    subprocess.run(words, check=True, env=environment)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
