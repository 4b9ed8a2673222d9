"""Commands of a user, as `longshore` carries them out: with all checks of the run directory before the service acts."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.plan import Order
from tests.simulation.service import SimulatedService

from longshore.contract.service import Intervention, JobSelection, RestartChanges, RunPaths
from longshore.control.restart import restart
from longshore.control.resume import accept_loss, resume
from longshore.plan.submit_once import PreparedRun, submit_once
from longshore.progress import RecordingProgress
from longshore.rundir.run_directory import read_card
from longshore.runstate.open_run import OpenRun
from longshore.runstate.verify import VerifyResult, verify_run


class Silent:
    """Progress messages that nobody reads."""

    def note(self, text: str) -> None:
        pass

    def stage(self, text: str) -> None:
        pass


class Commands:
    """The commands that a history uses."""

    def __init__(self, service: SimulatedService, run: RunPaths, names: Sequence[str]) -> None:
        self._service = service
        self._run = run
        self._names = names

    def open(self) -> OpenRun:
        """Open the run, as each command does."""
        return open_simulated(self._run, self._service)

    def verify(self) -> VerifyResult:
        """Check the run directory."""
        return verify_run(self.open(), Silent())

    def submit(self) -> None:
        """Submit the prepared run."""
        card = read_card(self._run)
        prepared = PreparedRun(run=self._run, card=card, service=self._service, site="", umask=None, keep=True)
        submit_once(prepared, RecordingProgress(Silent()))

    def resume(self, *, take_over: bool = False, force: bool = False) -> None:
        """Resume the run."""
        resume(self.open(), take_over=take_over, force=force)

    def accept_loss(self) -> Sequence[str]:
        """Accept the loss of damaged records, as the option of `resume` does; return what is lost."""
        return accept_loss(self.open())

    def carry_out(self, order: Order) -> None:
        """Carry out an order of the plan."""
        selection = JobSelection(jobs=tuple(self._names[job] for job in order.jobs if job < len(self._names)))
        match order.act:
            case "cancel":
                self._service.cancel(self._run, selection)
            case "resume":
                self.resume()
            case "take-over":
                self.resume(take_over=True)
            case "restart":
                restart(self.open(), RestartChanges())
            case _:
                values = {"throttle": {"max": "1"} if order.value != "none" else {}, "set": {"requestMemory": "1024"}}
                changes = values.get(order.act, {})
                self._service.steer(self._run, Intervention(act=order.act, selection=selection, set=changes))


def open_simulated(run: RunPaths, service: SimulatedService) -> OpenRun:
    """Open a run of a simulated service, which no registry knows."""
    opened = OpenRun(run=run, card=read_card(run))
    vars(opened)["service"] = service
    return opened
