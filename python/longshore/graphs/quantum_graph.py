"""Reads quantum graphs of LSST into plain records, and these into tasks; no other reader needs LSST's packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeAlias

import msgspec

from longshore.errors import DECODE_ERRORS, CycleError, FilesError, GraphError, Origin, PreparationError
from longshore.model.tasks import Dag, DataId, File, Scalar, Task, TaskGraph, collection_paused

if TYPE_CHECKING:
    import zipfile

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


# Reads quantum graph files. Those of today's format need no package of LSST, only ``zstandard``, which these bring
# along.


QUANTUM_GRAPH_SUFFIXES: Final = (".qg", ".qgraph")
"""Suffixes of quantum graph files: of today's format, and of the older one."""
LSST_EXTRA: Final = "longshore[lsst]"
_LSST_PACKAGE: Final = "lsst-pipe-base"
_RECREATE_HINT: Final = "Make it again, or copy it once more."
_CONVERT_HINT: Final = "'pipetask update-graph-run OLD.qgraph OUTPUT_RUN NEW.qg' makes one of today's format of it"


class _Header(msgspec.Struct):
    """Header of a graph file: the fields that decide whether the rest is readable."""

    version: int = 0
    graph_type: str = ""


def read_quantum_graph(path: Path, origin: Origin | None = None) -> QuantumGraphRecord:
    """Read labels, data IDs and edges of a quantum graph; a file in today's format needs no imports of tasks.

    Raises `FilesError` when the file is unreadable, `GraphError` when it is no quantum graph, of another version, or
    damaged, and `PreparationError` when the packages that read it are not installed.
    """
    suffix = path.suffix
    if suffix not in QUANTUM_GRAPH_SUFFIXES:
        raise GraphError(
            f"'{path}' does not end like the name of a quantum graph ({' or '.join(QUANTUM_GRAPH_SUFFIXES)})",
            origin=origin,
            hint="Name a graph that 'pipetask qgraph --save-qgraph FILE.qg' made.",
        )
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise FilesError(f"'{path}' cannot be read: {error.strerror}", origin=origin) from error
    return _read_old_format(path, origin) if suffix == ".qgraph" else _read_current_format(path, start, origin)


def _read_current_format(path: Path, start: bytes, origin: Origin | None) -> QuantumGraphRecord:
    if start[:2] != b"PK":
        raise GraphError(f"'{path}' is no quantum graph, whatever its name", origin=origin, hint=_RECREATE_HINT)
    import zipfile

    try:
        import zstandard
    except ImportError as error:
        _raise_missing_package(path, error, origin)
    try:
        with zipfile.ZipFile(path) as archive:
            read_part = _part_reader(archive)
            header = _read_header(read_part, archive.namelist(), path, origin)
            if header.version == HEADER_VERSION:
                record = decode_thin_graph(read_part("pipeline_graph"), read_part("thin_graph"))
                if record is not None:
                    return record
    except (zipfile.BadZipFile, zstandard.ZstdError, EOFError, KeyError, OSError, *DECODE_ERRORS) as error:
        raise _damage_error(path, error, origin) from error
    return _read_with_library(path, header, origin)


def _part_reader(archive: zipfile.ZipFile) -> Callable[[str], bytes]:
    """Return a function that reads and decompresses a part of a file by its name."""
    import zstandard

    dictionary = archive.read("compression_dict") if "compression_dict" in archive.namelist() else None
    decompressor = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(dictionary) if dictionary else None)
    return lambda name: decompressor.decompress(archive.read(f"{name}.json.zst"))


def _read_header(
    read_part: Callable[[str], bytes], names: Collection[str], path: Path, origin: Origin | None
) -> _Header:
    """Read the header; refuse files that the library would reject with an obscure message."""
    if "header.json.zst" not in names:
        raise GraphError(
            f"'{path}' is a zip archive, and no quantum graph: it has no header", origin=origin, hint=_RECREATE_HINT
        )
    header = msgspec.json.decode(read_part("header"), type=_Header)
    if header.graph_type != "predicted":
        raise GraphError(
            f"'{path}' holds a quantum graph of the type '{header.graph_type}', and only 'predicted' ones can be run",
            origin=origin,
            hint="A graph with the provenance of a run that is over is to look into, not to run.",
        )
    return header


def _read_with_library(path: Path, header: _Header, origin: Origin | None) -> QuantumGraphRecord:
    """Read a file of a version that is not decoded here."""
    try:
        from lsst.pipe.base.pipeline_graph import TaskImportMode
        from lsst.pipe.base.quantum_graph import FORMAT_VERSION, PredictedQuantumGraph
    except ImportError as error:
        _raise_missing_package(path, error, origin)
    if header.version > FORMAT_VERSION:
        raise GraphError(
            f"'{path}' has format {header.version}; {_LSST_PACKAGE} {_package_version()} reads up to {FORMAT_VERSION}",
            origin=origin,
            hint="Make it with the packages that are installed here, or install newer ones.",
        )
    try:
        with PredictedQuantumGraph.open(str(path), import_mode=TaskImportMode.DO_NOT_IMPORT) as reader:
            reader.read_thin_graph()
            return _record_of_graph(reader)
    except Exception as error:  # any error of those packages
        raise _damage_error(path, error, origin) from error


def _record_of_graph(reader: Any) -> QuantumGraphRecord:
    thin_graph = reader.components.thin_graph
    tasks = reader.pipeline_graph.tasks
    # Convert each UUID to text once; edges share the same text object.
    uuid_texts: dict[Any, str] = {}
    labels: dict[str, LabelQuanta] = {}
    for label, quanta in thin_graph.quanta.items():
        dimensions = tasks[label].dimensions
        rows = []
        for quantum in quanta:
            uuid = uuid_texts[quantum.quantum_id] = str(quantum.quantum_id)
            rows.append((uuid, tuple(quantum.data_coordinate)))
        labels[label] = LabelQuanta(required=tuple(dimensions.required), implied=tuple(dimensions.implied), quanta=rows)
    edges = [
        (uuid_texts.get(parent) or str(parent), uuid_texts.get(child) or str(child))
        for parent, child in thin_graph.edges
    ]
    return QuantumGraphRecord(labels=labels, edges=edges)


def _read_old_format(path: Path, origin: Origin | None) -> QuantumGraphRecord:
    try:
        from lsst.pipe.base import QuantumGraph
    except ImportError as error:
        _raise_missing_package(path, error, origin, hint=f"With another release of LSST's, {_CONVERT_HINT}.")
    try:
        graph = QuantumGraph.loadUri(str(path))
        return _record_of_old_graph(graph)
    except ImportError as error:
        # The older format cannot be read without the classes of its tasks.
        raise GraphError(
            f"'{path}' is in the older format, which cannot be read without its tasks: {_first_line(error)}",
            origin=origin,
            hint=f"Set their release up (PYTHONPATH), or convert the graph where it is: {_CONVERT_HINT}.",
        ) from error
    except Exception as error:
        raise GraphError(
            f"'{path}' cannot be read by {_LSST_PACKAGE} {_package_version()}: {_first_line(error)}",
            origin=origin,
            hint=f"If it is no damage: where the release that wrote it is set up, {_CONVERT_HINT}.",
        ) from error


def _record_of_old_graph(graph: Any) -> QuantumGraphRecord:
    labels: dict[str, LabelQuanta] = {}
    rows: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}
    for node in graph:
        label, data_id = node.task_node.label, node.quantum.dataId
        names = data_id.dimensions
        if label not in rows:
            rows[label] = []
            labels[label] = LabelQuanta(
                required=tuple(names.required), implied=tuple(names.implied), quanta=rows[label]
            )
        values = tuple(data_id.mapping[name] for name in (*names.required, *names.implied))
        rows[label].append((str(node.nodeId), values))
    edges = [(str(parent.nodeId), str(child.nodeId)) for parent, child in graph.graph.edges]
    return QuantumGraphRecord(labels=labels, edges=edges, graph_id=str(graph.graphID))


def _raise_missing_package(path: Path, error: ImportError, origin: Origin | None, hint: str = "") -> NoReturn:
    installed = _package_version()
    if installed and not hint:
        what = f"{_LSST_PACKAGE} {installed} is installed and cannot be used: {_first_line(error)}"
    elif installed:
        what = f"{_LSST_PACKAGE} {installed} does not read its format any more"
    else:
        what, hint = f"that needs LSST's package '{_LSST_PACKAGE}', which is not installed", ""
    raise PreparationError(
        f"'{path}' cannot be read: {what}",
        origin=origin,
        hint=hint or f"Install it with: pip install '{LSST_EXTRA}'; or set up a release of LSST's.",
    ) from error


def _damage_error(path: Path, error: Exception, origin: Origin | None) -> GraphError:
    # A zip archive has its list of contents at the end.
    why = "it was cut short" if "not a zip file" in str(error) else _first_line(error)
    return GraphError(f"'{path}' is damaged: {why}", origin=origin, hint=_RECREATE_HINT)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _package_version() -> str:
    # Imported late: few commands read a quantum graph, and fewer one that cannot be read.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(_LSST_PACKAGE)
    except PackageNotFoundError:
        return ""
