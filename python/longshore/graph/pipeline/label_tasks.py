"""Makes the tasks of one label, with the paths of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from longshore.graph.declaration.description import TaskEntry
from longshore.graph.dimensions.dimensions import Dimension, Row
from longshore.graph.dimensions.universe import Universe
from longshore.graph.pipeline.path_templates import PathTemplate
from longshore.model.tasks.file_identity import FEW, PathFolders
from longshore.model.tasks.task import DataId, Task


class LabelTasks:
    """Tasks of one label, column by column; `sample` limits their number, 0 does not."""

    def __init__(
        self,
        entry: TaskEntry,
        universe: Universe,
        templates: Mapping[str, PathTemplate],
        folders: PathFolders,
        *,
        sample: int = 0,
    ) -> None:
        self.entry = entry
        self.sample = sample
        self.universe = universe
        self.rows = universe.rows(entry.dimensions, f"data IDs of the task '{entry.label}'", sample=sample)
        """Codes of the values of each data ID, sorted."""
        self._codes = _codes_by_dimension(entry.dimensions, self.rows)
        self._folders = folders
        self.inputs = {name: self._paths(templates[name]) for name in entry.inputs}
        self.outputs = {name: self._paths(templates[name]) for name in entry.outputs}
        """Paths per dataset and task."""

    def _paths(self, template: PathTemplate) -> list[tuple[str, ...]]:
        """Paths of a dataset, per task."""
        own = self.entry.dimensions
        texts = template.texts(self.universe.dimensions, self.universe.codes)
        further = [name for name in template.dimensions if name not in own]
        if not further:
            whole = template.paths(texts, self._codes, len(self.rows))
            self._add_folders(whole, template.folders(texts, self._codes))
            # An empty cell of a column is no file.
            return [(path,) if path else () for path in whole] if template.is_column else list(zip(whole, strict=True))
        what = f"files of the dataset '{template.dataset}' for the task '{self.entry.label}'"
        rows = self.universe.rows([*own, *further], what, sample=self.sample)
        codes = _codes_by_dimension([*own, *further], rows)
        paths = template.paths(texts, codes, len(rows))
        self._add_folders(paths, template.folders(texts, codes))
        found: dict[Row, list[str]] = {row: [] for row in self.rows}
        width = len(own)
        for row, path in zip(rows, paths, strict=True):
            if row[:width] in found:  # in a sample, a task may be missing
                found[row[:width]].append(path)
        # In a sample, the files of a task may all be missing, and one stands for them.
        return [tuple(filter(None, dict.fromkeys(these or paths[:1]))) for these in found.values()]

    def _add_folders(self, paths: Sequence[str], folders: Iterable[str] | None) -> None:
        if folders is None or len(paths) <= FEW:
            self._folders.add((paths,))
        else:
            self._folders.add_folders(folders)

    def respell(self, spelling: Mapping[str, str]) -> None:
        """Replace paths by those that are used for their files."""
        for columns in (self.inputs, self.outputs):
            for name, column in columns.items():
                columns[name] = [tuple(dict.fromkeys(spelling.get(path, path) for path in paths)) for paths in column]

    def names(self) -> list[str]:
        """Names of the tasks: the label and all values."""
        texts = self._columns(lambda dimension: [str(value).replace("/", "_") for value in dimension.values])
        pattern = self.entry.label.replace("%", "%%") + "_%s" * len(texts)
        return list(map(pattern.__mod__, zip(*texts, strict=True))) if texts else [self.entry.label]

    def tasks(self, names: Sequence[str]) -> Iterator[Task]:
        """Tasks with the given names."""
        own = self.entry.dimensions
        values = zip(*self._columns(lambda dimension: dimension.values), strict=True) if own else [()]
        label = self.entry.label
        nothing: DataId = {}
        inputs, outputs = list(self.inputs.values()), list(self.outputs.values())
        datasets = [*self.inputs, *self.outputs]
        flat = zip(_merge_columns(inputs, len(names)), _merge_columns(outputs, len(names)), strict=True)
        paths = zip(*inputs, *outputs, strict=True) if datasets else repeat((), len(names))
        for name, value, these, (read, written) in zip(names, values, paths, flat, strict=True):
            yield Task(
                name=name,
                label=label,
                data_id=dict(zip(own, value, strict=True)),
                inputs=read,
                outputs=written,
                paths=dict(zip(datasets, these, strict=True)),
                implied=nothing,
            )

    def _columns(self, table: Callable[[Dimension], Sequence[Any]]) -> list[Iterator[Any]]:
        """Per dimension, the entries of a lookup table for the values of each task."""
        return [
            map(table(self.universe.dimensions[name]).__getitem__, self._codes[name]) for name in self.entry.dimensions
        ]


def _codes_by_dimension(dimensions: Sequence[str], rows: Sequence[Row]) -> dict[str, Sequence[int]]:
    return dict(zip(dimensions, zip(*rows, strict=True), strict=True)) if dimensions else {}


def _merge_columns(columns: Sequence[Sequence[tuple[str, ...]]], rows: int) -> Iterable[tuple[str, ...]]:
    """Paths of each row, each once."""
    if not columns:
        return repeat((), rows)
    if len(columns) == 1:
        return columns[0]
    return (tuple(dict.fromkeys(chain.from_iterable(groups))) for groups in zip(*columns, strict=True))
