"""Process that calls a plug-in of BPS: ``python -m longshore.services.bps.process ROOT ACTION FOLDER NUMBER``.

Plug-ins log, change the process around them, and may return only when the last job is over; so each has one of its own.
The reason is in decision 0136.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import msgspec
from lsst.ctrl.bps import BaseWmsService
from lsst.utils import doImportType

from longshore.contract.service import RunPaths
from longshore.rundir.run_directory import read_card
from longshore.services.bps.records import Phase, PluginState, lock_path, write_state
from longshore.services.bps.workflow import RECORDS, export_config, export_workflow, read_workflow
from longshore.system.folder import make_folders
from longshore.system.host import host_name
from longshore.system.sharing import take_lock

_LOG: Final = logging.getLogger(__name__)
_LOCK_WAIT_S: Final = 10.0


def reports_nothing(plugin: type[Any]) -> bool:
    """Whether a plug-in has no reports: then its call to submit runs the jobs, as that of Parsl does."""
    return plugin.report is BaseWmsService.report


class _Call:
    """One call of a plug-in, whose progress is in the run directory."""

    def __init__(self, run: RunPaths, state: PluginState) -> None:
        self._run = run
        self._state = state
        card = read_card(run)
        self._plugin = doImportType(card.service)
        self._name, self._service_name = card.name, card.service

    def tell(self, phase: Phase, **values: str) -> None:
        """Write how far the call is."""
        self._state = msgspec.structs.replace(self._state, phase=phase, **values)
        write_state(self._run, self._state)

    def submit(self) -> None:
        """Prepare the workflow and submit it."""
        records = reports_nothing(self._plugin)
        if records:
            make_folders(self._run.root / RECORDS, below=self._run.root)
        config = export_config(self._run, self._name, self._service_name)
        service = self._plugin(config)
        workflow = export_workflow(read_workflow(self._run), self._run.root, records=records)
        prepared = service.prepare(config, workflow, str(self._run.root))
        if records:
            self.tell(Phase.RUNNING)
            service.submit(prepared, config=config)
            self.tell(Phase.ENDED)
            return
        submitted = service.submit(prepared, config=config) or prepared
        self.tell(Phase.SUBMITTED, id=str(submitted.run_id or ""))

    def restart(self, wms_id: str) -> None:
        """Restart the workflow that was prepared before."""
        config = export_config(self._run, self._name, self._service_name)
        service = self._plugin(config)
        records = reports_nothing(self._plugin)
        if records:
            self.tell(Phase.RUNNING)
        found, _, message = service.restart(wms_id or str(self._run.root))
        if found is None:
            self.tell(Phase.REFUSED, message=str(message) or "the plug-in gives no reason")
        else:
            self.tell(Phase.ENDED if records else Phase.SUBMITTED, id="" if records else str(found))


def main(root: str, action: str, folder: str, number: str, wms_id: str = "") -> int:
    """Call the plug-in of a run; the exit status is 0 unless it failed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s: %(message)s")
    signal.signal(signal.SIGTERM, _leave)
    # Plug-ins start programs of their packages by name.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.chdir(folder)
    run = RunPaths(Path(root))
    make_folders(run.wms, below=run.root)
    with take_lock(lock_path(run), below=run.root, wait_s=_LOCK_WAIT_S):
        # Until the plug-in gives another id, the run is known by the one before.
        state = PluginState(number=int(number), phase=Phase.STARTING, id=wms_id, pid=os.getpid(), host=host_name())
        try:
            call = _Call(run, state)
            call.tell(Phase.STARTING)
            call.submit() if action == "submit" else call.restart(wms_id)
        except Exception as error:  # noqa: BLE001 - of any plug-in
            _LOG.exception("the plug-in failed")
            message = "".join(traceback.format_exception_only(error)).strip()
            write_state(run, msgspec.structs.replace(state, phase=Phase.REFUSED, message=message))
            return 1
    return 0


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """End the process in an orderly way: the plug-in ends its jobs at exit."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
