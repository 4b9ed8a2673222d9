"""Ping of a cluster: can it be used from here, what does it have, and which status sources work.

It submits nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

import msgspec

from longshore.config.quantities import format_walltime
from longshore.contract.service import (
    Association,
    Inventory,
    NodeGroup,
    PartitionState,
    PingReport,
    Problem,
    Qos,
    Unreachable,
)
from longshore.model.wording import count_noun
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import Dialect, HostOffer, PartitionLimits, ProgramCall, Question
from longshore.services.batch.jobs import ClusterFacts, TaskId
from longshore.sites.requests import Unmet, expand_hosts
from longshore.system.host import user_name
from longshore.system.programs import ProgramResult


class ConfiguredNames(msgspec.Struct, frozen=True, kw_only=True):
    """Account and QOS in a site's settings."""

    account: str = ""
    qos: tuple[str, ...] = ()


def configured_names(service: str, settings: Mapping[str, Any]) -> ConfiguredNames:
    """Collect the names of account and QOS from all of a site's settings."""
    own: Mapping[str, Any] = settings.get(service) or {}
    qos = [own.get("qos") or settings.get("qos"), *(row.get("qos") for row in settings.get("partitions") or ())]
    return ConfiguredNames(
        account=str(settings.get("account") or ""),
        qos=tuple(dict.fromkeys(str(name) for name in qos if name)),
    )


def describe_partitions(existing: Iterable[PartitionState], nodes: Iterable[NodeGroup] = ()) -> str:
    """List the partitions in a line; `nodes` are those of the cluster, where it says which partition has them."""
    counts: Counter[str] = Counter()
    for group in nodes:
        counts[group.partition] += group.count
    return "; ".join(
        f"{each.name}{' (default)' if each.default else ''}: {', '.join(_describe_partition(each, counts[each.name]))}"
        for each in sorted(existing, key=lambda each: each.name)
    )


def _describe_partition(partition: PartitionState, count: int) -> Iterator[str]:
    yield partition.state.lower()
    if partition.nodes:
        yield f"{partition.nodes} {'node' if partition.nodes == '1' else 'nodes'}"
    elif count:
        yield count_noun(count, "host")
    if partition.slots is not None:
        yield count_noun(partition.slots, "slot")
    if partition.limit:
        yield "any time" if partition.limit == "UNLIMITED" else f"at most {partition.limit}"


def describe_limits(
    facts: ClusterFacts,
    names: ConfiguredNames,
    associations_of_user: Iterable[Association],
    existing: Mapping[str, Qos],
) -> str:
    """List the limits in a line."""
    found = []
    if facts.max_array:
        found.append(f"arrays of {facts.max_array}")
    if facts.max_jobs:
        found.append(f"{count_noun(facts.max_jobs, 'job')} of all users")
    if facts.max_user_jobs:
        found.append(f"{count_noun(facts.max_user_jobs, 'job')} of each user")
    for each in associations_of_user:
        found += _describe_limit(f"account '{each.account}'", each.max_jobs, each.max_submitted, each.max_time)
    for name in names.qos or existing:
        if qos := existing.get(name):
            found += _describe_limit(f"QOS '{name}'", qos.max_jobs, qos.max_submitted, qos.max_time)
    return "; ".join(found) or "none found"


def _describe_limit(subject: str, jobs: str, submitted: str, time: str) -> list[str]:
    limits = [
        words
        for value, words in (
            (jobs, f"{jobs} running"),
            (submitted, f"{submitted} submitted"),
            (time, f"{time} long"),
        )
        if value
    ]
    return [f"{subject}: at most {', '.join(limits)}"] if limits else []


_Answer = TypeVar("_Answer")
PING_LIMIT_S: Final = 30.0
"""Time limit of all queries together, in seconds."""
_QUERY_S: Final = 10.0
_QUERIES_AT_ONCE: Final = 4
PILOT_NODES: Final = "pilot.nodes"
"""Key of problems with pilots on several nodes."""
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
        self._begun |= {call: self._pool.submit(self._ask, call) for call in calls if call not in self._begun}

    def __call__(self, call: ProgramCall) -> ProgramResult:
        if call not in self._begun:
            self.begin([call])
        return self._begun[call].result()

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
    client: BatchClient,
    settings: Mapping[str, Any],
    pilot_questions: Sequence[Question[tuple[Unmet, ...]]] = (),
    *,
    clock: Callable[[], float] = time.monotonic,
) -> PingReport:
    """Report what the cluster has, and which status sources work; jobs are judged by it (`check.find_unmet_jobs`).

    `settings` are the executor's. `pilot_questions` ask what the cluster does not have for the pilots of the site.
    """
    with ThreadPoolExecutor(_QUERIES_AT_ONCE) as pool:
        return _ping(client.dialect, _TimedQuery(client, clock, pool), settings, pilot_questions)


def _ping(
    dialect: Dialect,
    query: _TimedQuery,
    settings: Mapping[str, Any],
    pilot_questions: Sequence[Question[tuple[Unmet, ...]]],
) -> PingReport:
    if obstacle := dialect.obstacle():
        return _unusable(dialect, obstacle)
    first, *others = dialect.facts_calls()
    config = query(first)
    if not config.ok and not _is_queue_answered(query, dialect, config):
        who = "its programs are not on this host" if config.is_missing else "the controller does not answer"
        return _unusable(dialect, f"{who}: {config.why}")
    query.begin(others)
    answers = [query(call) for call in others]
    facts = dialect.parse_facts([answer.out if answer.ok else "" for answer in (config, *answers)])
    if not config.ok:
        # Whether there is accounting, its own programs tell.
        facts = msgspec.structs.replace(facts, accounting=True)
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    query.begin(_calls_without_order(dialect, facts, since))
    query.begin(question.call for question in pilot_questions)
    names = configured_names(dialect.name, settings)
    details = {"version": facts.version, "cluster": facts.name}
    if (question := dialect.version_question()) is not None:
        details["version"] = _describe_version(facts.version, *query.answer(question))
        if (programs := query(question.call)).is_missing:
            return _unusable(dialect, f"its programs are not on this host: {programs.why}")
    inventory = take_inventory(query, dialect, facts)
    details |= _describe_names(query, dialect, (names, facts), inventory)
    details |= _check_sources(query, dialect, facts, since)
    sizes = dialect.capacity_question()
    return PingReport(
        service=dialect.name,
        ok=True,
        message="the controller answers",
        details={key: value for key, value in details.items() if value},
        capacity=query.answer(sizes)[0] if sizes else _largest_sizes(inventory.nodes or ()),
        inventory=inventory,
        problems=tuple(_find_pilot_problems(query, pilot_questions)),
    )


def _largest_sizes(nodes: Sequence[NodeGroup]) -> dict[str, int] | None:
    """Return the most that one job can have on one of these nodes, by resource; ``None`` without any."""
    if not nodes:
        return None
    memory = [each.memory_b for each in nodes if each.memory_b is not None]
    return {"cpus": max(each.cpus for each in nodes)} | ({"memory": max(memory)} if memory else {})


def _unusable(dialect: Dialect, why: str) -> PingReport:
    return PingReport(service=dialect.name, ok=False, message=why)


def _is_queue_answered(query: _TimedQuery, dialect: Dialect, config: ProgramResult) -> bool:
    """Whether the controller answers another program, where the one for its facts may not ask or is missing."""
    return (config.has_answered or config.is_missing) and query(dialect.queue_call(user_name())).ok


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
    yield from dialect.inventory_questions().calls
    yield dialect.queue_call(user_name())


def _find_pilot_problems(
    query: _TimedQuery, pilot_questions: Iterable[Question[tuple[Unmet, ...]]]
) -> Iterator[Problem]:
    """Find what the cluster does not have for the pilots of a site; other jobs can run."""
    for question in pilot_questions:
        for each in query.answer(question)[0] or ():
            yield Problem(message=each.message, hint=each.hint, fatal=False, key=PILOT_NODES)


def _describe_version(controller: str, programs: str | None, why: str) -> str:
    """Return the version of the controller, and that of the local programs when it differs."""
    controller = controller or "unknown"
    if not programs:
        return f"{controller}, of the programs here unknown: {why}"
    return controller if programs == controller else f"{controller}, of the programs here {programs}"


def take_inventory(query: _TimedQuery, dialect: Dialect, facts: ClusterFacts) -> Inventory:
    """Ask for what the cluster has; a question without an answer leaves ``None``."""

    def answer(question: Question[_Answer] | None) -> _Answer | None:
        return None if question is None else query.answer(question)[0]

    more = dialect.inventory_questions()
    partitions = answer(dialect.partitions_question())
    limits = answer(more.limits) or {}
    accounts = answer(dialect.accounts_question(user_name(), facts)) if facts.accounting else None
    qos = answer(dialect.qos_question()) if facts.accounting else None
    if {"limits", "safe"}.isdisjoint(facts.enforced):
        accounts = accounts and [msgspec.structs.replace(each, walltime_s=None) for each in accounts]
        qos = qos and {name: msgspec.structs.replace(each, walltime_s=None) for name, each in qos.items()}
    return Inventory(
        partitions=None if partitions is None else tuple(_with_limits(partitions.values(), limits)),
        nodes=tuple(_with_offers(answer(more.nodes) or (), answer(more.offers) or {})) or None,
        accounts=None if accounts is None else tuple(accounts),
        # A cluster that lists none answers with nothing.
        qos=tuple(qos.values()) if qos else None,
        licences=answer(more.licences),
        names={kind: found for kind, question in more.names.items() if (found := answer(question)) is not None},
        max_array=facts.max_array,
        knows_resources=more.knows_resources,
        is_enforced=bool(facts.enforced),
        needs_partition=more.needs_partition,
        ignores_case=more.ignores_case,
    )


def _with_limits(
    partitions: Iterable[PartitionState], limits: Mapping[str, PartitionLimits]
) -> Iterator[PartitionState]:
    for each in partitions:
        found = limits.get(each.name)
        if found is None:
            yield each
            continue
        limit = "UNLIMITED" if found.walltime_s is None else format_walltime(found.walltime_s)
        yield msgspec.structs.replace(each, limit=each.limit or limit, **msgspec.structs.asdict(found))


def _with_offers(groups: Iterable[NodeGroup], offers: Mapping[str, HostOffer]) -> Iterator[NodeGroup]:
    """Return groups with what their hosts offer; a group whose hosts offer different amounts is parted."""
    for group in groups:
        alike: dict[HostOffer, list[str]] = {}
        hosts = [host for expression in group.names for host in expand_hosts(expression)] if offers else []
        if offers.keys().isdisjoint(hosts):
            yield group
            continue
        for name in hosts:
            alike.setdefault(offers.get(name, HostOffer()), []).append(name)
        for offer, names in alike.items():
            yield msgspec.structs.replace(
                group,
                count=len(names),
                names=tuple(names),
                cpus=group.cpus if offer.cpus is None else offer.cpus,
                memory_b=group.memory_b if offer.memory_b is None else offer.memory_b,
            )


def _describe_names(
    query: _TimedQuery, dialect: Dialect, known: tuple[ConfiguredNames, ClusterFacts], inventory: Inventory
) -> dict[str, str]:
    """Describe the partitions, the accounts, the QOS and their limits."""
    names, facts = known
    details: dict[str, str] = {}
    if (question := dialect.partitions_question()) is not None:
        _, why = query.answer(question)
        listed = describe_partitions(inventory.partitions or (), inventory.nodes or ())
        details["partitions"] = f"unknown: {why}" if why else listed
    accounts = dialect.accounts_question(user_name(), facts) if facts.accounting else None
    if accounts is None and (projects := inventory.names.get("project")) is not None:
        details["projects"] = _list(projects)
    elif accounts is None:
        named = [f"account '{names.account}'"] if names.account else []
        named += [f"QOS '{name}'" for name in names.qos]
        unchecked = f"; {' and '.join(named)} cannot be checked" if named else ""
        none = (
            f"{dialect.title} does not list those that a user may charge"
            if facts.accounting
            else "this cluster keeps none"
        )
        details["accounts"] = f"{none}{unchecked}"
    else:
        _, why = query.answer(accounts)
        details["accounts"] = f"unknown: {why}" if why else _list({each.account for each in inventory.accounts or ()})
    if facts.accounting and accounts is not None and (qualities := dialect.qos_question()) is not None:
        _, why = query.answer(qualities)
        details["qos"] = f"unknown: {why}" if why else _list(each.name for each in inventory.qos or ())
    known_qos = {each.name: each for each in inventory.qos or ()}
    details["limits"] = describe_limits(facts, names, inventory.accounts or (), known_qos)
    return details


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
        age, config = facts.min_job_age_s, query(dialect.facts_calls()[0])
        works = f"remembers jobs that are over for {age:.0f} s" if age else "works"
        found[program] = works if config.ok else _describe_failure("controller", config)
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
