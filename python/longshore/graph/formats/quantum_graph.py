"""Builds a graph of tasks from the plain records of an LSST quantum graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from longshore.errors import CycleError, GraphError
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.file import File
from longshore.model.tasks.task import DataId, Scalar, Task, TaskGraph
from longshore.model.workflow.collection_pause import collection_paused
from longshore.origin import Origin

RUN_GRAPH: Final = "runQgraphFile"
"""Name of the quantum graph among a workflow's files, as in BPS."""

Quantum: TypeAlias = tuple[str, tuple[Scalar, ...]]
"""UUID of a quantum, and the values of its label's dimensions in their order."""


class LabelQuanta(msgspec.Struct, frozen=True, kw_only=True):
    """Quanta of one label."""

    required: tuple[str, ...]
    """Dimensions that distinguish the quanta."""
    implied: tuple[str, ...] = ()
    """Dimensions that follow from the required ones, as the band follows from a visit."""
    quanta: Sequence[Quantum] = ()
    """Values of the required dimensions come first."""


class QuantumGraphRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Labels, data IDs and edges of a quantum graph."""

    labels: Mapping[str, LabelQuanta]
    edges: Sequence[tuple[str, str]] = ()
    """Pairs of UUIDs: producer, then consumer."""
    graph_id: str = ""
    """Id that the file states; graphs in the older format have one."""


def task_graph(record: QuantumGraphRecord, *, name: str, file: File, origin: Origin) -> TaskGraph:
    """Tasks of a quantum graph; the UUID of a quantum is the name and node ID of its task.

    Every task reads `file`, the graph's own file.

    Raises `GraphError` if the graph is empty or damaged: two quanta of one UUID, an edge to an unknown quantum, values
    without a dimension, or (as `CycleError`) a cycle.
    """
    with collection_paused():
        try:
            dag = Dag.by_name(_tasks(record, (file.name,)), record.edges)
        except CycleError as error:
            raise CycleError(_cycle_names(error.ring, record), origin=origin) from None
        except GraphError as error:
            error.origin = error.origin or origin
            raise
    if not len(dag):
        raise GraphError(
            "the quantum graph has no quanta",
            origin=origin,
            hint="Nothing is left to be done, or 'dataQuery' and 'inCollection' lead to no data.",
        )
    return TaskGraph(name=name, dag=dag, files={file.name: file})


def _tasks(record: QuantumGraphRecord, inputs: tuple[str, ...]) -> Iterator[Task]:
    # Quanta of several labels have the same data ID, and one map of it does for all of them.
    known: dict[tuple[Sequence[str], tuple[Scalar, ...]], DataId] = {}
    nothing: DataId = {}
    no_paths: dict[str, tuple[str, ...]] = {}
    for label, of_label in record.labels.items():
        required, implied = of_label.required, of_label.implied
        size, whole = len(required), len(required) + len(implied)
        for uuid, values in of_label.quanta:
            if len(values) != whole:
                raise GraphError(
                    f"the quantum '{uuid}' of '{label}' has {len(values)} values for {whole} dimensions "
                    f"({', '.join((*required, *implied))})",
                    hint="The file is damaged, or of a version that is not known here.",
                )
            yield Task(
                name=uuid,
                label=label,
                data_id=_data_id(known, required, values[:size]),
                implied=_data_id(known, implied, values[size:]) if implied else nothing,
                node_id=uuid,
                inputs=inputs,
                paths=no_paths,
            )


def _data_id(
    known: dict[tuple[Sequence[str], tuple[Scalar, ...]], DataId], names: Sequence[str], values: tuple[Scalar, ...]
) -> DataId:
    key = (names, values)
    found = known.get(key)
    if found is None:
        found = known[key] = dict(zip(names, values, strict=True))
    return found


def _cycle_names(ring: Sequence[str], record: QuantumGraphRecord) -> list[str]:
    """Quanta of a cycle with their labels: a UUID alone means little to a reader."""
    label_of = {uuid: label for label, of_label in record.labels.items() for uuid, _ in of_label.quanta}
    return [f"{label_of[uuid]} {uuid}" for uuid in ring]
