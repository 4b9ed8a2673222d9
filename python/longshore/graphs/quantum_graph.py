"""Reads quantum graphs of LSST: plain records into a graph of tasks, and of a file what a workflow needs (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, TypeAlias

import msgspec

from longshore.errors import DECODE_ERRORS, CycleError, GraphError, Origin
from longshore.model.tasks import Dag, DataId, File, Scalar, Task, TaskGraph, collection_paused

# Builds a graph of tasks from the plain records of an LSST quantum graph.


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


# Decodes what a workflow needs of a quantum graph file of LSST's: labels, data IDs and edges (pure). The formats are
# those of ``lsst.pipe.base.quantum_graph`` and ``lsst.pipe.base.pipeline_graph``, of the versions below. Their own
# readers make an object of each quantum, and take seconds to import. A test compares the records of both.


HEADER_VERSION: Final = 1
"""Version of files (``FORMAT_VERSION``) whose thin graph is decoded here."""
_PIPELINE_VERSION: Final = "0.0.1"
_NAMESPACE: Final = "daf_butler"
_NEWEST_UNIVERSE: Final = 8
"""Newest version of the dimensions (``dimensions.yaml``) whose order was compared."""
_SKYPIX: Final = re.compile(r"(\D+)(\d+)")

_Uuid = Annotated[str, msgspec.Meta(min_length=36, max_length=36)]


class _Element(msgspec.Struct, frozen=True):
    requires: tuple[str, ...] = ()
    implies: tuple[str, ...] = ()


class _Universe(msgspec.Struct, frozen=True):
    version: int
    namespace: str = _NAMESPACE
    elements: dict[str, _Element] = msgspec.field(default_factory=dict)


class _PipelineTask(msgspec.Struct, frozen=True):
    dimensions: tuple[str, ...]


class _Pipeline(msgspec.Struct, frozen=True):
    version: str
    tasks: dict[str, _PipelineTask]
    dimensions: _Universe


class _ThinQuantum(msgspec.Struct, frozen=True, gc=False):
    quantum_id: _Uuid
    data_coordinate: tuple[Scalar, ...] = ()


class _ThinGraph(msgspec.Struct, frozen=True):
    quanta: dict[str, list[_ThinQuantum]]
    edges: list[tuple[_Uuid, _Uuid]] = msgspec.field(default_factory=list)


def decode_thin_graph(pipeline_json: bytes, thin_graph_json: bytes) -> QuantumGraphRecord | None:
    """Decode the JSON of two parts of a file; ``None`` if they are of other versions, or not as these versions are."""
    try:
        pipeline = msgspec.json.decode(pipeline_json, type=_Pipeline)
        if not _is_known(pipeline):
            return None
        graph = msgspec.json.decode(thin_graph_json, type=_ThinGraph)
        ranks = _rank_dimensions(pipeline.dimensions.elements)
        labels = {}
        # Edges share the text of the quanta.
        texts: dict[str, str] = {}
        for label, quanta in graph.quanta.items():
            names = pipeline.tasks[label].dimensions
            required, implied = _split_dimensions(names, pipeline.dimensions.elements, ranks)
            rows = [(quantum.quantum_id, quantum.data_coordinate) for quantum in quanta]
            texts |= {uuid: uuid for uuid, _ in rows}
            labels[label] = LabelQuanta(required=required, implied=implied, quanta=rows)
    except (*DECODE_ERRORS, LookupError):
        return None
    edges = [(texts.get(parent, parent), texts.get(child, child)) for parent, child in graph.edges]
    return QuantumGraphRecord(labels=labels, edges=edges)


def _is_known(pipeline: _Pipeline) -> bool:
    universe = pipeline.dimensions
    return (
        pipeline.version == _PIPELINE_VERSION
        and universe.namespace == _NAMESPACE
        and universe.version <= _NEWEST_UNIVERSE
    )


def _split_dimensions(
    names: Iterable[str], elements: Mapping[str, _Element], ranks: Mapping[str, tuple[int, str, int]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the required and the implied ones of some dimensions, each in the order of the universe.

    A dimension is implied if another of them implies it. Raises `LookupError` if one is in no universe.
    """
    ordered = sorted(names, key=lambda name: _rank(name, ranks))
    implied = {name for each in ordered if each in elements for name in elements[each].implies}
    return (
        tuple(name for name in ordered if name not in implied),
        tuple(name for name in ordered if name in implied),
    )


def _rank(name: str, ranks: Mapping[str, tuple[int, str, int]]) -> tuple[int, str, int]:
    """Place of a dimension; pixels of the sky, such as ``htm7``, come by system and level."""
    if name in ranks:
        return ranks[name]
    pixels = _SKYPIX.fullmatch(name)
    if pixels is None:
        raise LookupError(name)
    return 0, pixels[1], int(pixels[2])


def _rank_dimensions(elements: Mapping[str, _Element]) -> dict[str, tuple[int, str, int]]:
    """Order the elements of a universe: in generations, each with those that need only earlier ones, by name.

    Raises `LookupError` if elements need each other.
    """
    ranks: dict[str, tuple[int, str, int]] = {}
    left = set(elements)
    generation = 0
    while left:
        ready = {name for name in left if left.isdisjoint((*elements[name].requires, *elements[name].implies))}
        if not ready:
            raise LookupError(min(left))
        ranks |= {name: (generation, name, 0) for name in ready}
        left -= ready
        generation += 1
    return ranks
