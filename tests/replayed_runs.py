"""Recorded workflows that the engine runs in virtual time, and estimates of their ends at moments on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.engine.simulation import Simulation

from longshore.model.event import Ended, Event
from longshore.reports.attempts import AttemptCollector
from longshore.reports.time_left import MAX_JOBS, estimate_time_left
from longshore.rundir.job_table import JobTable
from longshore.runstate.apply_events import apply_event
from longshore.runstate.replay import initial_state
from longshore.runstate.run_state import JobCode
from longshore.testing.fakes import AttemptOutcome

ROOT = Path(__file__).resolve().parents[1]
INSTANCES = (
    *sorted((ROOT / "tests" / "data" / "wfinstances").glob("*.json")),
    ROOT / "doc" / "examples" / "montage" / "montage-2mass-005d.json",
)
_OVER = (JobCode.SUCCEEDED, JobCode.FAILED, JobCode.DELETED, JobCode.PRUNED)
EarlierTimes = Mapping[str, Mapping[int, float]]


class Estimate(NamedTuple):
    """Estimate at a moment: the share of the run that was over, the true time left, and the range."""

    share: float
    true_s: float
    range_s: tuple[float, float] | None

    @property
    def is_right(self) -> bool:
        """Whether the true end lies in the range."""
        return self.range_s is not None and self.range_s[0] <= self.true_s <= self.range_s[1]

    @property
    def width(self) -> float:
        """Width of the range as a share of the true time left."""
        assert self.range_s is not None
        return (self.range_s[1] - self.range_s[0]) / self.true_s


class ReplayedRun:
    """Copies of a recorded workflow, side by side, that ran with the recorded run times in a number of slots."""

    def __init__(self, instance: Path, slots: int, folder: Path, *, copies: int = 1) -> None:
        workflow = json.loads(instance.read_text("utf-8"))["workflow"]
        tasks = workflow["specification"]["tasks"]
        recorded = {task["id"]: float(task["runtimeInSeconds"]) for task in workflow["execution"]["tasks"]}
        run_s: dict[str, float] = {}
        parents: dict[str, list[str]] = {}
        for copy in range(copies):
            names = {task["id"]: f"{_label(task)}_{copy}_{number}" for number, task in enumerate(tasks)}
            run_s |= {names[task["id"]]: max(0.01, recorded.get(task["id"], 0.01)) for task in tasks}
            parents |= {names[task["id"]]: [names[parent] for parent in task["parents"]] for task in tasks}
        sim = Simulation(
            folder, parents, lambda job, _: AttemptOutcome(run_s=run_s[self.table.names[job]]), capacity={"cpus": slots}
        )
        self.table = JobTable(sim.run, "names", "parents")
        sim.engine().run()
        self.events: Sequence[Event] = sim.events()
        ends = [event for event in self.events if isinstance(event, Ended)]
        self.end = max(event.end or event.t for event in ends)
        self.start = min((event.end or event.t) - (event.run_s or 0.0) for event in ends)
        self.counted = {label: _histogram(self.table, ends, label) for label in self.table.labels}

    def estimates(
        self, shares: Sequence[float], earlier: EarlierTimes | None = None, *, is_summed: bool = False
    ) -> Iterator[Estimate]:
        """Yield the estimate after each share of the run's time; `earlier` has run times of other runs.

        `is_summed` estimates as in a run with very many open jobs, however many there are.
        """
        for share in shares:
            now = self.start + share * (self.end - self.start)
            known = [event for event in self.events if event.t <= now]
            attempts = AttemptCollector(self.table.label_of, len(self.table.labels))
            attempts.add(known)
            state = initial_state(self.table)
            for event in known:
                apply_event(state, event)
            open_jobs = [sum(row) - sum(row[code] for code in _OVER) for row in state.counts]
            found = estimate_time_left(
                self.table, attempts, open_jobs, now, earlier=earlier or {}, max_simulated=0 if is_summed else MAX_JOBS
            )
            yield Estimate(share, self.end - now, found)


def _label(task: Mapping[str, str]) -> str:
    """Return the program of a task, without the character that ends a label."""
    return task["name"].partition("_ID0")[0].replace("_", "-").rstrip("0123456789")


def _histogram(table: JobTable, ends: Sequence[Ended], label: str) -> Mapping[int, float]:
    counted: dict[int, float] = {}
    for end in ends:
        if table.label(end.j) == label:
            step = max(1, round((end.run_s or 0.0) * 1000))
            counted[step] = counted.get(step, 0.0) + 1.0
    return counted
