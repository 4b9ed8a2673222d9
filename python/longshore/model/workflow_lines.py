"""Workflows and graphs of clusters as JSON Lines: ``workflow.jsonl``, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.json_lines import encode, encode_line
from longshore.model.tasks import ClusteredGraph, Command, File, Scalar
from longshore.model.workflow import JobSettings, Request, StoredOrdering, number_jobs, shared_parts_key

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# Encodes a graph of clusters as JSON Lines: a header, then a line per cluster, parents first.


CLUSTERS_FORMAT: Final = 1
"""Version of this format."""


class ClusterHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    v: int
    name: str
    clusters: int
    tasks: int


class StoredTask(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A task of a cluster."""

    name: str
    label: str
    data_id: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    node_id: str = ""


class StoredCluster(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A cluster as its line has it; its number is that of the line, from 0."""

    name: str
    label: str
    p: tuple[int, ...] = ()
    """Numbers of its parents."""
    tags: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    tasks: tuple[StoredTask, ...]


def clustered_lines(clustered: ClusteredGraph) -> Iterator[bytes]:
    """Encode a graph of clusters; the same graph always gives the same bytes."""
    dag = clustered.dag
    tasks = sum(len(cluster.tasks) for cluster in dag.nodes)
    yield encode_line(ClusterHeader(v=CLUSTERS_FORMAT, name=clustered.name, clusters=len(dag), tasks=tasks))
    line_of = [0] * len(dag)
    for line, position in enumerate(dag.order):
        line_of[position] = line
        cluster = dag.nodes[position]
        yield encode_line(
            StoredCluster(
                name=cluster.name,
                label=cluster.label,
                p=tuple(sorted(line_of[parent] for parent in dag.parents[position])),
                tags=cluster.tags,
                tasks=tuple(
                    StoredTask(name=task.name, label=task.label, data_id=task.data_id, node_id=task.node_id)
                    for task in cluster.tasks
                ),
            )
        )


# Encodes workflows (``workflow.jsonl``) as JSON Lines, and decodes them. ``workflow.jsonl`` has a header, then one line
# per job, parents first and the final job last, then one line per file. Everywhere else a job is identified by the
# number of its line, counted from 0.


FORMAT: Final = 4
"""Version of ``workflow.jsonl``; without variants 3, without file numbers 2, without orderings and log folders 1."""
_NO_REQUEST: Final = Request()


class Variant(msgspec.Struct, frozen=True, gc=False):
    """Settings that differ from others in the request only."""

    base: int
    """Index of the others."""
    request: Request


class WorkflowHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First line of ``workflow.jsonl``."""

    v: int
    name: str
    jobs: int
    files: int
    final: bool
    """Whether the last job is the final one."""
    settings: tuple[JobSettings, ...]
    """Settings that jobs share; each job refers to its entry by index. Once decoded, the variants are the last."""
    variants: tuple[Variant, ...] = ()
    """Further settings, counted on after `settings`."""
    attributes: Mapping[str, str]
    orderings: tuple[StoredOrdering, ...] = ()
    """Groups of jobs that run one after another."""
    log_folders: str = ""
    """Folder of a job's logs below the run's log folder, with dimensions in braces; empty for the default."""
    numbers: int = 0
    """One more than the largest file number of any submission; 0 if the file number of each job is its index."""


class StoredJob(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A job as its line has it."""

    name: str
    s: int
    """Index of its settings in the header."""
    p: tuple[int, ...] = ()
    """Indices of its parents."""
    c: Command
    tags: Mapping[str, str | int | float | bool] = msgspec.field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    tasks: int = 1
    n: int = 0
    """File number: names files of the job in all submissions; only if the header counts them."""
    success_files: tuple[str, ...] = ()


_header = msgspec.json.Decoder(WorkflowHeader).decode
decode_job = msgspec.json.Decoder(StoredJob).decode
"""Decode a job from its line."""
decode_file = msgspec.json.Decoder(File).decode
"""Decode a file from its line."""


def workflow_lines(workflow: Workflow, *, numbers: Sequence[int] = (), next_number: int = 0) -> Iterator[bytes]:
    """Encode ``workflow.jsonl``; the same workflow always gives the same bytes.

    `numbers` has the file number per job if these are not the indices; `next_number` is larger than all used so far.
    """
    jobs = list(workflow)
    settings = _SettingsTable()
    entries = [settings.add(job.settings) for job in jobs]
    index = {job.name: number for number, job in enumerate(jobs)} if workflow.orderings else {}
    yield encode_line(
        WorkflowHeader(
            v=_version(workflow, settings.variants, next_number),
            name=workflow.name,
            jobs=len(jobs),
            files=len(workflow.files),
            final=workflow.final is not None,
            settings=tuple(settings.distinct),
            variants=tuple(settings.variants),
            attributes=workflow.attributes,
            orderings=tuple(number_jobs(each, index) for each in workflow.orderings),
            log_folders=workflow.log_folders,
            numbers=next_number,
        )
    )
    index_of = {entry: settings.index(entry) for entry in set(entries)}
    for number, (job, parents) in enumerate(zip(jobs, workflow.links(), strict=True)):
        yield encode_line(
            StoredJob(
                name=job.name,
                s=index_of[entries[number]],
                p=parents,
                c=job.command,
                tags=job.tags,
                inputs=job.inputs,
                outputs=job.outputs,
                env=job.environment,
                tasks=job.tasks,
                n=numbers[number] if next_number else 0,
                success_files=job.success_files,
            )
        )
    yield from map(encode_line, workflow.files.values())


def _version(workflow: Workflow, variants: Sequence[Variant], next_number: int) -> int:
    """Lowest version of the format that has what a workflow needs, so that earlier versions read it if they can."""
    if variants:
        return FORMAT
    return 3 if next_number else 2 if workflow.orderings or workflow.log_folders else 1


class _SettingsTable:
    """Settings of jobs, as the header has them."""

    def __init__(self) -> None:
        self.distinct: list[JobSettings] = []
        self.variants: list[Variant] = []
        self._entries: dict[int, int] = {}
        """Entry per identity of settings; variants count from -1 downwards."""
        self._bases: dict[tuple[int, ...], int] = {}
        self._bases_by_text: dict[bytes, int] = {}

    def add(self, settings: JobSettings) -> int:
        """Return the entry of settings, added if new."""
        # Jobs of one profile share one object, so compare by identity and avoid hashing its maps.
        entry = self._entries.get(id(settings))
        if entry is None:
            entry = self._entries[id(settings)] = self._add_new(settings)
        return entry

    def index(self, entry: int) -> int:
        """Return the index of an entry in the decoded header."""
        return entry if entry >= 0 else len(self.distinct) - 1 - entry

    def _add_new(self, settings: JobSettings) -> int:
        # Those of one label with other requests have all else in common, and most often as the same objects.
        key = shared_parts_key(settings)
        base = self._bases.get(key)
        if base is None:
            text = encode(msgspec.structs.replace(settings, request=_NO_REQUEST))
            base = self._bases[key] = self._bases_by_text.setdefault(text, len(self.distinct))
            if base == len(self.distinct):
                self.distinct.append(settings)
                return base
        self.variants.append(Variant(base, settings.request))
        return -len(self.variants)


def decode_header(line: bytes, *, path: str) -> WorkflowHeader:
    """Decode the header from its line.

    Raises
    ------
    RunUnreadableError
        The line is no header, or has a newer format.
    """
    try:
        header = _header(line)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error
    if header.v > FORMAT:
        raise RunUnreadableError(
            f"'{path}' has format {header.v}; this Longshore reads up to {FORMAT}",
            hint="Use the version that wrote it, or a newer one.",
        )
    if not header.variants:
        return header
    bases = header.settings
    if not all(0 <= variant.base < len(bases) for variant in header.variants):
        raise RunUnreadableError(f"'{path}' has settings that vary others which are not in its header")
    variants = (msgspec.structs.replace(bases[each.base], request=each.request) for each in header.variants)
    return msgspec.structs.replace(header, settings=(*bases, *variants), variants=())
