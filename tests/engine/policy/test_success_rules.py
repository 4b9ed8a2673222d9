"""What a success must be like, each predicate and its edge."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.policy.success_rules import AttemptOutputs, Which, apply_success_rules, may_succeed, needs_log
from longshore.model.event import Ended
from longshore.model.states import Cause
from longshore.model.values import compile_regex
from longshore.model.workflow import LogValue, RetryOn, SuccessIf
from longshore.system.regex_search import find_match


def search(regex: str, log: str, which: Which) -> re.Match[str] | None:
    return find_match(compile_regex(regex, multiline=True), log, seconds=60.0, is_last=which == "last")


outputs = partial(AttemptOutputs, search=search)

LOG = "start\nresidual = 3.5\nresidual = 0.25\nall done\n"
WELL: dict[str, Any] = {"exit": 0}
EXIT_3: dict[str, Any] = {"exit": 3, "cause": Cause.EXIT}
KILLED: dict[str, Any] = {"signal": 9, "cause": Cause.SIGNAL, "reason": "killed by SIGKILL"}
OOM: dict[str, Any] = {"signal": 9, "cause": Cause.OOM}

# How it ended, what a success is, and what is not met; None is a success.
ROWS: dict[str, tuple[dict[str, Any], SuccessIf, str | None]] = {
    "any of it: the exit code": (EXIT_3, SuccessIf(exit=(3,), log="never", any_of=True), None),
    "any of it: the log": (EXIT_3, SuccessIf(exit=(4,), log="all done", any_of=True), None),
    "any of it: how it ended": (EXIT_3, SuccessIf(exit=(4,), state=("EXIT", "SIGNAL"), any_of=True), None),
    "any of it: one bound is not enough": (
        WELL | {"run_s": 9.0},
        SuccessIf(least_s=1.0, most_s=2.5, exit=(1,), any_of=True),
        "exit code 0 is not in successIf.exit [1]; it ran for 9.0 s, and successIf.walltime is at most 2.5 s",
    ),
    "any of it: what is not there is not met": (
        WELL | {"exit": None},
        SuccessIf(exit=(0,), least_s=1.0, any_of=True),
        "it has no exit code, which 'returncode' asks for; its run time is not known, which 'runtime' asks for",
    ),
    "nothing is asked": (WELL, SuccessIf(), None),
    "an exit code that is none of a failure": (EXIT_3, SuccessIf(exit=(0, 3)), None),
    "0 is one too, unless it is not": (
        WELL,
        SuccessIf(exit=(3,)),
        "exit code 0 is not in successIf.exit [3]",
    ),
    "the log": (WELL, SuccessIf(log="^all done$"), None),
    "not the log": (WELL, SuccessIf(log="al1 done"), "its log has nothing that matches successIf.log 'al1 done'"),
    "a file that is not there": (WELL, SuccessIf(file="x_{visit}"), "there is no file 'x_7' (successIf.file)"),
    "long enough": (WELL | {"run_s": 2.0}, SuccessIf(least_s=2.0, most_s=2.0), None),
    "too short": (
        WELL | {"run_s": 1.0},
        SuccessIf(least_s=2.0),
        "it ran for 1.0 s, and successIf.walltime is at least 2 s",
    ),
    "too long": (
        WELL | {"run_s": 9.0},
        SuccessIf(most_s=2.5),
        "it ran for 9.0 s, and successIf.walltime is at most 2.5 s",
    ),
    "the last value counts": (WELL, SuccessIf(value=LogValue(regex=r"residual = (\S+)", most=1.0)), None),
    "too large": (
        WELL,
        SuccessIf(value=LogValue(regex=r"residual = (\S+)", most=0.2)),
        "successIf.value found 0.25, more than 0.2",
    ),
    "too small": (
        WELL,
        SuccessIf(value=LogValue(regex=r"residual = (\S+)", least=0.3)),
        "successIf.value found 0.25, less than 0.3",
    ),
    "no number": (
        WELL,
        SuccessIf(value=LogValue(regex="all (done)")),
        "successIf.value found 'done', which is no number",
    ),
    "no value": (
        WELL,
        SuccessIf(value=LogValue(regex="chi2=(.*)")),
        "its log has nothing that matches successIf.value 'chi2=(.*)'",
    ),
    "a state": (OOM, SuccessIf(state=("OOM",)), None),
    "another state": (WELL, SuccessIf(state=("OOM",)), "it ended as SUCCEEDED, and successIf.state is OOM"),
    "both states": (WELL, SuccessIf(state=("SUCCEEDED", "OOM")), None),
    "a state and the log": (
        OOM,
        SuccessIf(state=("OOM",), log="nothing"),
        "its log has nothing that matches successIf.log 'nothing'",
    ),
    "all that is wrong": (
        WELL,
        SuccessIf(exit=(4,), log="nothing"),
        "exit code 0 is not in successIf.exit [4]; its log has nothing that matches successIf.log 'nothing'",
    ),
}


@pytest.mark.parametrize(("ending", "rules", "unmet"), ROWS.values(), ids=ROWS.keys())
def test_predicates(ending: dict[str, Any], rules: SuccessIf, unmet: str | None) -> None:
    verdict = apply_success_rules(Ended(j=1, a=1, **ending), rules, None, outputs(log=LOG, file="x_7"))
    assert (verdict.cause, verdict.reason) == (None if unmet is None else Cause.PREDICATE, unmet)
    assert verdict.exit == ending.get("exit")


@pytest.mark.parametrize("ending", [KILLED, EXIT_3, OOM])
def test_a_failure_stays_the_failure_it_was(ending: dict[str, Any]) -> None:
    end = Ended(j=1, a=1, **ending)
    assert apply_success_rules(end, SuccessIf(exit=(0, 9), log="done", file="x"), None, outputs(log=LOG)) is end


def test_not_a_number_is_out_of_bounds() -> None:
    rules = SuccessIf(value=LogValue(regex="x=(.*)", least=0.0, most=1.0))
    assert apply_success_rules(Ended(j=1, a=1, exit=0), rules, None, outputs(log="x=nan")).cause is Cause.PREDICATE


def test_words_in_the_log_that_are_worth_another_attempt() -> None:
    on = RetryOn(log="all d.ne")
    end = Ended(j=1, a=1, **EXIT_3)
    assert apply_success_rules(end, None, on, outputs(log=LOG)).matched
    assert not apply_success_rules(end, None, RetryOn(log="no"), outputs(log=LOG)).matched
    assert not apply_success_rules(end, None, RetryOn(exit=(3,)), outputs(log=LOG)).matched
    assert not apply_success_rules(Ended(j=1, a=1, exit=0), None, on, outputs(log=LOG)).matched, (
        "a success is not tried again"
    )
    assert apply_success_rules(Ended(j=1, a=1, exit=0), SuccessIf(file="x"), on, outputs(log=LOG)).matched


def test_the_log_is_read_only_where_it_decides() -> None:
    well, exit_3 = Ended(j=1, a=1, exit=0), Ended(j=1, a=1, **EXIT_3)
    assert needs_log(well, SuccessIf(log="x"), None)
    assert needs_log(well, SuccessIf(value=LogValue(regex="x")), None)
    assert not needs_log(well, SuccessIf(file="x", least_s=1.0), None)
    assert not needs_log(exit_3, SuccessIf(log="x"), None)
    assert needs_log(exit_3, None, RetryOn(log="x"))
    assert not needs_log(exit_3, None, RetryOn(exit=(3,)))
    assert not needs_log(well, None, RetryOn(log="x"))
    assert needs_log(well, SuccessIf(file="x"), RetryOn(log="x"))


@given(st.integers(0, 255), st.lists(st.integers(0, 255), max_size=4), st.floats(0, 1e6))
def test_with_an_exit_list_the_list_alone_decides(code: int, codes: list[int], run_s: float) -> None:
    end = Ended(j=1, a=1, exit=code, cause=Cause.EXIT if code else None, run_s=run_s)
    rules = SuccessIf(exit=tuple(codes))
    assert (apply_success_rules(end, rules, None, outputs()).cause is None) == (code in codes)
    assert may_succeed(end, rules) == (code == 0 or code in codes)


def test_a_failure_of_which_nothing_is_met_stays_what_it_was() -> None:
    end = Ended(j=1, a=1, **KILLED)
    found = apply_success_rules(end, SuccessIf(exit=(0,), any_of=True), None, outputs())
    assert found.cause is Cause.SIGNAL
    assert found.reason == "killed by SIGKILL; it has no exit code, which 'returncode' asks for"


@pytest.mark.parametrize("cause", [Cause.CANCELLED, Cause.LOST, Cause.PREEMPTED])
def test_what_others_ended_is_no_success_whatever_is_met(cause: Cause) -> None:
    end = Ended(j=1, a=1, exit=3, cause=cause)
    assert apply_success_rules(end, SuccessIf(exit=(3,), any_of=True), None, outputs()) == end
