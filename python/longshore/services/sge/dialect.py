"""Grid Engine's dialect: the calls of qsub, qstat, qacct, qdel and qconf, and what their answers mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import ClassVar, Final

import msgspec

from longshore.contract.executor import Urgency
from longshore.contract.service import PartitionState, Unreachable
from longshore.model.values import YamlValue
from longshore.model.workflow import Allocation
from longshore.services.batch.answers import SubmissionReply, SubmitOutcome, SubmitReplies
from longshore.services.batch.dialect import (
    SHORT_S,
    SUBMIT_S,
    DependencyDialect,
    HostLauncher,
    InventoryQuestions,
    ProgramCall,
    Programs,
    ProgramVariables,
    Question,
    calls_with,
)
from longshore.services.batch.jobs import AccountRow, ClusterFacts, StateTable, TaskId
from longshore.services.batch.records import BatchRecord
from longshore.services.batch.script import JobSpec
from longshore.services.sge import answers, cluster
from longshore.services.sge.answers import HELD, PENDING, STATES
from longshore.services.sge.options import (
    JOB_NAMES,
    SITE_NAMES,
    allocation,
    check_site_map,
    contradictions,
    directives,
    memory_per,
    plain_name,
    read_priority,
    slack_s,
    slots_environment,
)
from longshore.system.programs import ProgramResult

_HOSTS: Final = '$(while read -r host others; do echo "$host"; done < "$PE_HOSTFILE")'
"""Shell for the hosts of a job, the one of its script first; a host has a line for each of its queues (sge_pe(5))."""
_OF_A_JOB: Final = frozenset(
    (
        "ARC", "ENVIRONMENT", "JOB_ID", "JOB_NAME", "JOB_SCRIPT", "NHOSTS", "NQUEUES", "NSLOTS", "PE", "PE_HOSTFILE",
        "QUEUE", "REQNAME", "REQUEST", "RESTARTED", "TASK_ID",
    )
)  # fmt: skip
"""Variables of an enclosing job without the usual beginning."""
_SINGLE_CALLS: Final = 2
"""Jobs that accounting is asked for one by one: each call reads the whole file."""
_ALL_AT_ONCE: Final = r"""{ "$1" -j '*'; } | awk -v ids="$2" '
BEGIN { n = split(ids, list, ","); for (i = 1; i <= n; i++) wanted[list[i]] = 1 }
/^=+$/ { if (keep) printf "%s", block; block = ""; keep = 0 }
{ block = block $0 "\n" }
$1 == "jobnumber" && $2 in wanted { keep = 1 }
END { if (keep) printf "%s", block }'"""
"""Script that reads the accounts of all jobs once, and prints those of some."""


class SgeDialect(DependencyDialect):
    """Grid Engine, as its site's map (``bin``, ``root``, ``cell``, ``cluster``) selects it."""

    name: ClassVar[str] = "sge"
    title: ClassVar[str] = "Grid Engine"
    programs: ClassVar[Programs] = Programs(submit="qsub", queue="qstat", accounting="qacct", cancel="qdel")
    states: ClassVar[StateTable] = STATES
    submit_replies: ClassVar[SubmitReplies] = answers.REPLIES
    variables: ClassVar[ProgramVariables] = ProgramVariables(
        cluster={"root": ("SGE_ROOT",), "cell": ("SGE_CELL",), "cluster": ("SGE_CLUSTER", "SGE_CLUSTER_NAME")},
        kept=frozenset({"SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_ARCH"}),
        # Functions of bash would be broken lines in the environment of a job.
        dropped=re.compile(r"SGE_.*|.*[^A-Za-z0-9_].*|[0-9].*", re.DOTALL),
    )
    key_names: ClassVar[frozenset[str]] = frozenset((*SITE_NAMES, *JOB_NAMES))
    run_keys: ClassVar[frozenset[str]] = frozenset({"use_priority"})
    engine_keys: ClassVar[frozenset[str]] = frozenset({"mem_resource", "memoryPer", "default_prio", "hard", "soft"})
    directive: ClassVar[str] = "#$"
    # Statuses 99 and 100 start a job again, and put it into the error state (sge_diagnostics(1)). Grid Engine kills the
    # process group of a script, and a job has one of its own.
    wrapper_options: ClassVar[str] = "-g -x '99 100'"
    task_index: ClassVar[str] = '"$SGE_TASK_ID"'
    release_hint: ClassVar[str] = (
        "qrls ID lets held jobs go; qmod -cj ID clears an error state, which qstat -j ID explains"
    )
    forgets_unstarted: ClassVar[bool] = True
    trial_judges_all: ClassVar[bool] = True
    starts_after_any_end: ClassVar[bool] = True

    # ------------------------------------------------------------------------------------------------ environment

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables without those of an enclosing job, and with those of the site's map."""
        others = _OF_A_JOB if "SGE_TASK_ID" in inherited else frozenset[str]()
        return super().environment({name: value for name, value in inherited.items() if name not in others})

    def query_call(self, program: str, *words: str) -> ProgramCall:
        """Return a call of a program in the site's folder of them."""
        return ProgramCall((self._program(program), *words), timeout_s=SHORT_S)

    def _program(self, name: str) -> str:
        folder = self.settings.get("bin")
        return str(PurePosixPath(str(folder), name)) if folder else name

    def read_answer(self, call: ProgramCall, answer: ProgramResult) -> ProgramResult:
        """Return an answer with the status that it means: 1 also says that a job is gone, or that a list is empty."""
        match PurePosixPath(call.argv[0]).name:
            case "qstat" if "-xml" in call.argv:
                return answers.read_queue_answer(answer)
            case "qacct" | "sh":
                return answers.read_accounting_answer(answer)
            case "qdel":
                return answers.read_cancel_answer(answer)
            case "qconf":
                return answers.read_list_answer(answer)
            case "qsub" if "-w" in call.argv:
                return answers.read_trial_answer(answer)
        return answer

    # ----------------------------------------------------------------------------------------------------- submit

    def check_site(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an invalid setting of the site."""
        self.check_job(own)
        check_site_map(own)

    directives = staticmethod(directives)

    def allocations(self, job: JobSpec) -> tuple[Allocation, ...]:
        """Return what jobs ask for, raw lines included."""
        return (allocation(job),)

    def needs(self, job: JobSpec) -> tuple[Allocation, ...]:
        """Return what jobs need at least, of a range of slots the fewest."""
        return (allocation(job, least=True),)

    contradictions = staticmethod(contradictions)

    def node_launcher(self, nodes: int, cpus: int) -> HostLauncher:
        """Return the launcher that starts a command on each host by qrsh."""
        *_, name = slots_environment({**self.settings, "nodeCount": nodes}, cpus)
        # Without a shell of its own, qrsh passes words on as they are; -V adds the environment (qrsh(1): -inherit).
        start = (self._program("qrsh"), "-inherit", "-nostdin", "-noshell", "-V")
        return HostLauncher(start=start, hosts=_HOSTS, hint=f"'{name}' must have 'allocation_rule {cpus}'.")

    plain_name = staticmethod(plain_name)

    def priority(self, own: Mapping[str, YamlValue], urgency: Urgency, facts: ClusterFacts | None) -> int | None:
        """Return the priority for an urgency; ``None`` without ``use_priority``, or where one is given to all jobs."""
        is_used = own.get("use_priority") and own.get("priority") is None
        return read_priority(own, slack_s(urgency)) if is_used else None

    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return a call of qsub, which reads the script from its input."""
        return ProgramCall((self._program("qsub"), "-terse", *options), stdin=script, timeout_s=SUBMIT_S)

    def submit_reply(self, answer: ProgramResult) -> SubmissionReply:
        """Return the meaning of the reply to a submission, or to a trial (`trial_call`)."""
        return SubmissionReply(SubmitOutcome.REFUSED) if answers.is_unfit(answer) else super().submit_reply(answer)

    # ------------------------------------------------------------------------------------------------------ watch

    def task_name(self, task: TaskId) -> str:
        """Return the name of a task, whose arrays begin with 1."""
        return str(task.job) if task.index is None else f"{task.job}.{task.index + 1}"

    def facts_calls(self) -> Sequence[ProgramCall]:
        """Return calls of qconf for the configuration and the resources, and one that says the version."""
        return (self.query_call("qconf", "-sconf"), self.query_call("qconf", "-sc"), self.query_call("qstat", "-help"))

    def parse_facts(self, outputs: Sequence[str]) -> ClusterFacts:
        """Return the facts in the configuration and the resources."""
        config, complexes, usage = outputs
        facts = cluster.cluster_facts(config, complexes)
        return msgspec.structs.replace(facts, version=usage.partition("\n")[0].strip())

    def queue_call(self, user: str) -> ProgramCall:
        """Return the call of qstat."""
        return ProgramCall((self._program("qstat"), "-xml", "-u", user))

    parse_queue = staticmethod(answers.queue_rows)

    def show_call(self, task: TaskId) -> ProgramCall:
        """Return the call of qstat for one job, which has those that are not over."""
        return ProgramCall((self._program("qstat"), "-j", str(task.job)))

    def parse_shown(self, task: TaskId, answer: ProgramResult) -> AccountRow | Unreachable | None:
        """Return what qstat answered on a job."""
        if answer.ok:
            return answers.shown_row(task, answer.out)
        return None if "do not exist" in f"{answer.err}{answer.out}" else Unreachable(why=answer.why)

    def parse_shown_array(self, answer: ProgramResult) -> Mapping[TaskId, AccountRow] | Unreachable:
        """Return no row: qstat says of an array which of its tasks wait or run, and those are in the queue."""
        return {} if answer.ok or "do not exist" in f"{answer.err}{answer.out}" else Unreachable(why=answer.why)

    def accounting_calls(self, tasks: Iterable[TaskId], known_fields: str) -> Iterator[ProgramCall]:
        """Return calls of qacct: one per job, or one for all where there are many."""
        jobs = sorted({task.job for task in tasks})
        program = self._program("qacct")
        if len(jobs) <= _SINGLE_CALLS:
            yield from (ProgramCall((program, "-j", str(job))) for job in jobs)
        else:
            yield ProgramCall(("sh", "-c", _ALL_AT_ONCE, "qacct", program, ",".join(map(str, jobs))))

    def accounting_by_name_call(self, name: str, *, since: str, user: str) -> ProgramCall:
        """Return the call of qacct for jobs of a name; names of batches are never used twice."""
        return ProgramCall((self._program("qacct"), "-o", user, "-j", name))

    def parse_accounting(self, output: str, known_fields: str = "") -> dict[TaskId, AccountRow]:
        """Return the tasks in qacct's output."""
        return answers.gathered_rows(output)

    # ------------------------------------------------------------------------------------------------------- ping

    def partitions_question(self) -> Question[Mapping[str, PartitionState]]:
        """Return the question for the queues."""
        return Question(self.query_call("qstat", "-g", "c"), cluster.parse_queues)

    def trial_call(self, script: str, *options: str) -> ProgramCall | None:
        """Return a call of qsub that judges a job in the empty cluster; ``None`` where a script wants none."""
        if answers.is_unjudged(script):
            return None
        return msgspec.structs.replace(self.query_call("qsub", *cluster.TRIAL, *options), stdin=script)

    def inventory_questions(self) -> InventoryQuestions:
        """Return the questions for what the cluster has, beside its partitions."""
        memory = str(self.settings.get("mem_resource") or "")
        return cluster.questions(self.query_call, memory, is_per_slot=memory_per(self.settings) == "slot")

    # -------------------------------------------------------------------------------------------------------- act

    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return calls of qdel, which cannot tell waiting tasks from others."""
        return calls_with((self._program("qdel"),), map(self.task_name, tasks))

    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call of qdel for all jobs of a name."""
        return ProgramCall((self._program("qdel"), "-u", user, name))

    def priority_calls(self, priorities: Mapping[int, int]) -> Iterator[ProgramCall]:
        """Return one call of qalter per priority."""
        by_priority: dict[int, list[str]] = {}
        for job, priority in sorted(priorities.items()):
            by_priority.setdefault(priority, []).append(str(job))
        for priority, jobs in by_priority.items():
            yield ProgramCall((self._program("qalter"), "-p", str(priority), *jobs))

    # ----------------------------------------------------------------------------------------------- dependencies

    def hold_options(self) -> tuple[str, ...]:
        """Return the option that submits a job held."""
        return ("-h",)

    def after_success_options(
        self, parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]
    ) -> tuple[str, ...]:
        """Return the option that starts a batch after its parents, task by task where the arrays have equal sizes."""
        needed = [(place, *records[job]) for place, these in enumerate(parents) for job in these]
        sizes = {str(record.id): len(record.members) for _, record, _ in needed}
        if not sizes:
            return ()
        # Grid Engine refuses it between arrays of different sizes.
        is_task_by_task = set(sizes.values()) == {len(parents)} and all(place == at for place, _, at in needed)
        return ("-hold_jid_ad" if is_task_by_task and len(parents) > 1 else "-hold_jid", ",".join(sizes))

    def after_end_options(self, jobs: Sequence[int]) -> tuple[str, ...]:
        """Return the option that starts a job after the end of others."""
        return ("-hold_jid", ",".join(map(str, jobs)))

    def is_held(self, row: AccountRow) -> bool:
        """Whether a job may be held: qstat does not say it of a single one, and a release does no harm."""
        return row.state in {PENDING, HELD}

    def release_calls(self, jobs: Iterable[int]) -> Iterator[ProgramCall]:
        """Return calls of qrls."""
        return calls_with((self._program("qrls"),), jobs)
