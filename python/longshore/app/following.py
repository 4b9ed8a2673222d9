"""Turns what happens in a run into its events as they come, from its journal or from whoever says what happened."""

from __future__ import annotations

from longshore.app.runs import OpenRun, is_gone, readable
from longshore.contract.context import Mark, Unreachable
from longshore.contract.service import StaleMarkError
from longshore.engine.follow import JournalFollower
from longshore.engine.journal import lives
from longshore.errors import RunNotFoundError
from longshore.model.event import Event


class Following:
    """The events of a run as they come.

    Parameters
    ----------
    opened
        The run.

    Attributes
    ----------
    anew
        Whether what was read last begins with the first event once more: what was told before no longer holds.

    Raises
    ------
    RunUnreadableError
        Its journal cannot be read.
    """

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        self._mark: Mark = ""
        self.anew = False
        with readable(opened.run):
            self._journal = JournalFollower(opened.run.journal) if lives(opened.run.journal) else None

    @property
    def may_come(self) -> bool:
        """Whether anything of the run may have happened, or may yet."""
        opened = self._opened
        return bool(self._journal or opened.card.submissions) or opened.is_alive() is not False

    def read(self) -> list[Event]:
        """Everything since the last call, in order; nothing while the workload manager does not answer.

        Raises
        ------
        RunNotFoundError
            The run directory was removed meanwhile.
        RunUnreadableError
            What is new cannot be read.
        """
        if self._journal:
            return self._journal.read()
        opened = self._opened
        if is_gone(opened.run.root):
            raise RunNotFoundError(
                f"'{opened.run.root}' is gone: it was moved or removed while it was followed",
                hint="If it was moved, name it by its new path.",
            )
        self.anew = False
        try:
            answer = opened.events(self._mark)
        except StaleMarkError:
            self.anew = True
            answer = opened.events()
        if isinstance(answer, Unreachable):
            # If it was to begin anew, the mark that no longer holds says so again.
            self.anew = False
            return []
        events, self._mark = answer
        return list(events)
