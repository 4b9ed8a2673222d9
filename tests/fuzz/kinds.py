"""The kinds of cases by name: what a user, another user, a damaged disk or a workload manager may give to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.configurations import CONFIGURATION, PIPELINE, SET_OPTIONS
from tests.fuzz.graphs import GRAPH_FILE, WFFORMAT
from tests.fuzz.kind import Files, Kind
from tests.fuzz.regexes import REGEX
from tests.fuzz.runs import DAMAGED_RUN, FOREIGN_RUN
from tests.fuzz.schedulers import HTCONDOR, SLURM
from tests.fuzz.sites import SITE

KINDS: Final[Mapping[str, Kind]] = {
    "config": CONFIGURATION,
    "set": SET_OPTIONS,
    "site": SITE,
    "regex": REGEX,
    "pipeline": PIPELINE,
    "wfformat": WFFORMAT,
    "graph": GRAPH_FILE,
    "journal": DAMAGED_RUN,
    "run": FOREIGN_RUN,
    "slurm": SLURM,
    "htcondor": HTCONDOR,
}


def make_case(kind: str, seed: int, number: int, runs: Path) -> Files:
    """Return the files of a case; `runs` has the run directories that cases of some kinds change."""
    return KINDS[kind].make(Random(f"{kind} {seed} {number}"), runs)
