"""Decides which paths name one file: the only rule for it, which all that compares files of jobs asks.

A path names the file that the kernel would open: relative ones start at a directory, ``.``, ``..`` and doubled slashes
count for nothing, and links of folders are followed as they are when the run is made. Links of files are not: a program
may replace one by a file. Where the hosts of the jobs do not share the file system, links here say nothing, and the
text decides alone. A URL is what is written.

Paths are text, of which there may be millions. So folders are looked at, and single paths only where two folders are
one, or a folder has a link to another.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

from msgspec import structs

from longshore.model.tasks import Dag, File, Task, TaskGraph, is_remote

FEW: Final = 32
"""Names of one folder that are looked at one by one; of more, the folder is listed."""

_NO_NAMES: Final[set[str]] = set()
_Maker = TypeVar("_Maker")


class FolderLinks(Protocol):
    """Links of folders on this host."""

    def resolve(self, folder: str) -> str:
        """Return an absolute path without links, ``.`` and ``..``, which need not exist."""
        ...

    def is_link(self, folder: str, name: str) -> bool:
        """Whether a name in a folder without links is a link to a folder."""
        ...

    def has_link(self, folder: str) -> bool:
        """Whether a folder without links has a link to a folder."""
        ...

    def is_without(self, folder: str) -> bool:
        """Whether a folder without links is known to have none."""
        ...


class FileIdentity:
    """Identity of files; relative paths start in `directory`, and without `links` only the text counts."""

    def __init__(self, directory: str = "", links: FolderLinks | None = None) -> None:
        self._prefix = f"{directory.rstrip('/')}/" if directory else ""
        self._links = links if directory.startswith("/") else None
        self._folders: dict[str, str] = {}
        self._without_links: set[str] = set()

    def of(self, path: str) -> str:
        """Return the same text for all paths of one file."""
        if is_remote(path):
            return path
        at = path.rfind("/") + 1
        name = path[at:]
        if name in {"", ".", ".."}:
            return self.folder(path)[:-1] or path
        folder = self.folder(path[:at])
        if self._links is not None and folder not in self._without_links:
            if self._links.is_link(folder, name):
                return self.folder(folder + name)[:-1]
            if self._links.is_without(folder):
                self._without_links.add(folder)
        return folder + name

    def folder(self, text: str) -> str:
        """Return the identity of a folder, with a slash at its end; empty for a directory that is not known."""
        found = self._folders.get(text)
        if found is None:
            whole = text if text.startswith("/") else self._prefix + text
            if self._links is not None:
                found = self._links.resolve(whole)
            else:
                found = posixpath.normpath(whole) if whole else ""
                found = found[1:] if found.startswith("//") else "" if found == "." else found
            found = self._folders[text] = found if found.endswith("/") or not found else f"{found}/"
        return found

    def shortest(self, path: str) -> str:
        """Return a path without ``..`` inside it, relative if the file is below the directory."""
        whole = self.of(path)
        return whole.removeprefix(self.folder("")) if whole != path else path

    def has_link(self, folder: str, names: Collection[str] | None) -> bool:
        """Whether one of some names in a folder is a link to another folder; ``None`` for more names than a few."""
        if self._links is None:
            return False
        if names is None:
            return self._links.has_link(folder)
        return any(self._links.is_link(folder, name) for name in names)


class PathFolders:
    """Folders of many paths, each with a few names: enough to see whether any file may have two paths."""

    def __init__(self, identity: FileIdentity) -> None:
        self.identity = identity
        self._names: dict[str, set[str] | None] = {}
        """Names per folder as it is written, with a slash at its end; ``None`` for more than a few."""

    def add(self, rows: Iterable[Iterable[str]]) -> None:
        """Add paths."""
        found = self._names
        for paths in rows:
            for path in paths:
                at = path.rfind("/") + 1
                names = found.get(path[:at], _NO_NAMES)
                if names is _NO_NAMES:
                    if path and not is_remote(path):
                        found[path[:at]] = {path[at:]}
                elif names is not None:
                    names.add(path[at:])
                    if len(names) > FEW:
                        found[path[:at]] = None

    def add_folders(self, folders: Iterable[str]) -> None:
        """Add folders of many paths, which are written with a slash at their ends."""
        self._names.update((folder, None) for folder in folders if not is_remote(folder))

    def may_have_two(self) -> bool:
        """Whether a file may have two of the paths, or a path has ``..`` inside it."""
        seen: set[str] = set()
        for folder, names in self._names.items():
            whole = self.identity.folder(folder)
            if whole in seen or _has_inner_parent(folder) or self.identity.has_link(whole, names):
                return True
            seen.add(whole)
        return False

    def folder_finder(self, makers: Mapping[str, _Maker], *, plain: bool) -> Callable[[str], _Maker | None]:
        """Return a function that finds the maker of a folder as a whole, as it is written, or of one above it.

        `makers` are those of the paths; with `plain`, no file has two of them.
        """
        if plain:
            written: dict[str, list[str]] = {}
            for text in self._names:
                written.setdefault(self.identity.folder(text), []).append(text)

            def find(whole: str) -> _Maker | None:
                at = whole.rfind("/") + 1
                found = (makers.get(text + whole[at:]) for text in written.get(whole[:at], ()))
                return next((maker for maker in found if maker is not None), None)

            finder = _folder_finder(find)
        else:
            finder = _folder_finder({self.identity.of(path): maker for path, maker in makers.items()}.get)
        return cache(lambda folder: finder(self.identity.folder(folder)))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the folders as they are written."""
        return iter(self._names)


def _has_inner_parent(folder: str) -> bool:
    if ".." not in folder:
        return False
    parts = folder.split("/")
    first = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return ".." in parts[first:]


def one_spelling(paths: Iterable[str], identity: FileIdentity) -> dict[str, str]:
    """Return the path to use for each one that is not the first of its file."""
    first: dict[str, str] = {}
    found: dict[str, str] = {}
    for path in paths:
        if path in found or is_remote(path):
            continue
        chosen = first.setdefault(identity.of(path), path)
        if chosen == path and _has_inner_parent(path):
            chosen = first[identity.of(path)] = identity.shortest(path)
        if chosen != path:
            found[path] = chosen
    return found


def same_files(files: Mapping[str, File], identity: FileIdentity, folders: PathFolders | None = None) -> dict[str, str]:
    """Return the name of the first file of each path, by the names of further files of that path.

    `folders` are those of all files, if they are known.
    """
    paths = [file.path for file in files.values()]
    if folders is None:
        folders = PathFolders(identity)
        folders.add((paths,))
    if len({*paths}) == len(paths) and not folders.may_have_two():
        return {}
    first: dict[str, str] = {}
    names = {name: first.setdefault(identity.of(file.path), name) for name, file in files.items()}
    return {name: other for name, other in names.items() if name != other}


def with_one_path(graph: TaskGraph, identity: FileIdentity) -> TaskGraph:
    """Return a graph in which each file has one path, and tasks wait for the makers of files with several.

    A task also waits for the maker of a folder that an input is in, unless that maker waits for it. Other edges are
    left to whoever made the graph.
    """
    files, tasks = graph.files, graph.dag.nodes
    paths = [file.path for file in files.values()]
    folders = PathFolders(identity)
    folders.add((paths,))
    same = same_files(files, identity, folders)
    outputs = {name: number for number, task in enumerate(tasks) for name in task.outputs}
    outputs |= {same[name]: number for name, number in outputs.items() if name in same} if same else {}
    others = [name for name in files.keys() - outputs.keys() - same.keys() if not is_remote(files[name].path)]
    parts = dict(same)
    if outputs and others:
        named = {files[name].path: name for name in outputs}
        find = folders.folder_finder(named, plain=not same and not folders.may_have_two())
        for name in others:
            if (folder := find(files[name].path[: files[name].path.rfind("/") + 1])) is not None:
                parts[name] = folder
    if not parts:
        return graph
    if same:
        tasks = tuple(structs.replace(task, **_renamed(task, same)) if _names(task, same) else task for task in tasks)
    rank = {number: place for place, number in enumerate(graph.dag.order)}
    parted = {*parts, *same.values()}
    wanted = [
        (outputs[maker], number)
        for number, task in enumerate(tasks)
        for name in task.inputs
        if name in parted and (maker := parts.get(name, name)) in outputs and outputs[maker] != number
    ]
    edges = [
        (maker, reader)
        for maker, reader in wanted
        if rank[maker] < rank[reader] or not _is_before(graph.dag, reader, maker)
    ]
    merged = {
        name: structs.replace(files[name], part_of=other, path=files[same.get(name, name)].path)
        for name, other in parts.items()
    }
    dag = Dag(tasks, chain(graph.dag.edges(), edges)) if edges else graph.dag.alike(tasks)
    return structs.replace(graph, dag=dag, files={**files, **merged})


def _names(task: Task, same: Mapping[str, str]) -> bool:
    return any(name in same for name in chain(task.inputs, task.outputs, *task.paths.values()))


def _renamed(task: Task, same: Mapping[str, str]) -> dict[str, Any]:
    def rename(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(same.get(name, name) for name in names))

    return {
        "inputs": rename(task.inputs),
        "outputs": rename(task.outputs),
        "paths": {dataset: rename(names) for dataset, names in task.paths.items()},
    }


def _is_before(dag: Dag[Task], one: int, other: int) -> bool:
    """Whether a task is an ancestor of another."""
    seen, stack = {other}, [other]
    while stack:
        for parent in dag.parents[stack.pop()]:
            if parent == one:
                return True
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return False


def external_files(files: Mapping[str, File], made: Container[str]) -> dict[str, str]:
    """Return the paths of the files that no job makes, by name; `made` has the names of those that one makes.

    A relative path is in the run directory: the step that puts the file there checks it.
    """
    return {
        name: file.path
        for name, file in files.items()
        if name not in made and not file.part_of and file.path.startswith("/")
    }


def _folder_finder(find: Callable[[str], _Maker | None]) -> Callable[[str], _Maker | None]:
    known: dict[str, _Maker | None] = {"": None, "/": None}

    def find_folder(folder: str) -> _Maker | None:
        missing: list[str] = []
        while folder not in known:
            missing.append(folder)
            folder = folder[: folder.rfind("/", 0, -1) + 1]
        maker = known[folder]
        for each in reversed(missing):
            maker = known[each] = maker if maker is not None else find(each[:-1])
        return maker

    return find_folder
