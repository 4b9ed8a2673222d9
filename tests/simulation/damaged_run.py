"""Damage of a run's file in a history: `resume` must refuse, until the file is back or the loss is accepted.

A user who accepts a loss waits before until nothing of the run moves: attempts whose submission is lost are unknown to
the new engine, which starts their jobs again. Only losses of the local service's runs are accepted. The simulated
manager knows attempts by their numbers, and those of lost attempts come again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.simulation.commands import Commands
from tests.simulation.disk import Disk
from tests.simulation.plan import DamagePlan
from tests.simulation.truth import Truth
from tests.simulation.universe import Universe

from longshore.contract.service import RunPaths
from longshore.errors import LongshoreError
from longshore.model.submission import is_source
from longshore.rundir.journal import first_event, lives, measure_lives
from longshore.runstate.verify import Check

_PATIENCE_S: Final = 120.0


class UntoldDamageError(AssertionError):
    """A file was damaged, and the program goes on as if it was not."""


class DamagedRun:
    """Damages one file of a run, and does what its user would do then."""

    def __init__(self, universe: Universe, disk: Disk, truth: Truth, run: RunPaths, do: Commands) -> None:
        self._universe = universe
        self._disk = disk
        self._truth = truth
        self._run = run
        self._do = do

    def go_through(self, plan: DamagePlan) -> None:
        """Damage a file, and bring the run to where it can go on."""
        vouched = [name for name, check in self._do.verify().covered.items() if check is not Check.FORM]
        contents = {name: content for name in sorted(vouched) if (content := (self._run.root / name).read_bytes())}
        name = list(contents)[int(plan.file * len(contents))]
        before, path = contents[name], self._run.root / name
        after = damage_content(before, plan)
        self._universe.note(f"DAMAGE {plan.kind} of {name}")
        self._disk.replace_content(path, after)
        told = self._find_damage()
        if not told:
            # Only the end of a file that grows may be gone: it is what a crash leaves.
            grows = name.startswith(("journal/", "keeper/")) and before.startswith(after or b"")
            # A restart was killed before anything began: without its manifest, it is as if it had not been.
            is_unused = after is None and name.startswith("submissions/") and not self._is_named(name)
            if not grows and not is_unused and not self._is_behind_seal(path, before, after or b""):
                raise UntoldDamageError(f"verify tells no damage after the {plan.kind} of '{name}'")
            self._disk.replace_content(path, before)
            return
        if is_source(name):
            # Nothing relies on it but people.
            self._disk.replace_content(path, before)
            return
        if not self._is_refused():
            if name.startswith("submissions/") and Path(name).stem not in self._submissions_of_lives():
                # No engine started anything from it: only `verify` tells that it is gone.
                self._disk.replace_content(path, before)
                return
            if name == "journal/end.json" and after is None:
                # An engine that dies before its last act leaves the same: `resume` seals the run again.
                self._disk.replace_content(path, before)
                return
            raise UntoldDamageError(f"resume does not refuse the {plan.kind} of '{name}': {told}")
        accepts = self._universe.plan.world == "local" and self._wait_until_idle()
        accepted_s = self._universe.elapsed_s
        if not accepts or not self._is_accepted():
            self._disk.replace_content(path, before)
        else:
            self._universe.note("the loss is accepted")
            self._truth.accepted_s = accepted_s

    def _submissions_of_lives(self) -> set[str]:
        return {f"{first_event(path).s:04}" for _, path in lives(self._run.journal)}

    def _is_behind_seal(self, path: Path, before: bytes, after: bytes) -> bool:
        """Whether only lines behind the seal of a life differ: a superseded engine wrote them; they do not count."""
        ends = {extent.path: extent.end for extent in measure_lives(self._run.journal) if extent.sealed}
        return path in ends and before[: ends[path]] == after[: ends[path]]

    def _is_named(self, manifest: str) -> bool:
        """Whether a life names a submission."""
        number = int(Path(manifest).stem)
        return any(first_event(path).s >= number for _, path in lives(self._run.journal))

    def _find_damage(self) -> str:
        """Return the first damage that `verify` tells; a run that cannot be opened is told as well."""
        try:
            return next(map(str, self._do.verify().damages), "")
        except LongshoreError as error:
            return str(error)

    def _wait_until_idle(self) -> bool:
        """Wait until no attempt runs, and none will start without an engine; return whether that came."""

        def is_idle() -> bool:
            processes = [each.kind for each in self._universe.processes if not each.is_dead]
            return not self._truth.running() and "keeper" not in processes and "guard" not in processes

        self._universe.block(_PATIENCE_S, is_idle)
        return is_idle()

    def _is_accepted(self) -> bool:
        try:
            return bool(self._do.accept_loss())
        except (LongshoreError, OSError) as error:
            self._universe.note(f"not accepted: {error}")
            return False

    def _is_refused(self) -> bool:
        try:
            self._do.resume()
        except (LongshoreError, OSError) as error:
            self._universe.note(f"refused: {error}")
            return True
        return False


def damage_content(content: bytes, plan: DamagePlan) -> bytes | None:
    """Return the content of a damaged file; ``None`` if it is gone."""
    place = int(plan.place * len(content))
    match plan.kind:
        case "flip":
            return content[:place] + bytes([content[place] ^ 1 << plan.bit]) + content[place + 1 :]
        case "cut":
            return content[:place]
        case "drop":
            begin = content.rfind(b"\n", 0, place) + 1
            end = content.find(b"\n", place) + 1 or len(content)
            return content[:begin] + content[end:]
        case "gone":
            return None
