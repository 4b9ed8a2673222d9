"""Time limits of Slurm, as in ``--time`` and in its tables (pure functions)."""

from __future__ import annotations

from longshore.batch.values import parse_duration


def parse_time_limit(text: str | None) -> float | None:
    """Parse a time limit (sbatch(1): --time) to seconds; ``None`` for none."""
    days, dash, rest = (text or "").strip().rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() and len(part) < 10 for part in ([days] if dash else []) + parts) or len(parts) > 3:
        return None
    if not dash:
        return float(parts[0]) * 60 if len(parts) == 1 else parse_duration(rest)
    hours, minutes, seconds = (float(part) for part in (*parts, "0", "0")[:3])
    return ((float(days) * 24 + hours) * 60 + minutes) * 60 + seconds
