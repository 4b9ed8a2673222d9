"""Programs of a batch system of which half of all calls fail."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.live.runs import DialectSite

_SCRIPT = """#!/bin/sh
# Half of the calls fail once there is a switch, as the lines of a file say: before the program does its work, or after.
number=$(echo x >>"{folder}/{name}.numbers" && wc -l <"{folder}/{name}.numbers")
fate=$(sed -n "$((number % 200 + 1))p" "{folder}/{name}.fates")
[ -e "{folder}/switch" ] || fate=well
case $fate in
well) exec "{real}" "$@" ;;
lost) "{real}" "$@" >/dev/null 2>&1 ;;
esac
echo "{name} $fate" >>"{folder}/failures"
echo "{silence}" >&2
exit 1
"""


def failing_programs(site: DialectSite, folder: Path, seed: int) -> dict[str, str]:
    """Have half of all calls fail, in a sequence by the seed; return the environment for that."""
    bin_, chance = folder / "bin", random.Random(seed)
    bin_.mkdir()
    for name in site.program_names:
        fates = (chance.choice(["well", "well", "refused", "lost"]) for _ in range(200))
        (folder / f"{name}.fates").write_text("\n".join(fates) + "\n", "utf-8")
        real = shutil.which(name, path=site.search_path)
        text = _SCRIPT.format(folder=folder, name=name, real=real, silence=site.silence)
        (bin_ / name).write_text(text, "utf-8")
        (bin_ / name).chmod(0o755)
    return site.use_programs(bin_)
