"""Compares two documents of one case value by value, after what is the same in other words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Document = Mapping[str, Any]

_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})
_AMOUNTS: Final = frozenset({"request_memory", "request_memory_max", "request_disk", "request_walltime"})
_COUNTS: Final = frozenset({"number_of_retries", "request_cpus", "memory_multiplier", "priority"})
_PROGRAM: Final = re.compile(r"\$\{(\w+):\+\$\{\1\}/bin/\}")


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value of both: its kind, its place, and what either has; name and label of its job where it is one's."""

    kind: str
    place: str
    bps: Any
    ours: Any
    job: str = ""
    label: str = ""
    tasks: tuple[str, ...] = ()
    """Labels of the job's tasks."""

    @property
    def is_equal(self) -> bool:
        """Whether both have it."""
        return bool(self.bps == self.ours)


def compare(bps: Document, ours: Document) -> Iterator[Value]:
    """Yield all values of two documents; of two errors only that there are two."""
    failed = "error" in bps, "error" in ours
    if any(failed):
        yield Value(
            kind="outcome",
            place="error",
            bps=bps.get("error") if failed != (True, True) else "refused",
            ours=ours.get("error") if failed != (True, True) else "refused",
        )
        return
    yield Value(kind="outcome", place="error", bps=None, ours=None)
    for key in ("name", "submitPath", "files"):
        yield Value(kind="names and files", place=key, bps=bps[key], ours=ours[key])
    yield from _items("run attributes", "attributes", bps["attributes"], ours["attributes"])
    yield from _maps("clusters", bps["clusters"], ours["clusters"])
    yield Value(kind="edges", place="cluster_edges", bps=bps["cluster_edges"], ours=ours["cluster_edges"])
    yield Value(kind="edges", place="edges", bps=bps["edges"], ours=ours["edges"])
    yield from _maps("groups", bps["groups"], ours["groups"])
    yield from _items("counts", "counts", bps["counts"], ours["counts"])
    yield from _items("counts", "job_counts", bps["job_counts"], ours["job_counts"])
    yield from _jobs("", bps["jobs"], ours["jobs"])
    finals = [{"finalJob": each["final"]} if each["final"] else {} for each in (bps, ours)]
    yield from _jobs("final", *finals)
    scripts = [_script(each["script"]) for each in (bps, ours)]
    yield Value(kind="commands", place="script", bps=scripts[0], ours=scripts[1], job="finalJob", label="finalJob")


def _maps(kind: str, bps: Document, ours: Document) -> Iterator[Value]:
    """Yield the names of things of one kind, and the values of those that both have."""
    yield Value(kind=kind, place="names", bps=sorted(bps), ours=sorted(ours))
    for name in bps.keys() & ours.keys():
        yield from _items(kind, name, bps[name], ours[name])


def _items(kind: str, place: str, bps: Document, ours: Document, job: str = "", label: str = "") -> Iterator[Value]:
    for key in {**bps, **ours}:
        theirs, own = bps.get(key), ours.get(key)
        if isinstance(theirs, dict) and isinstance(own, dict):
            yield from _items(kind, f"{place}.{key}", theirs, own, job, label)
        else:
            yield Value(kind=kind, place=f"{place}.{key}", bps=theirs, ours=own, job=job, label=label)


def _jobs(place: str, bps: Document, ours: Document) -> Iterator[Value]:
    yield Value(kind="jobs", place=f"{place}names", bps=sorted(bps), ours=sorted(ours))
    for name in bps.keys() & ours.keys():
        theirs, own = bps[name], ours[name]
        label = own["label"]
        for key in ("label", "inputs"):
            yield Value(kind="jobs", place=f"{name}.{key}", bps=theirs[key], ours=own[key], job=name, label=label)
        yield from _items("jobs", f"{name}.tags", theirs["tags"], own["tags"], name, label)
        yield from _items("jobs", f"{name}.counts", theirs["counts"], own["counts"], name, label)
        words = _words(theirs["command"]), _words(_program(own["command"]))
        yield Value(kind="commands", place=f"{name}.command", bps=words[0], ours=words[1], job=name, label=label)
        yield from _attributes(name, label, tuple(own["counts"]), theirs["values"], own["values"])


def _attributes(job: str, label: str, tasks: tuple[str, ...], bps: Document, ours: Document) -> Iterator[Value]:
    for key in ours:
        theirs, own = (_plain_value(key, each.get(key)) for each in (bps, ours))
        if isinstance(theirs, dict) and isinstance(own, dict):
            yield from _items("attributes", f"{job}.{key}", theirs, own, job, label)
        else:
            yield Value(
                kind="attributes", place=f"{job}.{key}", bps=theirs, ours=own, job=job, label=label, tasks=tasks
            )


def _program(text: str) -> str:
    """Return a command in which programs are looked for where BPS looks."""
    return _PROGRAM.sub(r"<ENV:\1>/bin/", text)


def _script(text: str) -> list[list[str]]:
    """Return the words of a script's lines, with its variables in one form."""
    lines = (re.sub(r"\$\{(\w+)\}", r"<ENV:\1>", _program(line)) for line in text.splitlines())
    return [words for words in map(_words, lines) if words]


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    # The script of the final job is a program there, and what bash runs here.
    words = words[1:] if words[:1] == ["/bin/bash"] else words
    return [re.sub(r".*/final_job\.bash$", "final_job.bash", word) for word in words]


def _plain_value(key: str, value: Any) -> Any:
    """Return a value of a job in one form for both."""
    if key == "retry_unless_exit":
        return sorted([value] if isinstance(value, int | str) else value or [])
    if key == "environment":
        return dict(value or {})
    if key in ("profile", "attrs"):
        value = (value or {}).get("condor", value) if key == "profile" and isinstance(value, dict) else value
        return {name: str(each) for name, each in (value or {}).items()}
    if value in _NOTHING:
        return 0 if key == "number_of_retries" else None
    if key in _AMOUNTS | _COUNTS:
        try:
            return float(value)
        except (TypeError, ValueError):
            return value
    return value
