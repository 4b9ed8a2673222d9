"""What Grid Engine knows of its load, for the choice of a site."""

from __future__ import annotations


def parse_load(text: str) -> dict[str, float]:
    """Return slots in all and free, from ``qstat -g c``, whose columns have names."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("-")]
    if not lines:
        return {}
    # The name of the first column has a blank.
    names = lines[0].replace("CLUSTER QUEUE", "QUEUE").split()
    if not {"AVAIL", "TOTAL"} <= set(names):
        return {}
    rows = [line.split() for line in lines[1:]]
    whole = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
    free, total = (sum(int(row[name]) for row in whole if row[name].isdecimal()) for name in ("AVAIL", "TOTAL"))
    return {"cpus_free": float(free), "cpus_total": float(total)} if total else {}
