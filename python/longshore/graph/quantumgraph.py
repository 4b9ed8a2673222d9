"""Turns what a quantum graph of LSST's holds, as plain records, into a graph of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from longshore.errors import CycleError, GraphError
from longshore.model.dag import Dag
from longshore.model.file import File
from longshore.model.garbage import collection_paused
from longshore.model.task import DataId, Scalar, Task, TaskGraph
from longshore.origin import Origin

RUN_GRAPH: Final = "runQgraphFile"
"""Name of the quantum graph among a workflow's files, as in BPS."""

Quantum: TypeAlias = tuple[str, tuple[Scalar, ...]]
"""UUID of a quantum, and the values of its label's dimensions in their order."""


class LabelQuanta(msgspec.Struct, frozen=True, kw_only=True):
    """The quanta of one label.

    Attributes
    ----------
    required
        Names of the dimensions that tell its quanta apart.
    implied
        Names of the dimensions that follow from these, as the band does from a visit.
    quanta
        Its quanta; values of the required dimensions come first.
    """

    required: tuple[str, ...]
    implied: tuple[str, ...] = ()
    quanta: Sequence[Quantum] = ()


class QuantumGraphRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a quantum graph: labels, data IDs and order, and nothing that only a task could understand.

    Attributes
    ----------
    labels
        The quanta per label.
    edges
        Pairs of UUIDs: of the quantum that makes something, and of the one that needs it.
    graph_id
        What the file calls itself, where it does (graphs in the older format do).
    """

    labels: Mapping[str, LabelQuanta]
    edges: Sequence[tuple[str, str]] = ()
    graph_id: str = ""


def task_graph(record: QuantumGraphRecord, *, name: str, file: File, origin: Origin) -> TaskGraph:
    """The tasks of a quantum graph; the name and node ID of each is its quantum's UUID.

    Parameters
    ----------
    record
        The graph as it was read.
    name
        Name of the payload.
    file
        The graph's file, which every task reads.
    origin
        The file it was read from, for messages.

    Raises
    ------
    GraphError
        It has no quanta, quanta of one UUID, an edge that leads to nowhere, values without a dimension, or a ring.
    """
    with collection_paused():
        try:
            dag = Dag.by_name(_tasks(record, (file.name,)), record.edges)
        except CycleError as error:
            raise CycleError(_told(error.ring, record), origin=origin) from None
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


def _told(ring: Sequence[str], record: QuantumGraphRecord) -> list[str]:
    """The quanta of a ring with their labels, for a UUID alone says nothing to anybody."""
    label_of = {uuid: label for label, of_label in record.labels.items() for uuid, _ in of_label.quanta}
    return [f"{label_of[uuid]} {uuid}" for uuid in ring]
