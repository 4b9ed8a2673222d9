"""Tries the rules of notices of a configuration or of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from longshore.app.configure.configuration import read_draft
from longshore.app.configure.layers import Overrides
from longshore.app.notices.compose import trial_notice
from longshore.app.notices.deliveries import Deliveries, Delivery
from longshore.app.runs.open_run import open_run
from longshore.config.profile.notices import SECTION, no_rules_error, read_notices
from longshore.engine.rundir.notice_log import read_notice_rules
from longshore.errors import RunNotFoundError, RunNotMeantError
from longshore.model.notice import NoticeRule
from longshore.world.archives.archive_names import is_archive
from longshore.world.runs.owner import Access, require_access


class NoticeTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one rule: `why` it was not sent, empty if it was."""

    rule: NoticeRule
    why: str


def try_notices(
    name: str, overrides: Overrides, *, now: float, show: Callable[[NoticeTrial], None]
) -> Sequence[NoticeTrial]:
    """Send a test notice by each rule of a configuration file or a run; `show` receives each result as it comes.

    The rules are tried side by side. Commands start in the directory of the run; for a file, in an empty one.

    Raises
    ------
    ConfigError
        There are no rules, or they are wrong.
    RunNotFoundError
        `name` is no file, and no such run is known.
    """
    path = Path(name)
    # Unlike that of `Path`, it gives an answer for names that are too long.
    if os.path.isfile(name) and not is_archive(path):  # noqa: PTH113
        rules = read_notices(read_draft(path, overrides, now=now).config.node_at(SECTION))
        # As in the directory of a new run, relative paths lead nowhere.
        with TemporaryDirectory(prefix="longshore-notify-") as folder:
            return _try_rules(name, path.name, rules, Path(folder), show)
    try:
        opened = open_run(name, acts=True)
    except RunNotMeantError:
        raise
    except RunNotFoundError as error:
        if os.path.lexists(name):
            raise
        raise RunNotFoundError(f"there is no file '{name}', and {error.message}", hint=error.hint) from error
    require_access(opened.run, Access.ACT)
    return _try_rules(name, path.name or name, tuple(read_notice_rules(opened.run)), opened.run.root, show)


def _try_rules(
    name: str, title: str, rules: Sequence[NoticeRule], folder: Path, show: Callable[[NoticeTrial], None]
) -> Sequence[NoticeTrial]:
    if not rules:
        raise no_rules_error(name)
    trials: dict[str, NoticeTrial] = {}
    with Deliveries() as deliveries:
        for rule in rules:
            deliveries.add(Delivery(rule=rule, notice=trial_notice(title), folder=folder))
        while deliveries.open_number:
            for ended in deliveries.take_ended():
                trials[ended.rule.name] = NoticeTrial(rule=ended.rule, why=ended.why)
                show(trials[ended.rule.name])
    return [trials[rule.name] for rule in rules]
