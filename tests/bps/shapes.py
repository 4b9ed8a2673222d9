"""Shapes of quantum graphs: mocked tasks with their dimensions and datasets."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Task = dict[str, Any]

_DIMENSIONS: Final = (
    ("visit", "detector"),
    ("detector",),
    ("visit",),
    ("physical_filter",),
    ("band",),
    ("instrument",),
    ("tract", "patch", "band"),
    ("tract", "patch"),
    ("tract",),
)


def task(label: str, dimensions: Sequence[str], inputs: Mapping[str, Sequence[str]]) -> Task:
    """Return a task that writes one dataset, named after it."""
    return {
        "label": label,
        "dimensions": list(dimensions),
        "inputs": {name: list(each) for name, each in inputs.items()},
        "outputs": {f"of_{label}": list(dimensions)},
    }


def _chain(*steps: tuple[str, Sequence[str]]) -> list[Task]:
    """Return tasks each of which reads what the one before writes."""
    tasks = []
    dataset, before = "raw", steps[0][1]
    for label, dimensions in steps:
        tasks.append(task(label, dimensions, {dataset: before}))
        dataset, before = f"of_{label}", dimensions
    return tasks


_VISIT: Final = ("visit", "detector")
_PATCH: Final = ("tract", "patch", "band")

SHAPES: Final[Mapping[str, Sequence[Task]]] = {
    "one": [task("isr", ("detector",), {"raw": ("detector",)})],
    "chain": _chain(("isr", _VISIT), ("calibrate", _VISIT), ("characterize", _VISIT)),
    "gather": _chain(("isr", _VISIT), ("consolidate", ("visit",)), ("summary", ("instrument",))),
    "scatter": [
        *_chain(("prepare", ("instrument",)), ("isr", _VISIT)),
        task("overview", ("visit",), {"of_prepare": ("instrument",)}),
    ],
    "diamond": [
        *_chain(("isr", _VISIT), ("left", _VISIT)),
        task("right", ("visit",), {"of_isr": _VISIT}),
        task("join", ("visit",), {"of_left": _VISIT, "of_right": ("visit",)}),
    ],
    "apart": [*_chain(("isr", _VISIT), ("calibrate", _VISIT)), task("alone", ("band",), {"other": ("band",)})],
    "coadd": [
        *_chain(("isr", _VISIT), ("calibrate", _VISIT)),
        task("makeWarp", ("visit", "tract", "patch"), {"of_calibrate": _VISIT}),
        task("coadd", _PATCH, {"of_makeWarp": ("visit", "tract", "patch")}),
        task("measure", _PATCH, {"of_coadd": _PATCH}),
        task("table", ("tract",), {"of_measure": _PATCH}),
    ],
    "ladder": [
        *_chain(("a", _VISIT), ("b", ("visit",)), ("c", _VISIT), ("d", ("physical_filter",)), ("e", ("band",))),
        task("f", ("visit",), {"of_b": ("visit",), "of_c": _VISIT, "of_d": ("physical_filter",)}),
    ],
}
"""Shapes by name: alone, in a row, gathered, scattered, divided and joined, in pieces, over the sky, and mixed."""


def random_shapes(number: int) -> Iterator[tuple[str, list[Task]]]:
    """Yield so many shapes by chance, always the same ones."""
    for seed in range(number):
        chance = random.Random(seed)
        tasks: list[Task] = []
        for place in range(chance.randint(2, 6)):
            before = chance.sample(tasks, min(len(tasks), chance.randint(0, 2)))
            inputs = {name: each for one in before for name, each in one["outputs"].items()}
            dimensions = chance.choice(_DIMENSIONS)
            tasks.append(task(f"t{place}", dimensions, inputs or {f"raw{place}": dimensions}))
        yield f"random{seed}", tasks
