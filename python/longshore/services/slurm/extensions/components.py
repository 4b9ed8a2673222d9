"""Components of heterogeneous jobs: names of keys that end in a component's index (pure functions)."""

from __future__ import annotations

import re
from typing import Final

from longshore.batch.scripts.job_spec import JobSpec
from longshore.batch.settings import KIT_KEYS, PASSED_KEYS
from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.values import YamlValue
from longshore.services.slurm.render.sbatch_options import (
    COMPONENT_NAMES,
    JOB_NAMES,
    SITE_NAMES,
    SPELLINGS,
    SbatchOptions,
    SlurmMap,
    component_options,
    is_set,
    job_options,
    omitted_options,
)

_NAME: Final = re.compile(r"([A-Za-z_]+?)(\d*)")


def normalize_names(settings: SlurmMap) -> dict[str, YamlValue]:
    """Normalize each name in a map to its first spelling.

    Raises `ConfigError` when two spellings of one name are used.
    """
    plain: dict[str, YamlValue] = {}
    for name, value in settings.items():
        found = _NAME.fullmatch(name)
        first = SPELLINGS.get(found[1], found[1]) + found[2] if found else name
        if first in plain:
            raise ConfigError(f"'slurm' has both '{name}' and another spelling of it", hint=f"Keep '{first}'.")
        plain[first] = value
    return plain


def components(job: JobSpec, defaults: SbatchOptions | None = None) -> tuple[SbatchOptions, ...]:
    """Build the options of each component of a job; `defaults` are those of the site.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    parts = [component_options(part) for part in _split_components(job.own)]
    first = (defaults or SbatchOptions()).override(job_options(job)).override(parts[0])
    # Account and time limit apply to the whole job, not to one component.
    whole = SbatchOptions(account=first.account, time=first.time)
    omitted = omitted_options(job.own)
    return tuple(part.without(omitted) for part in (first, *(part.override(whole) for part in parts[1:])))


def component_count(settings: SlurmMap) -> int:
    """Count the components of jobs with these settings; an ordinary job has one.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    return len(_split_components(normalize_names(settings)))


def check_names(settings: SlurmMap) -> None:
    """Raise `ConfigError` for an unknown name, two spellings of one name, or a missing index."""
    component_count(settings)
    omitted_options(settings)


def _split_components(settings: SlurmMap) -> list[dict[str, YamlValue]]:
    """Split indexed names by component."""
    by_index: dict[int, dict[str, YamlValue]] = {0: {}}
    for name, value in settings.items():
        if name in JOB_NAMES or name in SITE_NAMES or name in KIT_KEYS or name in PASSED_KEYS or not is_set(value):
            continue
        found = _NAME.fullmatch(name)
        if not found or found[1] not in COMPONENT_NAMES:
            raise _unknown(name)
        index = int(found[2] or 0)
        part = by_index.setdefault(index, {})
        if found[1] in part:
            raise ConfigError(f"'slurm' has both '{found[1]}' and '{name}', which mean the same")
        part[found[1]] = value
    missing = sorted(set(range(max(by_index) + 1)) - by_index.keys())
    if missing:
        raise ConfigError(
            f"'slurm' asks for component {max(by_index)} of a heterogeneous job, but says nothing of {missing[0]}",
            hint=f"Number the components without gaps: add 'cpu{missing[0]}', say.",
        )
    return [by_index[index] for index in range(len(by_index))]


def _unknown(name: str) -> ConfigError:
    known = [*COMPONENT_NAMES, *JOB_NAMES, *SITE_NAMES, *KIT_KEYS, *SPELLINGS]
    return ConfigError(
        f"'slurm' has no key '{name}'",
        hint=did_you_mean(name, known, likeness=NAME_LIKENESS)
        or f"{name_all(sorted(known))} Other options of sbatch go under 'directives'.",
    )
