"""Makes the reference page of site profiles from their table of keys."""

from __future__ import annotations

from pathlib import Path

from tests.generate.keys import entries, index

from longshore.config.site_keys import TABLE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "site-profiles.md"

_HEAD = """# Site profiles

<!-- Made by `python -m tests.generate` from the table of keys; do not edit. -->

The keys of a site's profile. A profile can also have any [key of a configuration](configuration.md), as a default for
its jobs. [How to describe a site](../how-to/describe-a-site.md) shows profiles in use. A section `site.NAME` of a
configuration can have each of these keys. The root of a configuration can have `limits` and the keys below it on this
page, for all sites. The keys under `slurm` are in [Slurm](slurm.md), those under `lsf` in [LSF](lsf.md), those under
`sge` in [Grid Engine](sge.md), and those under `htcondor` in [HTCondor](htcondor.md).
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([_HEAD, index(TABLE.rows) + "\n", "## Keys\n", *entries(TABLE.rows)]).rstrip() + "\n"
