"""``longshore site match`` and ``site set-state``: a choice without a run, and states from outside."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.configure.configuration import read_draft
from longshore.app.configure.layers import Overrides, read_layers
from longshore.app.configure.site_list import require_site
from longshore.app.progress import hidden_secrets
from longshore.app.site_choice.choose import choose
from longshore.app.site_choice.question import ask_for_site
from longshore.app.site_choice.resolve import ALWAYS, ALWAYS_REASON, LOCAL, match_candidates, read_fallback
from longshore.errors import CodeRefusedError, UsageError
from longshore.model.sites import SiteDecision, SiteState, SiteValue
from longshore.rundir.histories import read_site_states, set_site_values

_PAIR: Final = re.compile(r"([A-Za-z_]\w{0,99})=(.{0,1000})", re.ASCII | re.DOTALL)
_MOST_VALUES: Final = 200


@hidden_secrets()
def match_sites(
    path: Path, overrides: Overrides | None = None, *, seed: int | None = None, with_probe: bool = True
) -> SiteDecision:
    """Match the candidates of a configuration, and select one, without a run; ``computeSite`` is ``auto`` by default.

    With a probe, a candidate whose workload manager cannot be used now is passed over, as by a submission.

    Raises `ConfigError` if a value is wrong, `UsageError` for a malformed ``--set``.
    """
    now = time.time()
    # A command that only looks at a configuration imports none of its code.
    given = replace(overrides or Overrides(), imports_code=False)
    if seed is not None:
        given = replace(given, sets=(*given.sets, f"siteSelection.select.seed={seed}"))
    layers = read_layers(path, given, now=now)
    if read_fallback(layers) == ALWAYS:
        return SiteDecision(site=LOCAL, at=now, wished=(read_draft(layers, now=now).site,), fallback=ALWAYS_REASON)
    question = ask_for_site(layers, default="auto")
    assert question is not None
    try:
        return match_candidates(layers, question, with_probe=with_probe)
    except CodeRefusedError:
        # What it generates is not known, and so no site can be asked for its run.
        return choose(question, run_id="", now=now)


def change_site_state(name: str, pairs: Sequence[str], site_path: Sequence[str] = ()) -> SiteState:
    """Set values of a site as ``NAME=VALUE``, and return its state; ``NAME=`` removes one. Without pairs, only read.

    Other values stay. Raises `ConfigError` if there is no such site, `UsageError` for a malformed pair.
    """
    require_site(name, site_path)
    changes = dict(_parse(pair) for pair in pairs)
    if not changes:
        return read_site_states([name])[name]
    now = time.time()

    def change(state: SiteState) -> SiteState:
        kept = {key: value for key, value in state.values.items() if key not in changes}
        given = {key: SiteValue(value=value, at=now, by="set") for key, value in changes.items() if value is not None}
        if len(kept | given) > _MOST_VALUES:
            raise UsageError(f"a site has at most {_MOST_VALUES} values")
        return msgspec.structs.replace(state, values=kept | given)

    return set_site_values(name, change)


def _parse(pair: str) -> tuple[str, float | str | None]:
    found = _PAIR.fullmatch(pair)
    if found is None:
        raise UsageError(
            f"'{pair}' is no value of a site", hint="Write NAME=VALUE, such as nodes_free=12, or NAME= to remove it."
        )
    name, text = found[1], found[2].strip()
    if not text:
        return name, None
    try:
        number = float(text)
    except ValueError:
        return name, text
    if not math.isfinite(number):
        raise UsageError(f"'{name}' must be a finite number or a text, not '{text}'")
    return name, number
