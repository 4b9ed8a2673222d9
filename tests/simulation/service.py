"""Service whose engines are simulated processes: all else is what every service of single jobs does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tests.simulation.universe import Process, Universe

from longshore.contract.executor import Executor
from longshore.contract.service import RunPaths
from longshore.engine.run.engine_service import EngineService
from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.rundir.journal import lives


class SimulatedService(EngineService):
    """Starts engines in a universe; `make_executor` makes the executor of each."""

    name: ClassVar[str] = "simulated"

    def __init__(self, universe: Universe, make_executor: Callable[[], Executor]) -> None:
        self.universe = universe
        self._make_executor = make_executor
        self.engines: list[Process] = []
        self.on_start: Callable[[Process], None] = lambda _process: None
        self.errors: list[str] = []
        """Errors that ended an engine and that no engine should have."""

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        return self._make_executor()

    def check(self, workflow: Any, ctx: Any) -> list[Any]:
        return []

    def start_engine(self, run: RunPaths, by: str) -> str:
        """Start an engine, and wait until its life has begun."""
        known = len(lives(run.journal))
        engine = self.universe.spawn("engine", lambda: self._drive(run, by), name=f"engine[{by}]")
        self.engines.append(engine)
        self.on_start(engine)
        self.universe.block(60.0, lambda: engine.is_dead or len(lives(run.journal)) > known)
        if len(lives(run.journal)) <= known:
            self.universe.kill(engine)
            raise SubmissionRefusedError(f"the engine did not begin: {engine.error}")
        return "in the universe"

    def _drive(self, run: RunPaths, by: str) -> None:
        try:
            self.drive(run, by, clock=self.universe)
        except (SubmissionRefusedError, OSError):
            # It gives way to another, or its disk fails it at the start: users see why, and resume.
            raise
        except RunUnreadableError as error:
            if not isinstance(error.__cause__, OSError):
                self.errors.append(f"an engine died of {type(error).__name__}: {error}")
            raise
        except Exception as error:
            self.errors.append(f"an engine died of {type(error).__name__}: {error}")
            raise

    def kill_newest_engine(self, run: RunPaths) -> bool:
        """Kill the newest engine, as taking over does on the same host; sometimes it is out of reach."""
        alive = [engine for engine in self.engines if not engine.is_dead]
        if not alive or self.universe.lot.random() < 0.5:
            return False
        self.universe.kill(alive[-1])
        return True
