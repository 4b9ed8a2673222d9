"""Records the runs that pages of the site show: a film of a run, a report of failures, a page, the list of runs.

Usage: python -m tests.recordings.runs FOLDER

Each is a run of a file that the page itself prints, so that no picture can show what is not so (any more).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.pages import DOC, fences
from tests.recordings.drawing import draw_film
from tests.recordings.terminal import Recorder

_COLUMNS = 100
_LONGSHORE = [sys.executable, "-m", "longshore"]
_FAILED = 19


def record_all(target: Path, work: Path) -> None:
    """Write what the pages show into a folder.

    Parameters
    ----------
    target
        Where; it is made.
    work
        An empty folder for the runs.
    """
    target.mkdir(parents=True, exist_ok=True)
    environment = _environment(work)
    for page, name in ((DOC / "index.md", "pi.yaml"), (DOC / "how-to" / "look-at-runs-in-a-browser.md", "survey.yaml")):
        (text,) = (fence.text for fence in fences(page) if fence.value == name)
        (work / name).write_text(text, "utf-8")
    (target / "run.svg").write_text(_film_of_a_run(work, environment), "utf-8")
    (target / "failure.svg").write_text(_report_of_a_failure(work, environment), "utf-8")
    _run(["submit", "survey.yaml", "--wait"], work, environment, status=_FAILED)
    _run(["report", "@last", "--html", str(target / "page.html")], work, environment)
    code = (
        "import sys; from longshore.reports.dashboard import DashboardPages;"
        "sys.stdout.buffer.write(DashboardPages().page('').body)"
    )
    listed = subprocess.run([sys.executable, "-c", code], cwd=work, env=environment, capture_output=True, check=True)
    (target / "runs.html").write_bytes(listed.stdout)


def _environment(work: Path) -> dict[str, str]:
    """Return variables with which a run reads and writes nothing of the user who builds the site."""
    left_out = ("LONGSHORE", "BPS", "XDG_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    own = {"HOME": str(work / "home"), "USER": "ada", "LOGNAME": "ada", "LC_ALL": "C.UTF-8"}
    return {**kept, **own, "PYTHONIOENCODING": "utf-8"}


def _film_of_a_run(work: Path, environment: dict[str, str]) -> str:
    recorder = Recorder(work, environment, width=_COLUMNS)
    for command in ("longshore submit pi.yaml --wait", "cat pi.txt"):
        program, *words = command.split()
        status = recorder.run(command, [*_LONGSHORE, *words] if program == "longshore" else [program, *words])
        _expect(status, 0, command)
    return draw_film(recorder.frames, columns=_COLUMNS, title="A terminal in which a run is submitted and watched")


def _report_of_a_failure(work: Path, environment: dict[str, str]) -> str:
    text = (work / "pi.yaml").read_text("utf-8")
    (work / "wrong.yaml").write_text(text.replace("awk", "akw"), "utf-8")
    _run(["submit", "wrong.yaml", "--wait", "--data-query", "seed < 4"], work, environment, status=_FAILED)
    recorder = Recorder(work, environment, width=_COLUMNS)
    _expect(recorder.run("longshore report @last", [*_LONGSHORE, "report", "@last"]), 0, "report")
    return draw_film(recorder.frames[-1:], columns=_COLUMNS, title="The report of a run whose last job failed")


def _run(words: list[str], work: Path, environment: dict[str, str], *, status: int = 0) -> None:
    done = subprocess.run(
        [*_LONGSHORE, *words], cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    _expect(done.returncode, status, f"{words}: {done.stdout.decode()}{done.stderr.decode()}")


def _expect(status: int, wanted: int, what: str) -> None:
    if status != wanted:
        raise SystemExit(f"{what}\nended with exit status {status}, and not {wanted}")


def main() -> None:
    """Record into the folder that is named."""
    import tempfile

    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory(prefix="longshore-") as work:
        record_all(Path(sys.argv[1]).resolve(), Path(work))


if __name__ == "__main__":
    main()
