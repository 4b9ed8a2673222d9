"""Client of a workload manager's programs; the only module that runs them."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from longshore.batch.dialect import Dialect, ProgramCall
from longshore.batch.jobs import AccountRow, ClusterFacts, QueueRow, TaskId
from longshore.contract.context import Unreachable
from longshore.sites.inherited_environment import InheritRule, select_inherited
from longshore.world.host import user_name
from longshore.world.processes.query_cache import CachedAnswer, cached_answer
from longshore.world.processes.rate_limit import RateLimit
from longshore.world.processes.shell import ProgramResult, Shell, SystemShell
from longshore.world.runs.registry import state_folder


class BatchClient:
    """The programs of a workload manager, for one cluster.

    `setup` holds lines of shell that run before each program, such as ``module load``. `inherit` selects the
    variables that jobs inherit; see `longshore.sites.inherited_environment.select_inherited`.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        shell: Shell | None = None,
        setup: Sequence[str] = (),
        inherit: InheritRule = "all",
    ) -> None:
        self.dialect = dialect
        self._log = logging.getLogger(f"longshore.{dialect.name}")
        self._shell = shell or SystemShell()
        self._setup = tuple(setup)
        self._env = dialect.environment(os.environ)
        self._known_fields: str | None = None
        """What accounting says of its fields; ``None`` before the first query."""
        names, _ = select_inherited(self._env, inherit)
        required = dialect.required_variables
        self._submit_environment = {name: self._env[name] for name in self._env if name in names or name in required}
        self.calls: dict[str, int] = {}
        """Number of calls per program."""

    @property
    def scrubbed(self) -> list[str]:
        """Names of the variables that the programs do not get."""
        return sorted(os.environ.keys() - self._env.keys())

    # ------------------------------------------------------------------------------------------------------ submit

    def submit(self, script: str, *options: str) -> ProgramResult:
        """Submit a script, with options beside those in the script."""
        return self._run(self.dialect.submit_call(script, options), env=self._submit_environment)

    def submit_rate_limit(self, per_s: float) -> RateLimit:
        """Return the rate limit on submissions for all processes of this user on this host."""
        program = self.dialect.programs.submit
        return RateLimit(state_folder() / "newest" / f"{program}-{self._cluster_digest}.turns", per_s)

    # --------------------------------------------------------------------------------------------------------- ask

    def queue(self, *, max_age_s: float, not_before: float = 0.0, floor_s: float = 0.0) -> CachedAnswer | None:
        """Return the queue of all of this user's jobs, shared by all processes here (`cached_answer`)."""
        path = state_folder() / "newest" / f"{self.dialect.programs.queue}-{self._cluster_digest}.json"
        return cached_answer(
            path, max_age_s=max_age_s, query=self._ask_queue, not_before=not_before, min_interval_s=floor_s
        )

    def rows(self, answer: CachedAnswer) -> Iterator[QueueRow]:
        """Return the rows of an answer of `queue`; none of one that failed."""
        return self.dialect.parse_queue(answer.text or "")

    def _ask_queue(self) -> tuple[str | None, str]:
        answer = self._run(self.dialect.queue_call(user_name()))
        return (answer.out, "") if answer.ok else (None, answer.why)

    @property
    def _cluster_digest(self) -> str:
        which = f"{self.dialect.cluster_key(self._env)}\0{user_name()}"
        return sha256(which.encode()).hexdigest()[:16]

    def query_accounting(self, tasks: Iterable[TaskId]) -> dict[TaskId, AccountRow] | Unreachable:
        """Query accounting for tasks."""
        if self._known_fields is None and (call := self.dialect.accounting_fields_call()) is not None:
            answer = self._run(call)
            self._known_fields = answer.out if answer.ok else None
        rows: dict[TaskId, AccountRow] = {}
        fields = self._known_fields or ""
        for call in self.dialect.accounting_calls(tasks, fields):
            answer = self._run(call)
            if not answer.ok:
                return Unreachable(why=answer.why)
            rows |= self.dialect.parse_accounting(answer.out, fields)
        return rows

    def query_accounting_by_name(self, name: str, *, since: str) -> dict[TaskId, AccountRow] | Unreachable:
        """Query accounting for jobs of a name that existed since a moment (local time, ISO-8601)."""
        answer = self._run(self.dialect.accounting_by_name_call(name, since=since, user=user_name()))
        return self.dialect.parse_accounting(answer.out) if answer.ok else Unreachable(why=answer.why)

    def show_job(self, task: TaskId) -> AccountRow | Unreachable | None:
        """Query the controller for a task; ``None`` when it no longer has it."""
        call = self.dialect.show_call(task)
        return None if call is None else self.dialect.parse_shown(task, self._run(call))

    def query_facts(self) -> ClusterFacts | Unreachable:
        """Query the controller for facts of its cluster."""
        outputs: list[str] = []
        for call in self.dialect.facts_calls():
            answer = self._run(call)
            if not answer.ok and not outputs:
                return Unreachable(why=answer.why)
            outputs.append(answer.out if answer.ok else "")
        return self.dialect.parse_facts(outputs)

    def ask(self, call: ProgramCall) -> ProgramResult:
        """Run any other query."""
        return self._run(call)

    # --------------------------------------------------------------------------------------------------------- act

    def cancel(self, tasks: Iterable[TaskId]) -> ProgramResult | None:
        """Cancel tasks; return the first failed call, or ``None``."""
        return self.run_all(self.dialect.cancel_calls(tasks))

    def cancel_waiting(self, tasks: Iterable[TaskId]) -> ProgramResult | None:
        """Cancel those tasks that have not started; return the first failed call, or ``None``."""
        return self.run_all(self.dialect.cancel_calls(tasks, waiting_only=True))

    def cancel_named(self, name: str) -> ProgramResult:
        """Cancel all jobs of a name."""
        return self._run(self.dialect.cancel_named_call(name, user_name()))

    def set_priorities(self, priorities: Mapping[int, int]) -> ProgramResult | None:
        """Change the priority of waiting jobs; ignores jobs that are gone."""
        return self.run_all(self.dialect.priority_calls(priorities))

    def run_all(self, calls: Iterable[ProgramCall]) -> ProgramResult | None:
        """Run calls until one fails; return that, or ``None``."""
        for call in calls:
            answer = self._run(call)
            if not answer.ok:
                return answer
        return None

    # ---------------------------------------------------------------------------------------------------------------

    def _run(self, call: ProgramCall, *, env: Mapping[str, str] | None = None) -> ProgramResult:
        words = call.argv
        self.calls[words[0]] = self.calls.get(words[0], 0) + 1
        argv: Sequence[str] = words
        if self._setup:
            argv = ["/bin/sh", "-c", "\n".join([*self._setup, 'exec "$@"']), words[0], *words]
        self._log.debug("asked: %s%s", shlex.join(words), f"\n{call.stdin}" if call.stdin else "")
        answer = self._shell.run(
            argv, env=self._env if env is None else env, timeout_s=call.timeout_s, stdin=call.stdin
        )
        self._log.debug(
            "%s answered %s in %.2f s: %s%s", words[0], answer.status, answer.seconds, answer.out, answer.err
        )
        return answer
