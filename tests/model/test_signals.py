"""Names and numbers of signals."""

from __future__ import annotations

import signal

from longshore.model.wording import signal_name, signal_names, signal_number


def test_a_signal_has_its_name_or_its_number() -> None:
    assert signal_name(signal.SIGSEGV) == "SIGSEGV"
    assert signal_name(40) == "signal 40"


def test_a_signal_is_found_by_its_name_and_by_its_number() -> None:
    assert [signal_number(name) for name in ("TERM", "SIGTERM", "int", "10", "64")] == [15, 15, 2, 10, 64]
    assert [signal_number(name) for name in ("", "0", "65", "-1", "NOPE", "True", "SIG", "9" * 5000)] == [None] * 8
    assert all(signal_number(name) for name in signal_names())
