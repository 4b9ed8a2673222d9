"""Reader of quantum graph files into plain records; the only module that imports the LSST packages.

Files of today's format need none of them, only ``zstandard``, which they bring along.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from longshore.errors import DECODE_ERRORS, FilesError, GraphError, Origin, PreparationError
from longshore.graphs.quantum_graph import HEADER_VERSION, LabelQuanta, QuantumGraphRecord, decode_thin_graph

if TYPE_CHECKING:
    import zipfile

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
