"""Where the user's runs are: one small file per run in the user's state directory, which can be deleted and rebuilt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import RunNotFoundError
from longshore.model.run.report import RunReport
from longshore.model.run.submission import RunCard
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.world.files.atomic import create_file, write_atomically

_LETTERS: Final = "abcdefghjkmnpqrstvwxyz"
_SIGNS: Final = "0123456789" + _LETTERS
"""Signs of an id, in the order in which text sorts, without i, l, o and u, which are easily misread (Crockford)."""
_EPOCH: Final = 1_735_689_600
"""2025-01-01, where ids begin."""
LAST: Final = "@last"
"""The name of the run that was submitted last."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the registry knows of a run."""

    id: str
    path: str
    name: str
    service: str
    created_at: float
    report: RunReport | None = None
    """How the run ended, if it has: read here, its directory need not be."""
    others: tuple[str, ...] = ()
    """Ids that its workload manager gave it."""
    stamp: int = 0
    """The state of its journal when that was written down; another one means that the run was taken up again."""

    @classmethod
    def of(cls, card: RunCard, path: str) -> Entry:
        """The entry of a run, by its card and its directory."""
        return cls(
            id=card.id,
            path=path,
            name=card.name,
            service=card.service,
            created_at=card.created_at,
            others=card.other_ids,
        )


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the registry holds.

    Attributes
    ----------
    entries
        The runs, oldest first.
    torn
        Ids of the runs whose files cannot be read, oldest first; those only reserved are none.
    problem
        Why it is not known what there is; empty where it is.
    """

    entries: tuple[Entry, ...]
    torn: tuple[str, ...]
    problem: str = ""


def state_folder() -> Path:
    """The folder of what Longshore remembers for this user (``XDG_STATE_HOME``)."""
    given = os.environ.get("XDG_STATE_HOME", "")
    # The specification says that a relative path is to be ignored.
    base = Path(given) if given.startswith("/") else Path("~/.local/state").expanduser()
    return base / "longshore"


def run_id(seconds: float) -> str:
    """The id of a run that begins at that moment: six signs, a letter first, later ones sorting behind earlier ones."""
    rest = max(0, int(seconds) - _EPOCH)
    signs = ""
    for _ in range(5):
        rest, digit = divmod(rest, len(_SIGNS))
        signs = _SIGNS[digit] + signs
    return _LETTERS[rest % len(_LETTERS)] + signs


def reserve_id(now: float) -> tuple[str, float]:
    """An id that no run of this user has, and the moment it stands for: of two runs of one second, the second's next.

    A state directory that cannot be written costs the run its entry, not its life: it is then named by its path.
    """
    folder = state_folder() / "runs"
    moment = now
    while True:
        name = run_id(moment)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            create_file(folder / f"{name}.json", ())
        except FileExistsError:
            moment += 1
        except OSError:
            return name, moment
        else:
            return name, moment


def register(entry: Entry) -> bool:
    """Write a run's file; return whether that was possible."""
    path = state_folder() / "runs" / f"{entry.id}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(entry) + b"\n")
    except OSError:
        # What was reserved goes too: a full disk lets us make names, but nothing under them.
        forget(entry.id)
        return False
    return True


def remember(entry: Entry) -> None:
    """Write how a run ended into its file; what cannot be written will be found out again."""
    path = state_folder() / "runs" / f"{entry.id}.json"
    with suppress(OSError, UnicodeEncodeError):
        write_atomically(path, msgspec.json.encode(entry) + b"\n")


def stamp_of(root: str) -> int:
    """A number that changes when a run is taken up again: every life of its engine adds a file to its journal.

    Raises
    ------
    OSError
        There is no such journal, or it cannot be looked at.
    """
    about = os.stat(f"{root}/journal")  # noqa: PTH116 - a thousand of them are looked at
    return about.st_mtime_ns ^ about.st_ino


def is_known(run: str) -> bool:
    """Whether there is a file for that id, torn or not."""
    return bool(run) and "/" not in run and "\0" not in run and os.path.lexists(state_folder() / "runs" / f"{run}.json")


def entry_of(run: str) -> Entry | None:
    """What the registry knows of a run; ``None`` where that is nothing."""
    if not run or "/" in run:
        # A path is no id, and must not lead out of the folder.
        return None
    return _read(state_folder() / "runs" / f"{run}.json")


def path_of(run: str) -> str | None:
    """The path under which the registry knows a run; ``None`` where it does not."""
    entry = entry_of(run)
    return entry.path if entry else None


def forget(run: str) -> None:
    """Remove a run's file."""
    _remove(state_folder() / "runs" / f"{run}.json")


def entries() -> Iterator[Entry]:
    """All runs that are known, oldest first."""
    return iter(known_runs().entries)


def known_runs() -> Known:
    """All that the registry holds, each file read once."""
    folder = state_folder() / "runs"
    found: list[Entry] = []
    torn = []
    names, problem = _listing(folder)
    for name in names:
        path = f"{folder}/{name}"
        text = _text(path)
        entry = _entry(text)
        if entry:
            found.append(entry)
        elif text != b"":
            torn.append(name.removesuffix(".json"))
    return Known(entries=tuple(found), torn=tuple(torn), problem=problem)


def find_run(reference: str) -> RunPaths:
    """The directory of a run.

    Parameters
    ----------
    reference
        An id, the unique beginning of one, a path, or ``@last``.

    Raises
    ------
    RunNotFoundError
        Nothing, or more than one run, is meant by it.
    """
    exact = _read(state_folder() / "runs" / f"{reference}.json") if reference.isalnum() else None
    if exact:
        return RunPaths(Path(exact.path))
    # `os.path`, unlike `Path`, has an answer for names that are too long and for links that go round in a circle.
    if "/" in reference or (reference and os.path.isdir(reference)):  # noqa: PTH112
        return RunPaths(Path(os.path.realpath(reference)))
    known = list(entries())
    if reference == LAST:
        if known:
            return RunPaths(Path(max(known, key=lambda entry: (entry.created_at, entry.id)).path))
        raise RunNotFoundError("there is no last run: none is known to this user", hint=_HINT)
    if theirs := [entry for entry in known if reference in entry.others or f"{reference}.0" in entry.others]:
        # A workload manager that was set up anew counts from the beginning again.
        return RunPaths(Path(max(theirs, key=lambda entry: (entry.created_at, entry.id)).path))
    fitting = [entry for entry in known if reference and entry.id.startswith(reference)]
    if len(fitting) == 1:
        return RunPaths(Path(fitting[0].path))
    if fitting:
        raise RunNotFoundError(
            f"'{reference}' is the beginning of {len(fitting)} run ids: {', '.join(entry.id for entry in fitting[:8])}",
            hint="Give more of the id.",
        )
    hint = did_you_mean(reference, (entry.id for entry in known), likeness=NAME_LIKENESS) or _HINT
    raise RunNotFoundError(f"no run '{reference}' is known", hint=hint)


_decode = msgspec.json.Decoder(Entry).decode
_HINT: Final = "A run is named by its id, the beginning of its id, the path of its submit directory, or @last."


def _listing(folder: Path) -> tuple[list[str], str]:
    """Names of the files, and why they are not known."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return [], ""
    except OSError as error:
        return [], f"the registry '{folder}' cannot be read: {error.strerror}"
    return sorted(name for name in names if name.endswith(".json") and not name.startswith(".")), ""


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return


def _read(path: Path) -> Entry | None:
    return _entry(_text(str(path)))


def _text(path: str) -> bytes | None:
    try:
        # Not `Path`: a thousand of them are read.
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except (OSError, ValueError):
        return None


def _entry(text: bytes | None) -> Entry | None:
    try:
        return _decode(text) if text else None
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        # Reserved and not yet written, or damaged: the run directory itself still is the truth.
        return None
