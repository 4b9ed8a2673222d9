"""Ping of a cluster: can runs of a site be submitted, and which status sources work; submits nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

import msgspec

from longshore.batch.cluster_names import ConfiguredNames, Qos, configured_names
from longshore.batch.commands.client import BatchClient
from longshore.batch.dialect import Dialect, ProgramCall, Question
from longshore.batch.jobs import ClusterFacts, TaskId
from longshore.batch.ping.check_names import account_errors, describe_limits, describe_partitions, partition_errors
from longshore.batch.script_writer import job_spec
from longshore.contract.batch import Batch
from longshore.contract.context import PingReport, Unreachable
from longshore.errors import ConfigError
from longshore.model.workflow.request import Request
from longshore.world.host import user_name
from longshore.world.processes.shell import ProgramResult

_Answer = TypeVar("_Answer")
PING_LIMIT_S: Final = 30.0
"""Time limit of all queries together, in seconds."""
_QUERY_S: Final = 10.0
_QUERIES_AT_ONCE: Final = 4
_NO_JOB: Final = "longshore-ping"
"""Name of no job: accounting is asked whether it answers."""

MISSING_INFORMATION: Final = {
    "queue": "the state of waiting jobs is unknown, and jobs without an end record are lost",
    "accounting": "peak memory and CPU time are unknown, and so is the end of a job without a record that the workload "
    "manager has forgotten",
    "controller": "the end of a job without a record is known only from accounting",
    "history": "the end of a job without a record that the workload manager has forgotten is unknown",
}
"""The information that is missing when a source does not work."""


class _TimedQuery:
    """Runs queries within the time limit, those that were begun side by side."""

    def __init__(self, client: BatchClient, clock: Callable[[], float], pool: Executor) -> None:
        self._client = client
        self._clock = clock
        self._until = clock() + PING_LIMIT_S
        self._pool = pool
        self._begun: dict[ProgramCall, Future[ProgramResult]] = {}

    def begin(self, calls: Iterable[ProgramCall]) -> None:
        """Begin calls whose answers are wanted later."""
        self._begun |= {call: self._pool.submit(self._ask, call) for call in calls}

    def __call__(self, call: ProgramCall) -> ProgramResult:
        begun = self._begun.get(call)
        return begun.result() if begun else self._ask(call)

    def _ask(self, call: ProgramCall) -> ProgramResult:
        left = self._until - self._clock()
        if left <= 0:
            return ProgramResult(argv=call.argv, status=None, err=f"not asked: {PING_LIMIT_S:.0f} s are over")
        return self._client.ask(msgspec.structs.replace(call, timeout_s=min(left, _QUERY_S)))

    def answer(self, question: Question[_Answer]) -> tuple[_Answer | None, str]:
        """Return the parsed answer; ``None`` without one, and why."""
        found = self(question.call)
        return (question.parse(found.out), "") if found.ok else (None, found.why)


def ping(
    client: BatchClient, settings: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
) -> PingReport:
    """Report on the cluster, and on the partitions, account and QOS of a site.

    `settings` are the executor's, with ``queue``, the default destination of jobs.
    """
    with ThreadPoolExecutor(_QUERIES_AT_ONCE) as pool:
        return _ping(client.dialect, _TimedQuery(client, clock, pool), settings)


def _ping(dialect: Dialect, query: _TimedQuery, settings: Mapping[str, Any]) -> PingReport:
    first, *others = dialect.facts_calls()
    config = query(first)
    if not config.ok:
        return PingReport(service=dialect.name, ok=False, message=f"the controller does not answer: {config.why}")
    facts = dialect.parse_facts([config.out, *("" for _ in others)])
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    query.begin(_calls_without_order(dialect, facts, since))
    names = configured_names(dialect.name, settings, _asked_partitions(dialect, settings))
    details = {"version": facts.version, "cluster": facts.name}
    if (question := dialect.version_question()) is not None:
        details["version"] = _describe_version(facts.version, *query.answer(question))
    errors = [
        *_check_partitions(query, dialect, names, details),
        *_check_account(query, dialect, names, facts, details),
    ]
    details |= _check_sources(query, dialect, facts, since)
    sizes = dialect.capacity_question()
    return PingReport(
        service=dialect.name,
        ok=not errors,
        message="; ".join(errors) or "the controller answers",
        details={key: value for key, value in details.items() if value},
        capacity=query.answer(sizes)[0] if sizes else None,
    )


def _calls_without_order(dialect: Dialect, facts: ClusterFacts, since: str) -> Iterator[ProgramCall]:
    """Return the calls that need no answer of another, the slowest first."""
    if facts.accounting:
        for accounts in (dialect.accounts_question(user_name(), facts), dialect.qos_question()):
            if accounts is not None:
                yield accounts.call
        accounting = dialect.accounting_by_name_call(_NO_JOB, since=since, user=user_name())
        if accounting is not None:
            yield accounting
    for question in (dialect.version_question(), dialect.partitions_question(), dialect.capacity_question()):
        if question is not None:
            yield question.call
    yield dialect.queue_call(user_name())


def _asked_partitions(dialect: Dialect, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the partitions of a job that has no settings but the site's, raw options included."""
    batch = Batch(id="0", tag="longshore-0", request=Request(), members=())
    try:
        return dialect.allocations(job_spec(dialect, batch, settings))[0].partitions
    except ConfigError:
        # `check` tells what is wrong with it.
        return ()


def _describe_version(controller: str, programs: str | None, why: str) -> str:
    """Return the version of the controller, and that of the local programs when it differs."""
    if not programs:
        return f"{controller}, of the programs here unknown: {why}"
    return controller if programs == controller else f"{controller}, of the programs here {programs}"


def _check_partitions(
    query: _TimedQuery, dialect: Dialect, names: ConfiguredNames, details: dict[str, str]
) -> Iterator[str]:
    """Find errors in the site's partitions."""
    if (question := dialect.partitions_question()) is None:
        return
    states, why = query.answer(question)
    details["partitions"] = f"unknown: {why}" if states is None else describe_partitions(states.values())
    if states is not None:
        yield from partition_errors(names, states)


def _check_account(
    query: _TimedQuery, dialect: Dialect, names: ConfiguredNames, facts: ClusterFacts, details: dict[str, str]
) -> list[str]:
    """Find errors in the site's account and QOS, if the cluster keeps accounts."""
    accounts = dialect.accounts_question(user_name(), facts) if facts.accounting else None
    if accounts is None:
        named = [f"account '{names.account}'"] if names.account else []
        named += [f"QOS '{name}'" for name in names.qos]
        unchecked = f"; {' and '.join(named)} cannot be checked" if named else ""
        none = (
            f"{dialect.title} does not list those that a user may charge"
            if facts.accounting
            else "this cluster keeps none"
        )
        details["accounts"] = f"{none}{unchecked}"
        details["limits"] = describe_limits(facts, names, (), {})
        return []
    associations, no_accounts = query.answer(accounts)
    details["accounts"] = (
        f"unknown: {no_accounts}" if no_accounts else _list({each.account for each in associations or ()})
    )
    qualities: Mapping[str, Qos] | None = None
    if (question := dialect.qos_question()) is not None:
        qualities, no_qos = query.answer(question)
        details["qos"] = f"unknown: {no_qos}" if no_qos else _list(qualities or ())
    details["limits"] = describe_limits(facts, names, associations or (), qualities or {})
    # A missing answer proves no error.
    return [] if associations is None else list(account_errors(names, associations, qualities or {}))


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _check_sources(query: _TimedQuery, dialect: Dialect, facts: ClusterFacts, since: str) -> dict[str, str]:
    """Find out which status sources work here, in order of precedence."""
    programs = dialect.programs
    found = {
        "records": "left by each job in the run directory, which its nodes must see",
        programs.queue: _describe_source("queue", query(dialect.queue_call(user_name()))),
    }
    call = dialect.accounting_by_name_call(_NO_JOB, since=since, user=user_name())
    if call is not None:
        none = ProgramResult(argv=call.argv, status=1, err="this cluster keeps no accounts")
        answer = query(call) if facts.accounting else none
        found[programs.accounting] = _describe_source("accounting", answer)
    shown = dialect.show_call(TaskId(1))
    if shown is not None and (program := PurePosixPath(shown.argv[0]).name) not in found:
        age = facts.min_job_age_s
        found[program] = f"remembers jobs that are over for {age:.0f} s" if age else "works"
    while shown is not None and (shown := shown.otherwise) is not None:
        program, answer = PurePosixPath(shown.argv[0]).name, query(msgspec.structs.replace(shown, otherwise=None))
        if program not in found:
            is_answer = not isinstance(dialect.parse_shown(TaskId(1), answer), Unreachable)
            found[program] = "works" if is_answer else _describe_failure("history", answer)
    return found


def _describe_source(role: str, answer: ProgramResult) -> str:
    return "works" if answer.ok else _describe_failure(role, answer)


def _describe_failure(role: str, answer: ProgramResult) -> str:
    return f"does not work ({answer.why}): {MISSING_INFORMATION[role]}"
