"""The keys about trying again, success and limits: what they mean, and what is said when they are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from tests.config.findings import findings_of
from tests.config.profiles import profile_of

from longshore.config.retries import parse_memory_grace, parse_signals
from longshore.errors import ConfigError
from longshore.model.workflow import (
    MIB,
    Backoff,
    JobRules,
    KeepPolicy,
    LimitRules,
    LogValue,
    OutputCheck,
    RequestGrowth,
    RetryOn,
    SuccessIf,
)


def rules_of(text: str, **options: Any) -> JobRules:
    return profile_of(text, **options).settings.rules


def test_nothing_said() -> None:
    assert rules_of("{}") == JobRules(bounds=LimitRules(memory=True, grace_share=0.1), check_outputs=OutputCheck.EXISTS)


def test_everything_said() -> None:
    rules = rules_of(
        """
        retryOn: {exit: [75, 2], signal: [SIGBUS, usr1, 10], log: 'lost|reset', only: true, operator: true}
        retryOnPreempted: 3
        retryDelay: 2
        retryDelayMax: 1:30
        memoryGrowth: usage
        memoryLimit: 4 GiB
        walltimeMultiplier: 1.5
        requestWalltimeMax: 6:00:00
        enforceMemory: all
        memoryGrace: 100
        maxLogSize: 1 GiB
        keepTmp: failed
        keepLogs: failed
        checkOutputs: fresh
        """
    )
    assert rules == JobRules(
        retry_on=RetryOn(exit=(75, 2), signal=(7, 10, 10), log="lost|reset", only=True, operator=True),
        retries_on_match=2,
        retries_on_preempted=3,
        growth=RequestGrowth(of_usage=True, memory_limit_b=4096 * MIB, walltime=1.5, walltime_most_s=21600.0),
        backoff=Backoff(first_s=2.0, most_s=5400.0),
        bounds=LimitRules(
            memory=True, grace_b=100 * MIB, log_b=1024 * MIB, tmp=KeepPolicy.FAILED, logs=KeepPolicy.FAILED
        ),
        check_outputs=OutputCheck.FRESH,
    )


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        (
            "{keepTmp: true, keepLogs: all, maxLogSize: 0}",
            LimitRules(memory=True, grace_share=0.1, log_b=0, tmp=KeepPolicy.ALL),
        ),
        ("{keepTmp: false, memoryGrace: 0%, enforceMemory: none}", LimitRules()),
        ("{memoryGrace: 0}", LimitRules(memory=True)),
        ("{memoryGrace: ' 12.5% '}", LimitRules(memory=True, grace_share=0.125)),
    ],
)
def test_bounds(text: str, bounds: LimitRules) -> None:
    assert rules_of(text).bounds == bounds


def test_memory_that_nobody_asked_for_is_not_enforced() -> None:
    defaults = "{requestMemory: 2048}"
    assert not rules_of("{}", defaults=defaults).bounds.memory
    assert rules_of("requestMemory: 2048", defaults=defaults).bounds.memory
    assert rules_of("pipetask: {isr: {requestMemory: 1}}", defaults=defaults).bounds.memory
    assert rules_of("enforceMemory: all", defaults=defaults).bounds.memory
    assert not rules_of("{enforceMemory: none, requestMemory: 1}", defaults=defaults).bounds.memory


def test_success() -> None:
    rules = rules_of(
        """
        out: results
        pipetask:
          isr:
            successIf:
              exit: [0, 3]
              log: '^all {{3}} done$'
              file: '{out}/{visit:05d}_{{x}}_{label}'
              walltime: [null, 1h]
              value: {regex: 'chi2=(\\S+)', min: -1, max: 2.5}
              state: [succeeded, OOM]
        """,
        free="visit label",
    )
    assert rules.success_if == SuccessIf(
        exit=(0, 3),
        log="^all {{3}} done$",
        file="results/{visit:05d}_{{x}}_{label}",
        most_s=3600.0,
        value=LogValue(regex=r"chi2=(\S+)", least=-1.0, most=2.5),
        state=("SUCCEEDED", "OOM"),
    )


def test_states_of_lsf_are_ways_to_end() -> None:
    assert rules_of("successIf: {state: done}").success_if == SuccessIf(state=("SUCCEEDED",))
    several = rules_of("successIf: {state: [TERM_RUNLIMIT, TERM_CPULIMIT, EXIT, TERM_MEMLIMIT]}").success_if
    assert several == SuccessIf(state=("WALLTIME", "EXIT", "OOM"))


def test_states_of_slurm_are_ways_to_end() -> None:
    assert rules_of("successIf: {slurm_job_state_codes: FAILED}").success_if == SuccessIf(state=("EXIT", "SIGNAL"))
    several = rules_of("successIf: {slurm_job_state_codes: [completed, TIMEOUT, OUT_OF_MEMORY]}").success_if
    assert several == SuccessIf(state=("SUCCEEDED", "WALLTIME", "OOM"))


def test_success_in_the_words_of_buildtest() -> None:
    rules = rules_of(
        "status: {returncode: [0, 3], regex: {stream: stdout, exp: done}, runtime: {min: 1, max: 1h},"
        " slurm_job_state_codes: FAILED}"
    )
    assert rules.success_if == SuccessIf(
        exit=(0, 3), log="done", least_s=1.0, most_s=3600.0, state=("EXIT", "SIGNAL"), any_of=True
    )
    assert rules_of("status: {returncode: 3, mode: and}").success_if == SuccessIf(exit=(3,))
    assert rules_of("status: {mode: and, returncode: null}").success_if is None
    assert rules_of("status: draft").success_if is None, "whatever is no map is a variable"


def test_two_answers_to_one_question() -> None:
    with pytest.raises(ConfigError, match="both 'status' and 'successIf'") as caught:
        rules_of("{status: {returncode: 1}, pipetask: {isr: {successIf: {exit: 1}}}}")
    assert "Keep one" in caught.value.hint


@pytest.mark.parametrize("text", ["successIf: null", "successIf: {}", "successIf: {log: null}", "retryOn: {}"])
def test_nothing_in_a_section_is_nothing_said(text: str) -> None:
    rules = rules_of(text)
    assert (rules.success_if, rules.retry_on) == (None, None)


ONE_OF_STATES = "'successIf.state' must be one of SUCCEEDED, EXIT, SIGNAL, OOM, WALLTIME, OUTPUT, "
ONE_OF_STATES += "or LSF's DONE, TERM_MEMLIMIT, TERM_SWAP, TERM_RUNLIMIT, TERM_CPULIMIT, TERM_DEADLINE"
MIN_ABOVE_MAX = "has a 'min' of 3 above its 'max' of 1"
BACKSLASH = "Escape literal special characters by a backslash; single quotes in YAML keep it."

WRONG = {
    "successIf: {exti: 0}": ("1:19", "'successIf' has no 'exti'", "Did you mean 'exit'?"),
    "successIf: {zzz: 0}": (
        "1:18",
        "'successIf' has no 'zzz'",
        "There are 'exit', 'log', 'file', 'walltime', 'state', 'slurm_job_state_codes', 'value'.",
    ),
    "successIf: {slurm_job_state_codes: FAILD}": (
        "1:36",
        "'successIf.slurm_job_state_codes' must be of COMPLETED, FAILED, OUT_OF_MEMORY, TIMEOUT, not 'FAILD'",
        "Did you mean 'FAILED'?",
    ),
    "successIf: {slurm_job_state_codes: FAILED, state: OOM}": (
        "1:12",
        "'successIf' has both 'state' and 'slurm_job_state_codes'",
        "Keep one.",
    ),
    "status: {returncod: 1}": ("1:21", "'status' has no 'returncod' here", "Did you mean 'returncode'?"),
    "status: {mode: xor}": ("1:16", "'status.mode' must be one of or, and; not 'xor'", None),
    "status: {regex: {stream: out, exp: x}}": (
        "1:17",
        "'status.regex.stream' must be stdout or stderr, not 'out'",
        None,
    ),
    "status: {regex: {stream: stdout}}": ("1:17", "'status.regex' needs an 'exp'", None),
    "status: {runtime: 3}": ("1:19", "'status.runtime' must be a map of min and max, not '3'", None),
    "successIf: [0]": ("1:12", "'successIf' must be a map, not '[0]'", None),
    "successIf: {log: 'a(b'}": (
        "1:18",
        "'successIf.log' is not a regular expression: missing ), unterminated subpattern at character 2 of 'a(b'",
        BACKSLASH,
    ),
    "successIf: {value: {min: 1}}": ("1:20", "'successIf.value' needs a 'regex'", ""),
    "successIf: {value: {regex: x, mix: 1}}": (
        "1:36",
        "'successIf.value' has no 'mix'",
        "There are 'regex', 'min', 'max'.",
    ),
    "successIf: {value: {regex: x, min: many}}": ("1:36", "'successIf.value.min' must be a number, not 'many'", ""),
    "successIf: {walltime: 3}": (
        "1:23",
        "'successIf.walltime' must be a list of the least and the most, not '3'",
        "For example 'walltime: [10, 1h]', or 'walltime: [null, 1h]' for no least.",
    ),
    "successIf: {walltime: [9, 3]}": ("1:23", "'successIf.walltime' has a least of 9 s above its most of 3 s", ""),
    "successIf: {exit: [0, 300]}": (
        "1:19",
        "'successIf.exit' must be an exit code from 0 to 255 or a list of such, not '[0, 300]'",
        "",
    ),
    "successIf: {state: PEND}": ("1:20", f"{ONE_OF_STATES}, not 'PEND'", ""),
    "successIf: {state: TERM_MEMLIMT}": (
        "1:20",
        f"{ONE_OF_STATES}, not 'TERM_MEMLIMT'",
        "Did you mean 'TERM_MEMLIMIT'?",
    ),
    "successIf: {state: [walltim]}": ("1:20", f"{ONE_OF_STATES}, not 'walltim'", "Did you mean 'WALLTIME'?"),
    "successIf: {state: []}": ("1:20", "'successIf.state' is empty", "Name at least one, or leave the key out."),
    "successIf: {exit: []}": ("1:19", "'successIf.exit' is empty", "Name at least one, or leave the key out."),
    "retryOn: {signal: []}": ("1:19", "'retryOn.signal' is empty", "Name at least one, or leave the key out."),
    "successIf: {value: {regex: x, min: 3, max: 1}}": ("1:20", f"'successIf.value' {MIN_ABOVE_MAX}", ""),
    "successIf: {file: [a]}": ("1:19", "'successIf.file' must be the path of a file, not '['a']'", ""),
    "retryOn: {signal: [KIL]}": ("1:19", "'retryOn.signal' must name signals, not 'KIL'", "Did you mean 'KILL'?"),
    "retryOn: {operator: maybe}": ("1:21", "'retryOn.operator' must be true or false, not 'maybe'", ""),
    "retryOn: {only: maybe}": ("1:17", "'retryOn.only' must be true or false, not 'maybe'", ""),
    "retryOn: {log: '*'}": (
        "1:16",
        "'retryOn.log' is not a regular expression: nothing to repeat at character 1 of '*'",
        BACKSLASH,
    ),
    f"retryOn: {{log: '{'()' * 101}'}}": (
        "1:16",
        f"'retryOn.log' '{'()' * 28}(...' cannot be used: it has 101 opening parentheses, and at most 100 are allowed",
        "Use a shorter or simpler regular expression.",
    ),
    "memoryGrace: much": ("1:14", "'memoryGrace' must be an amount of memory or disk, not 'much'", None),
    "memoryGrace: '-5%'": ("1:14", "'memoryGrace' must be 0% or more, not '-5%'", ""),
    "walltimeMultiplier: fast": ("1:21", "'walltimeMultiplier' must be a number, not 'fast'", ""),
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=WRONG.keys())
def test_what_is_wrong_is_said_with_its_place_by_lint_and_when_it_is_used(
    text: str, said: tuple[str, str, str | None]
) -> None:
    place, message, hint = said
    with pytest.raises(ConfigError) as caught:
        profile_of(text)
    assert caught.value.message == message
    found = [each for each in findings_of(text) if each.message == message]
    assert len(found) == 1, [str(each) for each in findings_of(text)]
    for origin in (caught.value.origin, found[0].origin):
        assert origin
        assert f"{origin.line}:{origin.column}" == place
    assert hint is None or (caught.value.hint, found[0].hint) == (hint, hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keepTmp: sometimes", "'keepTmp' cannot be 'sometimes'"),
        ("keepLogs: none", "'keepLogs' must be one of all, failed, not 'none'"),
        ("memoryGrowth: used", "'memoryGrowth' must be one of request, usage, not 'used'"),
        ("enforceMemory: some", "'enforceMemory' must be one of written, all, none, not 'some'"),
        ("killSignals: [TREM]", "'killSignals' must name signals, not 'TREM'"),
        ("maxFastFailures: -1", "'maxFastFailures' must be at least 0, not '-1'"),
        ("retryDelay: soon", "'retryDelay' must be a time span, not 'soon'"),
        ("pipetask: {isr: {retryOn: {exit: x}}}", "'pipetask.isr.retryOn.exit' must be an exit code"),
        ("{requestWalltimeMax: 5, requestWalltime: 6}", "'requestWalltimeMax' is less than 'requestWalltime'"),
    ],
)
def test_lint_says_it_once(text: str, message: str) -> None:
    assert len([each for each in findings_of(text) if each.message.startswith(message)]) == 1, findings_of(text)


def test_what_is_right_is_passed_over() -> None:
    success = "successIf: {value: {regex: '(.*)'}, file: '{visit}'}"
    right = f"retryOn: {{exit: 2, log: 'a{{2,3}}'}}\n{success}\nkillSignals: [INT, 15]"
    assert [each for each in findings_of(right) if each.severity == "error"] == []


def test_signals_and_grace() -> None:
    assert parse_signals(["SIGTERM", "int", 12], "k") == (15, 2, 12)
    assert parse_signals("TERM", "k") == (15,)
    assert parse_memory_grace("5%", "k") == (0.05, 0)
    assert parse_memory_grace("1 GiB", "k") == (0.0, 1024 * MIB)
    with pytest.raises(ConfigError):
        parse_signals([True], "k")
    with pytest.raises(ConfigError):
        parse_signals([65], "k")


def test_a_rule_is_the_same_for_all_jobs_of_a_label() -> None:
    with pytest.raises(ConfigError, match="'maxLogSize' must be the same for all jobs of a label"):
        profile_of("maxLogSize: '{visit}'", free="visit")


@pytest.mark.parametrize(
    ("text", "match", "memory", "time", "lost", "preempted", "transfer"),
    [
        ("retryOn: {exit: [75]}", 2, None, None, None, 20, 3),
        ("retryOn: {exit: [75]}\nnumberOfRetries: 4", None, None, None, None, 20, 3),
        ("numberOfRetries: 1\nretryOnMemory: 5\nretryOnTime: 2", None, 5, 2, None, 20, 3),
        ("numberOfRetries: 0", None, None, None, 0, 0, 0),
        ("numberOfRetries: 0\nretryOn: {exit: [75]}\nretryOnMemory: 3\nretryOnLost: 1", None, 3, None, 1, 0, 0),
    ],
)
def test_each_cause_has_a_budget_and_a_written_zero_is_none_of_all(
    text: str, match: int | None, memory: int | None, time: int | None, lost: int | None, preempted: int, transfer: int
) -> None:
    rules = rules_of(text)
    assert (rules.retries_on_match, rules.retries_on_memory, rules.retries_on_time) == (match, memory, time)
    assert (rules.retries_on_lost, rules.retries_on_preempted, rules.retries_on_transfer) == (lost, preempted, transfer)
