"""A user's site on a cluster of LSF's stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.live.runs import LiveSite
from tests.services.lsf import lsf_programs


@dataclass(frozen=True, kw_only=True)
class LsfSite(LiveSite):
    """A user's site.

    Attributes
    ----------
    programs
        Folder of the programs.
    profile
        The site's profile.
    """

    head = "computeSite: cluster\n"

    programs: Path
    profile: Path

    def describe(self, text: str = "", lsf: str = "") -> None:
        """Write the profile with more keys of the site and of its map ``lsf``."""
        own = [f'envdir: "{self.programs.parent / "conf"}"', "pollInterval: 0.3", *lsf.splitlines()]
        keys = "".join(f"  {line}\n" for line in own)
        self.profile.parent.mkdir(parents=True, exist_ok=True)
        self.profile.write_text(f"title: A cluster\nservice: lsf\n{text}lsf:\n{keys}", "utf-8")

    def log(self) -> Iterator[str]:
        """Return the scripts that LSF has, oldest first."""
        for path in sorted((self.programs.parent / "conf").glob("*.sh")):
            yield path.read_text("utf-8")


def make_programs(folder: Path) -> Path:
    """Make LSF's programs in a folder; return the folder to put into PATH."""
    return lsf_programs.install(folder)
