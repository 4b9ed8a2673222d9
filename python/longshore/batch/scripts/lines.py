"""Lines of options in a batch script, the script's template, and names of jobs (pure functions)."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import jinja2

from longshore.batch.scripts.job_spec import JobSpec
from longshore.errors import ConfigError

_UNFIT: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that end a line, or cannot be in one."""
_LONGEST_NAME: Final = 120
_DIGEST_SIGNS: Final = 10


def fit_line(name: str, value: str, *, reserved: str = "") -> str:
    """Return a value that fits in a line of a script.

    Raises `ConfigError` for one that does not, or that has a `reserved` sign.
    """
    found = _UNFIT.search(value)
    sign = found[0] if found else next((sign for sign in value if sign in reserved), "")
    if sign:
        raise ConfigError(
            f"'{name}' cannot be {value!r}: a line of a batch script has no room for {sign!r}",
            hint="Give it another value, or, of a path, move the run to another directory.",
        )
    return value


def to_list(value: object) -> list[str]:
    """Return a value, or the items of a list, as texts; none of null and of empty text."""
    if value is None or value == "":
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


def text_lines(source: object) -> list[str]:
    """Return the lines of a text or of a list of texts."""
    return [line.strip() for text in to_list(source) for line in text.splitlines()]


def raw_options(directive: str, *sources: object) -> tuple[str, ...]:
    """Collect raw options from several sources, as written: with or without `directive` in front."""
    lines = (line for source in sources for line in text_lines(source))
    return tuple(plain for line in lines if (plain := line.removeprefix(directive).strip()))


def job_name(tag: str, prefix: str, to_plain: Callable[[str], str]) -> str:
    """Make the name of a job, which ends in its tag; a long one is shortened with a hash.

    `to_plain` replaces the signs that the workload manager does not accept.
    """
    plain = to_plain(prefix + tag)
    if len(plain) <= _LONGEST_NAME:
        return plain
    digest = sha256(plain.encode()).hexdigest()[:_DIGEST_SIGNS]
    return f"{plain[: _LONGEST_NAME - _DIGEST_SIGNS - 1 - len(tag)]}-{digest}{tag}"[:_LONGEST_NAME]


def fill_template(template: str, job: JobSpec, **more: str) -> str:
    """Render a script; `more` holds additional variables for the template."""
    # The result is a shell script, not a page: no HTML escaping.
    environment = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template).render(job=job, **more)
