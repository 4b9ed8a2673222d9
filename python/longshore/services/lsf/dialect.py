"""LSF's dialect: the calls of bsub, bjobs, bhist, bacct and bkill, and what their answers mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Final

import msgspec

from longshore.contract.service import PartitionState, Unreachable
from longshore.model.workflow import Allocation
from longshore.services.batch.answers import SubmitReplies
from longshore.services.batch.dialect import (
    SUBMIT_S,
    DependencyDialect,
    HostLauncher,
    InventoryQuestions,
    ProgramCall,
    Programs,
    ProgramVariables,
    Question,
    calls_with,
    parent_batches,
)
from longshore.services.batch.jobs import AccountRow, ClusterFacts, StateTable, TaskId
from longshore.services.batch.records import BatchRecord
from longshore.services.batch.script import JobSpec
from longshore.services.batch.settings import one_of
from longshore.services.lsf import answers, cluster
from longshore.services.lsf.answers import STATES, element_id
from longshore.services.lsf.options import (
    AMOUNT_NAMES,
    JOB_NAMES,
    SERVICE,
    SITE_NAMES,
    LsfMap,
    allocation,
    contradictions,
    directives,
)
from longshore.system.host import user_name
from longshore.system.programs import ProgramResult

FORMATS: Final = ("json", "text")
"""What bjobs is asked to print."""


class LsfDialect(DependencyDialect):
    """LSF, as its site's map (``envdir``, ``group``, ``bjobsFormat``) selects it."""

    name: ClassVar[str] = SERVICE
    title: ClassVar[str] = "LSF"
    programs: ClassVar[Programs] = Programs(submit="bsub", queue="bjobs", accounting="bjobs", cancel="bkill")
    states: ClassVar[StateTable] = STATES
    submit_replies: ClassVar[SubmitReplies] = answers.REPLIES
    variables: ClassVar[ProgramVariables] = ProgramVariables(
        cluster={"envdir": ("LSF_ENVDIR",)},
        kept=frozenset({"LSF_BINDIR", "LSF_SERVERDIR", "LSF_LIBDIR"}),
        # Those of an enclosing job, and settings of a user such as LSB_BJOBS_FORMAT.
        dropped=re.compile(r"(LSB|LS|BSUB|PMI|PMIX)_\w*"),
        # How often LSF's programs try to reach its daemons; by default they never give up.
        fixed={"LSB_NTRIES": "2"},
    )
    key_names: ClassVar[frozenset[str]] = frozenset((*JOB_NAMES, *AMOUNT_NAMES, *SITE_NAMES))
    run_keys: ClassVar[frozenset[str]] = frozenset({"bjobsFormat", "envdir"})
    engine_keys: ClassVar[frozenset[str]] = frozenset((*JOB_NAMES, *AMOUNT_NAMES, "group"))
    directive: ClassVar[str] = "#BSUB"
    raw_key: ClassVar[str] = "bsub"
    task_index: ClassVar[str] = '"$LSB_JOBINDEX"'
    host_launcher: ClassVar[HostLauncher] = HostLauncher(
        start=("blaunch", "-n", "-no-shell"),
        # Behind each host is its number of slots.
        hosts='$(set -- $LSB_MCPU_HOSTS; while [ $# -gt 1 ]; do echo "$1"; shift 2; done)',
        hint="LSF did not follow 'span[ptile]': raw options of the site may replace it.",
    )
    release_hint: ClassVar[str] = "bresume ID lets them go"

    # ---------------------------------------------------------------------------------------------------- answers

    def read_answer(self, call: ProgramCall, answer: ProgramResult) -> ProgramResult:
        """Return an answer as a success where it is one: statuses of LSF's programs depend on its configuration."""
        program = call.argv[0]
        is_answer = (program == "bjobs" and answers.is_answer_of_jobs(answer)) or (
            program in {"bkill", "bresume"} and answers.is_answer_of_kill(answer)
        )
        return msgspec.structs.replace(answer, status=0) if is_answer else answer

    def is_useless(self, call: ProgramCall, answer: ProgramResult) -> bool:
        """Whether JSON is not printed or not valid, or a program has forgotten the job."""
        if answer.status is None:
            return False
        if call.argv[0] == "bhist":
            return not answers.history_rows(answer.out, _now())
        if not answer.ok:
            return "-json" in call.argv
        records = answers.read_records(answer.out)
        # That there are none is an answer on many jobs; of one, the history is asked.
        return records is None or (not records and _leads_to_history(call))

    # ----------------------------------------------------------------------------------------------------- submit

    def check_site(self, own: LsfMap) -> None:
        """Raise `ConfigError` for an invalid setting of the site."""
        self.check_job(own)
        one_of(SERVICE, own, "bjobsFormat", FORMATS)

    def allocations(self, job: JobSpec) -> tuple[Allocation, ...]:
        """Return what jobs ask for, raw lines included."""
        return (allocation(job),)

    def needs(self, job: JobSpec) -> tuple[Allocation, ...]:
        """Return what jobs need at least on one host, of a range of slots the fewest."""
        return (allocation(job, least=True),)

    contradictions = staticmethod(contradictions)

    directives = staticmethod(directives)

    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return a call of bsub, which reads the script from its input."""
        return ProgramCall(("bsub", *options), stdin=script, timeout_s=SUBMIT_S)

    # ------------------------------------------------------------------------------------------------------ watch

    def facts_calls(self) -> Sequence[ProgramCall]:
        """Return calls of lsid, and of bparams for the limits."""
        return (self.query_call("lsid"), self.query_call("bparams", "-a"))

    def parse_facts(self, outputs: Sequence[str]) -> ClusterFacts:
        """Return the facts in the identity and the parameters."""
        identity, parameters = outputs
        return cluster.cluster_facts(identity, parameters)

    def queue_call(self, user: str) -> ProgramCall:
        """Return the call of bjobs for all jobs of a user; LSF remembers those that are over for an hour."""
        return self._jobs_call(answers.QUEUE_FIELDS, "-u", user)

    parse_queue = staticmethod(answers.queue_rows)

    def show_call(self, task: TaskId) -> ProgramCall:
        """Return the call of bjobs for a job, else of bhist in all its files, else of bacct."""
        name = element_id(task)
        accounting = ProgramCall(("bacct", "-l", name))
        history = ProgramCall(("bhist", "-l", "-n", "0", name), otherwise=accounting)
        return self._jobs_call(answers.ACCOUNT_FIELDS, name, otherwise=history)

    def parse_shown(self, task: TaskId, answer: ProgramResult) -> AccountRow | Unreachable | None:
        """Return what bhist or bacct answered on a task."""
        return rows if isinstance(rows := self.parse_shown_array(answer), Unreachable) else rows.get(task)

    def parse_shown_array(self, answer: ProgramResult) -> Mapping[TaskId, AccountRow] | Unreachable:
        """Return what bhist or bacct answered on an array."""
        if answer.ok or answers.knows_no_job(answer.out + answer.err):
            return self.parse_accounting(answer.out) or answers.history_rows(answer.out, _now())
        return Unreachable(why=answer.why)

    def accounting_calls(self, tasks: Iterable[TaskId], known_fields: str) -> Iterator[ProgramCall]:
        """Return calls of bjobs for the fields that decide outcomes, and those that are stored."""
        for call in calls_with((), map(element_id, tasks)):
            yield self._jobs_call(answers.ACCOUNT_FIELDS, *call.argv)

    def accounting_by_name_call(self, name: str, *, since: str, user: str) -> ProgramCall:
        """Return the call of bjobs for jobs of a name."""
        return self._jobs_call(answers.ACCOUNT_FIELDS, "-u", user, "-J", name)

    def parse_accounting(self, output: str, known_fields: str = "") -> dict[TaskId, AccountRow]:
        """Return the tasks in the output of bjobs."""
        return answers.account_rows(output, _now())

    reports_out_of_memory = staticmethod(answers.reports_out_of_memory)

    def _jobs_call(self, fields: Sequence[str], *words: str, otherwise: ProgramCall | None = None) -> ProgramCall:
        """Return a call of bjobs, and as text where its JSON cannot be read."""
        as_text = ProgramCall(("bjobs", "-a", "-noheader", "-o", _TEXT_FORMAT, *words), otherwise=otherwise)
        if one_of(SERVICE, self.settings, "bjobsFormat", FORMATS) == "text":
            return as_text
        return ProgramCall(("bjobs", "-a", "-json", "-o", " ".join(fields), *words), otherwise=as_text)

    # ------------------------------------------------------------------------------------------------------- ping

    def partitions_question(self) -> Question[Mapping[str, PartitionState]]:
        """Return the question for the queues that the user may use."""
        return Question(self.query_call("bqueues", "-u", user_name()), cluster.parse_queues)

    def inventory_questions(self) -> InventoryQuestions:
        """Return the questions for what the cluster has, beside its partitions."""
        return cluster.questions(self.query_call)

    # -------------------------------------------------------------------------------------------------------- act

    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return calls of bkill."""
        return calls_with(("bkill", *(("-stat", "pend") if waiting_only else ())), map(element_id, tasks))

    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call of bkill for all jobs of a name; without the 0, it would kill only the last."""
        return ProgramCall(("bkill", "-u", user, "-J", name, "0"))

    # ----------------------------------------------------------------------------------------------- dependencies

    def hold_options(self) -> tuple[str, ...]:
        """Return the option that submits a job held."""
        return ("-H",)

    def after_success_options(
        self, parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]
    ) -> tuple[str, ...]:
        """Return the options that start a batch after its parents' success, and end it where one has failed."""
        text = dependency_text(parents, records)
        return ("-w", text, "-ti") if text else ()

    def after_end_options(self, jobs: Sequence[int]) -> tuple[str, ...]:
        """Return the options that start a job after the end of others."""
        return ("-w", " && ".join(f"ended({job})" for job in jobs))

    def is_held(self, row: AccountRow) -> bool:
        """Whether LSF shows a job as held."""
        return row.state == "PSUSP"

    def release_calls(self, jobs: Iterable[int]) -> Iterator[ProgramCall]:
        """Return calls of bresume that release held jobs."""
        return calls_with(("bresume",), jobs)


_TEXT_FORMAT: Final = f"{' '.join(answers.TEXT_FIELDS)} delimiter='{answers.DELIMITER}'"


def _now() -> datetime:
    # LSF prints local time.
    return datetime.now()  # noqa: DTZ005


def _leads_to_history(call: ProgramCall) -> bool:
    return call.argv[0] == "bhist" or (call.otherwise is not None and _leads_to_history(call.otherwise))


def dependency_text(parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]) -> str:
    """Return the condition of ``bsub -w`` for a batch's members; see `DependencyDialect.after_success_options`."""
    batches, is_by_place = parent_batches(parents, records)
    if is_by_place:
        return " && ".join(f"done({number}[*])" for number, _ in batches)
    terms: list[str] = []
    for number, places in batches:
        terms += [f"done({number})"] if places is None else [f"done({number}[{place + 1}])" for place in places]
    return " && ".join(terms)
