"""Random damages of files: flipped bits, changed bytes, lines out of place, cuts, deleted and swapped files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

Files = Mapping[str, bytes]
"""Content by path."""


class DamagedFiles(NamedTuple):
    """What a damage made of some files."""

    kind: str
    changes: Mapping[str, bytes | None]
    """New content by path; ``None`` for a deleted file."""


def _flip_bit(text: bytes, dice: Random) -> bytes:
    place = dice.randrange(len(text))
    return text[:place] + bytes([text[place] ^ 1 << dice.randrange(8)]) + text[place + 1 :]


def _change_byte(text: bytes, dice: Random) -> bytes:
    place = dice.randrange(len(text))
    return text[:place] + bytes([dice.randrange(256)]) + text[place + 1 :]


def _change_digit(text: bytes, dice: Random) -> bytes:
    places = [place for place, byte in enumerate(text) if 0x30 <= byte <= 0x39]
    if not places:
        return text
    place = dice.choice(places)
    return text[:place] + b"%d" % dice.randrange(10) + text[place + 1 :]


def _insert_byte(text: bytes, dice: Random) -> bytes:
    place = dice.randrange(len(text) + 1)
    return text[:place] + dice.choice((b"\n", b" ", b"0", b"\0", dice.randbytes(1))) + text[place:]


def _drop_byte(text: bytes, dice: Random) -> bytes:
    place = dice.randrange(len(text))
    return text[:place] + text[place + 1 :]


def _zeros(text: bytes, dice: Random) -> bytes:
    begin, end = sorted((dice.randrange(len(text)), dice.randrange(len(text) + 1)))
    return text[:begin] + bytes(end - begin) + text[end:]


def _cut(text: bytes, dice: Random) -> bytes:
    return text[: dice.randrange(len(text))]


def _append(text: bytes, dice: Random) -> bytes:
    return text + dice.choice((b"\n", b"{}\n", bytes(8), dice.randbytes(9), text[text.rfind(b"\n", 0, -1) + 1 :]))


def _on_lines(change: Callable[[list[bytes], Random], None]) -> Callable[[bytes, Random], bytes]:
    def damage(text: bytes, dice: Random) -> bytes:
        lines = text.splitlines(keepends=True)
        if len(lines) > 1:
            change(lines, dice)
        return b"".join(lines)

    return damage


def _drop_lines(lines: list[bytes], dice: Random) -> None:
    begin = dice.randrange(len(lines))
    del lines[begin : begin + dice.choice((1, 1, 2, 5))]


def _cut_lines(lines: list[bytes], dice: Random) -> None:
    del lines[dice.randrange(len(lines)) :]


def _swap_lines(lines: list[bytes], dice: Random) -> None:
    one, other = dice.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]


def _repeat_line(lines: list[bytes], dice: Random) -> None:
    lines.insert(dice.randrange(len(lines) + 1), dice.choice(lines))


def _replace_line(lines: list[bytes], dice: Random) -> None:
    lines[dice.randrange(len(lines))] = dice.choice(lines)


_CONTENT: Final[dict[str, Callable[[bytes, Random], bytes]]] = {
    "flipped bit": _flip_bit,
    "changed byte": _change_byte,
    "changed digit": _change_digit,
    "inserted byte": _insert_byte,
    "dropped byte": _drop_byte,
    "zeros": _zeros,
    "cut": _cut,
    "appended": _append,
    "dropped lines": _on_lines(_drop_lines),
    "cut lines": _on_lines(_cut_lines),
    "swapped lines": _on_lines(_swap_lines),
    "repeated line": _on_lines(_repeat_line),
    "replaced line": _on_lines(_replace_line),
}
_FILES: Final = ("deleted file", "swapped files", "replaced file", "emptied file", "file of another run")
KINDS: Final[Sequence[str]] = (*_CONTENT, *_FILES)


def damage_files(files: Files, dice: Random, *, others: Sequence[Files] = ()) -> DamagedFiles:
    """Damage some files at random; `others` are files of other runs that may take the place of these.

    At times nothing changes, because what was chosen is what was there; there are no changes then.
    """
    kind = dice.choice(KINDS)
    path = dice.choice(list(files))
    changes: dict[str, bytes | None] = {}
    if kind in _CONTENT:
        if files[path]:
            changes[path] = _CONTENT[kind](files[path], dice)
    elif kind == "deleted file":
        changes[path] = None
    elif kind == "emptied file":
        changes[path] = b""
    elif kind == "file of another run":
        found = [other[path] for other in others if path in other]
        if found:
            changes[path] = dice.choice(found)
    else:
        other = dice.choice(list(files))
        changes[path] = files[other]
        if kind == "swapped files":
            changes[other] = files[path]
    return DamagedFiles(kind, {name: text for name, text in changes.items() if text != files[name]})


def is_crash(before: bytes, after: bytes | None) -> bool:
    """Return whether what is left of a file that still grows is what a crash could have left.

    That is a file without its last lines, of which the first may be torn, or zeros where lines were.
    """
    if after is None:
        return False
    whole = after.rstrip(b"\0")
    whole = whole[: whole.rfind(b"\n") + 1]
    return before.startswith(whole)
