"""A stand-in for IPython's printer of a cell."""

from __future__ import annotations


class TextPrinter:
    """Stands for IPython's printer of a cell: keeps the texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def text(self, text: str) -> None:
        self.texts.append(text)
