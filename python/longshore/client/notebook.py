"""Runs in cells of notebooks, in a module of their own because only IPython decides how a cell is shown and updated.

A cell has a frame with the page of a run, which a thread keeps up to date.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any, Final

from longshore.runstate.open_run import READ_ERRORS, describe_read_error

_HEIGHT: Final = 520
_LEAST_PAUSE_S: Final = 1.0
_PAUSE_RATIO: Final = 10.0


def frame(page: str) -> str:
    """Return a frame with a page, so that its style and the notebook's do not mix."""
    style = f"width:100%;height:{_HEIGHT}px;border:1px solid #8884;border-radius:6px;resize:vertical;overflow:auto"
    return f'<iframe title="Run" sandbox="allow-scripts" style="{style}" srcdoc="{escape(page, quote=True)}"></iframe>'


class Cell:
    """What a cell of a notebook shows: a piece of HTML."""

    def __init__(self, html: str) -> None:
        self._html = html

    def __repr__(self) -> str:
        """Return what a screen without HTML shows."""
        return "<page of a run: only a notebook shows it>"

    def _repr_html_(self) -> str:
        return self._html


def show_live(render: Callable[[], str], is_over: Callable[[], bool], *, pause_s: float) -> threading.Thread:
    """Display a frame, and update it in a thread until the run is over.

    Raises
    ------
    ImportError
        IPython is not installed.
    """
    from IPython.display import display

    handle: Any = display(Cell(frame(render())), display_id=True)

    def update() -> None:
        took_s, is_last = 0.0, False
        while not is_last and handle is not None:
            # Most of the time is left to the cells that run meanwhile.
            time.sleep(max(_LEAST_PAUSE_S, pause_s, _PAUSE_RATIO * took_s))
            began = time.monotonic()
            try:
                # Asked before the page is made, so that the last page is of the end.
                is_last = is_over()
                handle.update(Cell(frame(render())))
            except READ_ERRORS as error:
                handle.update(Cell(f"<p>The run cannot be shown: {escape(describe_read_error(error))}</p>"))
            took_s = time.monotonic() - began

    thread = threading.Thread(target=update, name="longshore-cell", daemon=True)
    thread.start()
    return thread
