"""Links named by run ids, second names of files, and what links of folders mean for the paths of files."""

from __future__ import annotations

import os
import stat
from collections import Counter
from pathlib import Path
from typing import Final

from longshore.model.file_identity import FEW
from longshore.system.files import files
from longshore.system.folder import make_folders, open_parent


def link_by_id(folder: Path, run_id: str, target: Path) -> str:
    """Link ``<folder>/<run id>`` to a run directory; return a line that reports the result.

    A link to another target stays: it may be the user's only reference to another run.
    """
    link = folder / run_id
    try:
        make_folders(folder)
        # `Path.resolve` would fail on a link that points to itself.
        if link.is_symlink() and os.path.realpath(link) == os.path.realpath(target):
            return f"Made id softlink: {link}"
        files.symlink(target, link, target_is_directory=True)
    except FileExistsError:
        return f"could not make the id softlink '{link}': something else of that name is there"
    except OSError as error:
        return f"could not make the id softlink '{link}': {error.strerror}"
    return f"Made id softlink: {link}"


def link_file(source: Path, target: Path, *, below: Path) -> None:
    """Give a file a second name, a hard link; raises `OSError` if its file system cannot."""
    with open_parent(target, below) as (folder, name):
        files.link(source, name, dst_dir_fd=folder)


_NONE: Final[frozenset[str]] = frozenset()


class DiskLinks:
    """Links of folders on this host, as they were when each was first looked at; see `FolderLinks`.

    What is in a folder that is not there is not looked for, and a folder that is asked about many names is listed once.
    Folders without links have a slash at their ends.
    """

    def __init__(self) -> None:
        self._resolved: dict[str, str] = {"/": "/"}
        self._links: dict[str, frozenset[str]] = {}
        """Names of links in each folder that was listed."""
        self._asked: Counter[str] = Counter()
        self._absent: set[str] = set()
        self._answers: dict[tuple[str, str], bool] = {}

    def resolve(self, folder: str) -> str:
        """Return an absolute path without links, ``.`` and ``..``, which need not exist; it ends with a slash."""
        folder = f"{folder.rstrip('/')}/"
        names: list[str] = []
        while folder not in self._resolved:
            names.append(folder)
            folder = folder[: folder.rfind("/", 0, -1) + 1]
        place = self._resolved[folder]
        for whole in reversed(names):
            place = self._resolved[whole] = self._enter(place, whole[whole.rfind("/", 0, -1) + 1 : -1])
        return place

    def is_link(self, folder: str, name: str) -> bool:
        """Whether a name in a folder without links is a link to a folder."""
        return self._is_any_link(folder, name) and self._leads_to_folder(folder, name)

    def has_link(self, folder: str) -> bool:
        """Whether a folder without links has a link to a folder."""
        if folder in self._absent:
            return False
        if folder not in self._links:
            self._links[folder] = self._list_links(folder)
        return any(self._leads_to_folder(folder, name) for name in self._links[folder])

    def is_without(self, folder: str) -> bool:
        """Whether a folder without links is known to have none."""
        return folder in self._absent or self._links.get(folder) == _NONE

    def _is_any_link(self, folder: str, name: str) -> bool:
        if folder in self._absent:
            return False
        links = self._links.get(folder)
        if links is not None:
            return name in links
        if (answer := self._answers.get((folder, name))) is not None:
            return answer
        self._asked[folder] += 1
        if self._asked[folder] > FEW:
            self._links[folder] = self._list_links(folder)
            return name in self._links[folder]
        try:
            mode = os.lstat(folder + name).st_mode
        except OSError:
            # A folder that is closed to us has no links that we could follow.
            self._absent.add(f"{folder}{name}/")
            answer = False
        except ValueError:
            answer = False
        else:
            answer = stat.S_ISLNK(mode)
        self._answers[folder, name] = answer
        return answer

    def _enter(self, place: str, name: str) -> str:
        """Return the folder of a name in a folder without links."""
        if name in {"", "."}:
            return place
        if name == "..":
            return place[: place.rfind("/", 0, -1) + 1] or "/"
        if place in self._absent:
            self._absent.add(f"{place}{name}/")
        elif self._is_any_link(place, name):
            # A link that leads to itself stays as it is; one that leads to nothing may lead to a folder later.
            return f"{os.path.realpath(place + name).rstrip('/')}/"
        return f"{place}{name}/"

    def _list_links(self, folder: str) -> frozenset[str]:
        try:
            with os.scandir(folder) as entries:
                return frozenset(entry.name for entry in entries if entry.is_symlink())
        except (OSError, ValueError):
            return frozenset()

    def _leads_to_folder(self, folder: str, name: str) -> bool:
        return os.path.isdir(folder + name)  # noqa: PTH112 - a text is what there is
