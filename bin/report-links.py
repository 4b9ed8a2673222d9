"""Prints the dead links that Sphinx's ``linkcheck`` found, and those that no site answered for; needs no package.

Usage: python bin/report-links.py OUTPUT.JSON. Exit status: 0 if every link leads somewhere, 1 if one leads nowhere,
and 3 if sites did not answer, so that their links are unknown.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

DEAD = re.compile(r"\d{3} Client Error|Anchor '.*' not found")
"""What the site of a link says of it; without a word of the site, nothing is known."""


def report(records: list[dict[str, str]]) -> tuple[list[str], int]:
    """Return lines on the links that failed, and the exit status."""
    asked = [each for each in records if each["uri"].startswith("http")]
    failed = [each for each in asked if each["status"] in {"broken", "timeout"}]
    dead = [each for each in failed if DEAD.match(each["info"])]
    unknown = [each for each in failed if not DEAD.match(each["info"])]
    lines = [f"{each['filename']}:{each['lineno']}: dead: {each['uri']}: {each['info']}" for each in dead]
    lines += [f"{each['filename']}:{each['lineno']}: not known: {each['uri']}" for each in unknown]
    if dead:
        lines.append(f"links to other sites that lead nowhere: {len(dead)} of {len(asked)}")
    if unknown:
        sites = ", ".join(sorted({each["uri"].split("/")[2] for each in unknown}))
        why = "no site answers: is there a network?" if len(unknown) == len(asked) else f"no answer of {sites}"
        lines.append(f"links to other sites that are not known: {len(unknown)} of {len(asked)}; {why}")
    if not failed:
        lines.append(f"all links to other sites lead somewhere: {len(asked)}")
    return lines, 1 if dead else 3 if unknown else 0


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text("utf-8")
    shown, status = report([json.loads(line) for line in text.splitlines()])
    print(*shown, sep="\n")
    sys.exit(status)
