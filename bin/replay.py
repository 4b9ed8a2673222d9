#!/usr/bin/env python3
"""Replays a recorded task: turns its length, memory and outputs into work of that size on the machine it runs on.

Runs under ``python3 -I -S`` from Python 3.6 on with the standard library alone, because jobs run it where Longshore is
not installed. It imports little, because a run starts it once per task.
"""

# Importing pathlib and contextlib would take longer than all the rest of the start.
# ruff: noqa: PTH103, PTH105, PTH108, PTH116, PTH118, PTH120, PTH123, SIM105

import os
import signal
import sys
import time

USAGE = """\
Usage: replay.py [OPTION VALUE]... [@FILE]...

Does the work of a recorded task: checks its inputs, holds memory, keeps busy for a while, then makes its outputs.

  --name NAME         what to call the task in messages
  --seconds SECONDS   how long to keep busy (default 0)
  --cpu FRACTION      part of that time to compute, from 0 to 1; the rest is slept (default 0)
  --memory BYTES      memory to hold meanwhile (default 0)
  --root FOLDER       where inputs and outputs lie (default .)
  --input SIZE:PATH   a file that must be there, with at least SIZE bytes; may be repeated
  --output SIZE:PATH  a file to make, of SIZE bytes; may be repeated
  @FILE               more words of the command line, as a JSON list of strings
  -h, --help          show this text

FOLDER and FILE are relative to the directory that LONGSHORE_JOB_RUN_DIR names, or to the current one if it names none.
FOLDER is relative to LONGSHORE_JOB_STAGE_DIR where the files of the task are staged.
The value of an option is always the next word, whatever it looks like.

Exit status: 0 done, 2 wrong options, 3 an input is missing, 4 an output cannot be written, 5 too little memory.

Example: python3 replay.py --seconds 0.5 --cpu 1 --memory 1000000 --input 10:a.txt --output 2000:out/b.txt
"""

WRONG_OPTIONS = 2
MISSING_INPUT = 3
CANNOT_WRITE = 4
NO_MEMORY = 5

PAGE = 4096
SLICE_S = 0.05
"""Computing and sleeping take turns this often: short beside a task, long beside a clock tick."""
LONGEST_SLEEP_S = 3600.0
BLOCK = bytes(range(256)) * 4096

unfinished: "set[str]" = set()
"""Paths of outputs that are being written: what a signal has to remove."""


class StopError(Exception):
    """The task cannot be replayed; carries the exit status and the lines that say why."""

    def __init__(self, status: int, *lines: str) -> None:
        super().__init__(*lines)
        self.status = status
        self.lines = lines


class HelpAskedError(Exception):
    """The command line asks for the text about it."""


class Options:
    """What the command line asks for."""

    def __init__(self) -> None:
        self.name = ""
        self.seconds = 0.0
        self.cpu = 0.0
        self.memory = 0
        self.root = "."
        self.inputs: list[tuple[int, str]] = []
        self.outputs: list[tuple[int, str]] = []

    def read(self, words: "list[str]", *, from_file: bool = False) -> None:
        """Take over the words of a command line, or of a file it names."""
        rest = iter(words)
        for word in rest:
            if word.startswith("@"):
                if from_file:
                    raise StopError(WRONG_OPTIONS, f"a file of words must not name another, as it does in {word!r}")
                self.read(words_of(word[1:]), from_file=True)
                continue
            if word in {"-h", "--help"}:
                raise HelpAskedError
            value = next(rest, None)
            if word not in SETTERS:
                raise StopError(WRONG_OPTIONS, f"there is no option {word!r}; see --help")
            if value is None:
                raise StopError(WRONG_OPTIONS, f"the option {word} needs a value; see --help")
            try:
                SETTERS[word](self, value)
            except ValueError as error:
                raise StopError(WRONG_OPTIONS, f"{word} {value!r}: {error}") from None

    def set_name(self, value: str) -> None:
        """Take over ``--name``."""
        self.name = value

    def set_seconds(self, value: str) -> None:
        """Take over ``--seconds``."""
        self.seconds = number(value, most=float("inf"))

    def set_cpu(self, value: str) -> None:
        """Take over ``--cpu``."""
        self.cpu = number(value, most=1.0)

    def set_memory(self, value: str) -> None:
        """Take over ``--memory``."""
        self.memory = count(value)

    def set_root(self, value: str) -> None:
        """Take over ``--root``."""
        self.root = value

    def add_input(self, value: str) -> None:
        """Take over one ``--input``."""
        self.inputs.append(sized_path(value))

    def add_output(self, value: str) -> None:
        """Take over one ``--output``."""
        self.outputs.append(sized_path(value))


SETTERS = {
    "--name": Options.set_name,
    "--seconds": Options.set_seconds,
    "--cpu": Options.set_cpu,
    "--memory": Options.set_memory,
    "--root": Options.set_root,
    "--input": Options.add_input,
    "--output": Options.add_output,
}


def number(value: str, most: float) -> float:
    """Read a number from 0 to `most`, infinity excluded."""
    read = float(value)
    if not 0.0 <= read <= most or read == float("inf"):
        raise ValueError("out of range")
    return read


def count(value: str) -> int:
    """Read a whole number that is not negative."""
    if not value.isdigit():
        raise ValueError("not a whole number")
    return int(value)


def sized_path(value: str) -> "tuple[int, str]":
    """Take ``SIZE:PATH`` apart. The size stands first, so that a path may contain any character."""
    size, colon, path = value.partition(":")
    if not colon or not path:
        raise ValueError("not of the form SIZE:PATH")
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("the path leaves the root")
    return count(size), path


def in_run_directory(path: str) -> str:
    """Path of something that may be named relative to the run directory."""
    return os.path.join(os.environ.get("LONGSHORE_JOB_RUN_DIR", ""), path)


def root_folder(options: Options) -> str:
    """Path of the folder with inputs and outputs."""
    staged = os.environ.get("LONGSHORE_JOB_STAGE_DIR")
    return os.path.join(staged, options.root) if staged else in_run_directory(options.root)


def words_of(path: str) -> "list[str]":
    """Read a file of words."""
    import json  # Only tasks with a great many files need it, and it takes a tenth of the start.

    try:
        with open(in_run_directory(path), encoding="utf-8") as file:
            words = json.load(file)
    except (OSError, ValueError) as error:
        raise StopError(WRONG_OPTIONS, f"cannot read the words in {path!r}: {error}") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise StopError(WRONG_OPTIONS, f"{path!r} holds no list of strings")
    # Words of a command line are bytes to the system; these must become the same text in any locale.
    return [os.fsdecode(word.encode("utf-8", "surrogatepass")) for word in words]


def check_inputs(options: Options) -> None:
    """Make sure that every input is there and large enough."""
    wrong = []
    for size, path in options.inputs:
        try:
            there = os.stat(os.path.join(root_folder(options), path)).st_size
        except (OSError, ValueError) as error:
            wrong.append(f"the input {path!r} is missing: {reason(error)}")
            continue
        if there < size:
            wrong.append(f"the input {path!r} has {there} bytes, not {size}")
    if wrong:
        raise StopError(MISSING_INPUT, *wrong)


def hold(size: int) -> bytearray:
    """Take memory and write to each of its pages: only then is it really ours."""
    try:
        memory = bytearray(size)
        memory[::PAGE] = b"\1" * len(range(0, size, PAGE))
    except (MemoryError, OverflowError):
        raise StopError(NO_MEMORY, f"cannot hold {size} bytes of memory") from None
    return memory


def work_until(end: float, cpu: float) -> None:
    """Compute for the part `cpu` of the time and sleep for the rest of it, until `end` on the monotonic clock."""
    clock = time.monotonic
    now = clock()
    while now < end:
        rest_ends = min(end, now + (SLICE_S if cpu else LONGEST_SLEEP_S))
        rest_begins = now + cpu * (rest_ends - now)
        while now < rest_begins:
            now = clock()
        if now < rest_ends:
            time.sleep(rest_ends - now)
            now = clock()


def reason(error: Exception) -> str:
    """What the system, or Python, says went wrong."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def make_output(root: str, path: str, size: int) -> None:
    """Make one output: whole under its own name, or not at all."""
    target = os.path.join(root, path)
    folder = os.path.dirname(target)
    draft = os.path.join(folder, f".replay-{os.urandom(8).hex()}.tmp")
    unfinished.add(draft)
    try:
        os.makedirs(folder or ".", exist_ok=True)
        with open(draft, "xb") as file:
            file.writelines(BLOCK[: size - start] for start in range(0, size, len(BLOCK)))
        os.replace(draft, target)
    except (OSError, ValueError) as error:
        remove(draft)
        raise StopError(CANNOT_WRITE, f"cannot write the output {path!r}: {reason(error)}") from None
    finally:
        unfinished.discard(draft)


def remove(path: str) -> None:
    """Remove a file if it can be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


def stop_at_once(signal_number: int, _frame: object) -> None:
    """Leave nothing half written, then die of the signal, so that whoever started this sees which one it was."""
    for draft in list(unfinished):
        remove(draft)
    signal.signal(signal_number, signal.SIG_DFL)
    os.kill(os.getpid(), signal_number)
    os._exit(128 + signal_number)  # The first process of a container is not killed by its own signals.


def say(stream: int, text: str) -> None:
    """Write a line; that nobody can read it is no reason to fail."""
    try:
        os.write(stream, (text + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def replay(words: "list[str]") -> str:
    """Do what a command line asks for and return the line that says what was done."""
    options = Options()
    options.read(words)
    check_inputs(options)
    begin = time.monotonic()
    memory = hold(options.memory)
    work_until(begin + options.seconds, options.cpu)
    took = time.monotonic() - begin
    del memory
    root = root_folder(options)
    for size, path in options.outputs:
        make_output(root, path, size)
    total = sum(size for size, _ in options.outputs)
    return f"replayed {options.name!r}: {took:.3f} s, {len(options.outputs)} outputs, {total} bytes"


def main(words: "list[str]") -> int:
    """Run the program and return its exit status."""
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(signal_number) != signal.SIG_IGN:
            signal.signal(signal_number, stop_at_once)
    try:
        say(1, replay(words))
    except HelpAskedError:
        say(1, USAGE.rstrip())
    except StopError as stop:
        for line in stop.lines:
            say(2, "replay: " + line)
        return stop.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
