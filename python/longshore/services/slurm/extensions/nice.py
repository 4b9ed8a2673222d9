"""Slurm nice values from jobs' start times, so that runs share one order.

The formula, and the two parameters of the cluster that it takes, are those of open-lmake's page on back ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from longshore.batch.jobs import ClusterFacts
from longshore.batch.scripts.job_spec import JobSpec
from longshore.contract.batch import Urgency
from longshore.model.values import YamlValue

ORIGIN: Final = "2023-01-01 00:00:00"
"""Default local time from which values are counted."""
MOST: Final = (1 << 31) - 2
"""Largest value that ``sbatch --nice`` takes without loss (sbatch(1): +/- 2147483645, less the sign of two)."""

_MOMENT: Final = re.compile(r"(\d{4})-(\d\d?)-(\d\d?) (\d\d?):(\d\d)(?::(\d\d))?(?: *([+-])(\d\d?):?(\d\d))?")


class NiceScale(msgspec.Struct, frozen=True, kw_only=True):
    """Conversion of times to nice values.

    `origin` is the time of the value 0, in seconds since the epoch; `factor` the increase per second.
    """

    origin: float
    factor: float = 1.0

    def nice(self, eta: float, pressure_s: float) -> int:
        """Return the nice value of a job: larger pressure gives a smaller value and an earlier start.

        `eta` is the expected end of the run, in seconds since the epoch. `pressure_s` is the work on the longest path
        from the job to the run's end, its own included, in seconds.
        """
        value = (eta - pressure_s - self.origin) * self.factor
        # A time before the origin, from a wrong estimate of the run's end, counts as most urgent.
        return int(min(max(math.floor(value), 0), MOST)) if math.isfinite(value) else MOST


def nice_value(own: Mapping[str, YamlValue], urgency: Urgency | None, facts: ClusterFacts | None) -> int | None:
    """Return the nice value for an urgency; ``None`` where one is given to all jobs, or without ``use_nice``."""
    if urgency is None or "nice" in own or not own.get("use_nice"):
        return None
    return scale(own, facts.priority_parameters if facts else "").nice(urgency.end_at, urgency.pressure_s)


def with_nice(job: JobSpec) -> JobSpec:
    """Return a job with the nice value of its urgency, if it has one."""
    value = nice_value(job.own, job.batch.urgency, job.facts)
    return job if value is None else msgspec.structs.replace(job, own={**job.own, "nice": value})


def scale(site: Mapping[str, object], priority_parameters: str = "") -> NiceScale:
    """Make a site's scale from its own map, else the cluster's ``PriorityParameters``, else the defaults.

    Raises `ValueError` when a time or a factor is malformed.
    """
    of_cluster = dict(_pairs(priority_parameters))
    origin = site.get("time_origin", of_cluster.get("time_origin", ORIGIN))
    factor = site.get("nice_factor", of_cluster.get("nice_factor", 1.0))
    try:
        number = float(str(factor))
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"'nice_factor' must be a number above 0, not '{factor}'")
    return NiceScale(origin=_moment(str(origin)), factor=number)


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = (word.partition("=") for word in text.split(","))
    return [(name.strip().lower(), value.strip()) for name, equals, value in pairs if equals]


def _moment(text: str) -> float:
    found = _MOMENT.fullmatch(text.strip())
    if not found:
        raise ValueError(f"'time_origin' must be like '{ORIGIN} +01:00', not '{text}'")
    year, month, day, hour, minute, second, sign, ahead, minutes = found.groups()
    try:
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))  # noqa: DTZ001
        if sign is None:
            return local.timestamp()
        offset = (int(ahead) * 60 + int(minutes)) * 60
        return local.replace(tzinfo=UTC).timestamp() - (offset if sign == "+" else -offset)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"'time_origin' is no moment: '{text}': {error}") from error
