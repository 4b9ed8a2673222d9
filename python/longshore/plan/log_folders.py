"""Paths of attempts' logs, by ``subDirTemplate``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from longshore.contract.context import file_name, log_path
from longshore.model.tasks.task import DataId

if TYPE_CHECKING:
    from longshore.config.templates import Template


def attempt_log_path(template: str, index: int, name: str, label: str, attempt: int, *, tags: DataId) -> str:
    """Path of an attempt's log, relative to the run directory.

    `template` is ``subDirTemplate``; an empty one means the usual folder.

    Raises `ConfigError` if a value does not fit its format in the template.
    """
    if not template:
        return log_path(index, name, label, attempt)
    return f"logs/{_folder(template, label, name, tags)}/{file_name(name)}.{attempt}.log"


def _folder(template: str, label: str, name: str, tags: DataId) -> str:
    values = {**tags, "label": label, "jobName": name, "jobLabel": label}
    # A value is one component of a path, or a part of one, whatever signs it has in it.
    plain = {key: value.replace("/", "_") if isinstance(value, str) else value for key, value in values.items()}
    text = _parse_cached(template).render(plain, missing="")
    # What a job lacks leaves no trace, and nothing leads out of the run directory.
    return "/".join(file_name(part) for part in text.split("/") if part not in {"", ".", ".."}) or "_"


@lru_cache(maxsize=8)
def _parse_cached(template: str) -> Template:
    # Imported late: few runs have a template, and their reports need nothing else of it.
    from longshore.config.templates import Template, split_fields

    return Template(split_fields(template))
