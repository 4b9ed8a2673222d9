"""Makes the reference page of the configuration from the tables of keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.generate.keys import entries, index

from longshore.config import core_keys, graph_keys

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "configuration.md"

_HEAD = """# Configuration keys

<!-- Made by `python -m tests.generate` from the tables of keys; do not edit. -->

Every key that Longshore reads. Any other key is a variable of yours. `{name}` and `${NAME}` in a value are replaced;
see [your own commands](../how-to/run-your-own-commands.md). A key of a job, which may stand in every section, is
searched in this sequence: the command line, `payload`, `cluster.LABEL`, `pipetask.LABEL`, `site.NAME`, `cloud.NAME`,
and the root. `NAME` is any name. For editors, `longshore config schema` prints the same.

The keys of a [site's profile](site-profiles.md), of [HTCondor](htcondor.md), [Slurm](slurm.md),
[Grid Engine](sge.md) and [LSF](lsf.md) have pages of their own.
"""


def page() -> str:
    """The text of the page."""
    rows = (*core_keys.TABLE.rows, *graph_keys.TABLE.rows)
    return "\n".join([_HEAD, index(rows) + "\n", *_groups()]).rstrip() + "\n"


def _groups() -> Iterator[str]:
    for table, words in ((core_keys.TABLE, ""), (graph_keys.TABLE, "Quantum graphs: ")):
        for heading, rows in table.groups.items():
            title = f"{words}{heading}"
            yield f"## {title[:1].upper()}{title[1:]}\n"
            yield from entries(rows)
