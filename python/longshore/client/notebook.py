"""Runs in cells of notebooks: a frame with the page of a run, which a thread keeps up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape
from typing import Any, Final

_HEIGHT: Final = 520
_LEAST_PAUSE_S: Final = 1.0


def frame(page: str) -> str:
    """Return a frame with a page, so that its style and the notebook's do not mix."""
    style = f"width:100%;height:{_HEIGHT}px;border:1px solid #8884;border-radius:6px;resize:vertical;overflow:auto"
    return f'<iframe title="Run" sandbox="allow-scripts" style="{style}" srcdoc="{escape(page, quote=True)}"></iframe>'


class Cell:
    """What a cell of a notebook shows: a piece of HTML."""

    def __init__(self, html: str) -> None:
        self._html = html

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
    pause = max(_LEAST_PAUSE_S, pause_s)

    def update() -> None:
        ended = threading.Event()
        last = False
        while not last and handle is not None:
            ended.wait(pause)
            # Asked before the page is made, so that the last page is of the end.
            last = is_over()
            handle.update(Cell(frame(render())))

    thread = threading.Thread(target=update, name="longshore-cell", daemon=True)
    thread.start()
    return thread
