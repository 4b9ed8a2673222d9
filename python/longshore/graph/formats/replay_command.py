"""Builds the command line of the replay program (``bin/replay.py``) from a recorded task, scaled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.values import YamlValue

ROOT = "data"
"""Folder of the run directory for the inputs and outputs of replayed tasks."""

LARGEST_AMOUNT = 2**63 - 1
"""Upper bound of amounts: the largest signed 64-bit integer."""

SCALES: Mapping[str, float] = {"timeScale": 0.01, "memoryScale": 0, "outputScale": 0.001}
"""Defaults of the numbers that the recorded amounts are multiplied by, per key of the ``replay`` map."""

PROGRAMS: Mapping[str, str] = {"python": "python3", "program": "replay.py"}
"""Default interpreter and path of the replay program; the caller usually replaces both."""

_LONGEST_COMMAND_B = 100_000
"""Longer commands go into a file: Linux limits one word to 128 KiB, and a wrapper may make the line one word."""


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the replay: the ``replay`` map of the configuration, checked."""

    python: str
    program: str
    time_scale: float
    memory_scale: float
    output_scale: float

    def command(
        self,
        *,
        name: str,
        run_s: float | None,
        cpu_percent: float | None,
        memory_b: float | None,
        inputs: Iterable[tuple[str, int]],
        outputs: Iterable[tuple[str, int]],
        words_file: str,
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Command that repeats a task, and the argument file if the command is too long.

        Recorded amounts are ``None`` if unknown. `inputs` and `outputs` are paths relative to `ROOT` with recorded
        sizes in bytes; the command checks the first and makes the second. `words_file` is the path of the argument
        file, relative to the run directory.
        """
        seconds = min(max(run_s or 0.0, 0.0) * self.time_scale, float(LARGEST_AMOUNT))
        cpu = min(max(cpu_percent or 0.0, 0.0) / 100, 1.0)
        memory = _scale_amount(memory_b or 0.0, self.memory_scale)
        words = ["--name", name, "--seconds", _format_number(seconds), "--cpu", _format_number(cpu)]
        if memory:
            words += "--memory", str(memory)
        words += "--root", ROOT
        for option, files in (("--input", inputs), ("--output", outputs)):
            for path, size_b in files:
                words += option, f"{_scale_amount(size_b, self.output_scale)}:{path}"
        program = (self.python, "-I", "-S", self.program)
        if sum(len(word.encode()) + 1 for word in words) <= _LONGEST_COMMAND_B:
            return (*program, *words), {}
        text = msgspec.json.format(msgspec.json.encode(words), indent=1).decode()
        return (*program, f"@{words_file}"), {words_file: text + "\n"}


def read_replay_settings(settings: Mapping[str, YamlValue]) -> ReplaySettings:
    """Check a ``replay`` map.

    Raises `ConfigError` if a key is unknown or a scale is not a number of at least 0.
    """
    known = [*SCALES, *PROGRAMS]
    for key in settings:
        if key not in known:
            hint = did_you_mean(str(key), known, likeness=NAME_LIKENESS) or name_all(SCALES)
            raise ConfigError(f"unknown key 'replay.{key}'", hint=hint)
    return ReplaySettings(
        python=str(settings.get("python", PROGRAMS["python"])),
        program=str(settings.get("program", PROGRAMS["program"])),
        time_scale=_read_scale(settings, "timeScale"),
        memory_scale=_read_scale(settings, "memoryScale"),
        output_scale=_read_scale(settings, "outputScale"),
    )


def _read_scale(settings: Mapping[str, YamlValue], key: str) -> float:
    default = SCALES[key]
    given = settings.get(key, default)
    # Text is tried as well, because a value that was put together from variables is text.
    try:
        value = float(given) if isinstance(given, int | float | str) and not isinstance(given, bool) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise ConfigError(
            f"'replay.{key}' must be a number, 0 or more, not {given!r}",
            hint=f"It multiplies what was recorded; 1 repeats it in full, and the default is {default}.",
        )
    return value


def _scale_amount(amount: float, scale: float) -> int:
    exact = min(max(amount, 0) * scale, float(LARGEST_AMOUNT))
    nearest = round(exact)
    # 100 * 0.07 is 7.000000000000001, and still means 7.
    return nearest if math.isclose(exact, nearest, rel_tol=1e-12) else math.ceil(exact)


def _format_number(number: float) -> str:
    return f"{round(number, 6):.15g}"
