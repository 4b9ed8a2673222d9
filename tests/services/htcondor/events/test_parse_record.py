"""Bodies of records with values that no job has: these are not known, and all else is."""

from __future__ import annotations

import pytest

from longshore.model.states import Cause
from longshore.services.htcondor.events.log_records import parse_hold, parse_memory, parse_termination

USAGE = b"""Job terminated.
\t(1) Normal termination (return value 0)
\tPartitionable Resources :    Usage  Request Allocated
\t   Cpus                 :     0.50        1         1
\t   Memory (MB)          :   %s      100       128
\t   TimeExecute (s)      :       20
"""


@pytest.mark.parametrize("usage", [b"nan", b"inf", b"1e400", b"9" * 400, b"x"])
def test_usage_that_is_no_amount_is_not_known(usage: bytes) -> None:
    end = parse_termination(USAGE % usage)
    assert end.exit == 0
    assert end.rss_b is None
    assert parse_termination(USAGE % b"7").rss_b == 7 * 1024**2


def test_numbers_of_thousands_of_digits_are_not_known() -> None:
    digits = b"9" * 5000
    assert parse_memory(b"\n\tMemory = " + digits) is None
    end = parse_termination(b"Job terminated.\n\t(1) Normal termination (return value %s)" % digits)
    assert (end.exit, end.cause) == (None, Cause.LOST)
    assert parse_hold(b"Job was held.\n\tbecause\n\tCode %s Subcode 0" % digits).code == 0
