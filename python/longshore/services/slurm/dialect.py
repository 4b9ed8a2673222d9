"""Slurm's dialect: the calls of sbatch, squeue, sacct, scontrol and scancel, and what their answers mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from longshore.batch.cluster_names import Association, PartitionState, Qos
from longshore.batch.dialect import (
    SHORT_S,
    SUBMIT_S,
    BatchScripts,
    DependencyDialect,
    EngineJobSpec,
    ProgramCall,
    Programs,
    Question,
    SubmissionReply,
)
from longshore.batch.jobs import AccountRow, ClusterFacts, QueueRow, StateTable, TaskId
from longshore.batch.records import BatchRecord
from longshore.contract.batch import Batch
from longshore.contract.context import RunPaths, Unreachable
from longshore.model.values import YamlValue
from longshore.model.workflow.allocation import Allocation
from longshore.services.slurm.commands import parse, parse_cluster
from longshore.services.slurm.commands.states import STATES
from longshore.services.slurm.extensions.dependencies import dependency_value
from longshore.services.slurm.extensions.nice import scale
from longshore.services.slurm.render.batch_script import ScriptWriter, allocations
from longshore.services.slurm.render.engine_script import engine_script
from longshore.services.slurm.render.sbatch_options import check_names
from longshore.world.processes.shell import ProgramResult

_SLURM_VARIABLE: Final = re.compile(r"(SLURM|SBATCH|SQUEUE|SACCT|SCANCEL|SALLOC|SRUN|SINFO|PMI|PMIX)_?\w*")
_KEPT_VARIABLES: Final = frozenset({"SLURM_CONF"})
"""Variables of an enclosing job or of the user's settings that still reach Slurm's programs."""
_SHOW_ACCOUNTS: Final = ("sacctmgr", "--noheader", "--parsable2", "show")
_IDS_PER_CALL: Final = 400
"""Ids on one command line: few enough for limits of the kernel or of a site's wrapper."""
_TASKS_PER_CALL: Final = 100
"""Tasks of one array that are queried individually; beyond that, the whole array is queried."""


class SlurmDialect(DependencyDialect):
    """Slurm, as its site's map (``config``, ``clusters``) selects it."""

    name: ClassVar[str] = "slurm"
    title: ClassVar[str] = "Slurm"
    programs: ClassVar[Programs] = Programs(submit="sbatch", queue="squeue", accounting="sacct", cancel="scancel")
    states: ClassVar[StateTable] = STATES
    required_variables: ClassVar[frozenset[str]] = frozenset({"PATH", "SLURM_CONF"})
    """Without these two, sbatch would not be found, or would not find its cluster."""
    release_hint: ClassVar[str] = "scontrol release ID lets them go"

    # ------------------------------------------------------------------------------------------------ environment

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables without those of an enclosing job, and with the site's ``config``."""
        environment = scrubbed(inherited)
        if self.settings.get("config"):
            environment["SLURM_CONF"] = str(self.settings["config"])
        return environment

    def cluster_key(self, environment: Mapping[str, str]) -> str:
        """Return the configuration file and the name of the cluster."""
        return f"{environment.get('SLURM_CONF', '')}\0{self.settings.get('clusters') or ''}"

    def query_call(self, program: str, *words: str) -> ProgramCall:
        """Return a call with the option that selects the cluster."""
        return ProgramCall((program, *self._cluster_option, *words), timeout_s=SHORT_S)

    @property
    def _cluster_option(self) -> tuple[str, ...]:
        clusters = self.settings.get("clusters")
        return (f"--clusters={clusters}",) if clusters else ()

    # ----------------------------------------------------------------------------------------------------- submit

    def check_site(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` or `ValueError` for an invalid setting of the site."""
        check_names(own)
        scale(own)

    def check_job(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an invalid setting of jobs."""
        check_names(own)

    def allocations(self, batch: Batch, settings: Mapping[str, object]) -> tuple[Allocation, ...]:
        """Return what each component of a batch's jobs asks for."""
        return allocations(settings, batch)

    def scripts(
        self, run: RunPaths, settings: Mapping[str, object], template: str, facts: ClusterFacts | None
    ) -> BatchScripts:
        """Return the writer of a run's scripts."""
        return ScriptWriter(run, settings, template, facts)

    def engine_script(self, spec: EngineJobSpec, run: RunPaths, settings: Mapping[str, object], template: str) -> str:
        """Render the script of the engine's job."""
        return engine_script(spec, run, settings, template)

    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return a call of sbatch, which reads the script from its input."""
        words = ("sbatch", "--parsable", *self._cluster_option, *options)
        return ProgramCall(words, stdin=script, timeout_s=SUBMIT_S)

    def submit_reply(self, answer: ProgramResult) -> SubmissionReply:
        """Return the meaning of sbatch's answer."""
        return parse.read_submit_reply(answer)

    # ------------------------------------------------------------------------------------------------------ watch

    def facts_calls(self) -> Sequence[ProgramCall]:
        """Return calls of scontrol for the configuration and the licences."""
        return (
            self.query_call("scontrol", "show", "config"),
            self.query_call("scontrol", "--oneliner", "show", "licenses"),
        )

    def parse_facts(self, outputs: Sequence[str]) -> ClusterFacts:
        """Return the facts in the configuration and the licences."""
        config, licences = outputs
        return parse.with_licences(parse.cluster_facts(config), licences)

    def queue_call(self, user: str) -> ProgramCall:
        """Return the call of squeue."""
        words = ("squeue", "--noheader", "--array", "--states=all", f"--user={user}")
        return ProgramCall((*words, *self._cluster_option, f"--format={parse.QUEUE_FORMAT}"))

    def parse_queue(self, output: str) -> Iterator[QueueRow]:
        """Return the rows of squeue."""
        return parse.queue_rows(output)

    def show_call(self, task: TaskId) -> ProgramCall:
        """Return the call of scontrol for one task."""
        return ProgramCall(("scontrol", *self._cluster_option, "--oneliner", "show", "job", str(task)))

    def parse_shown(self, task: TaskId, answer: ProgramResult) -> AccountRow | Unreachable | None:
        """Return what scontrol answered on a task."""
        if answer.ok:
            return parse.shown_row(task, answer.out)
        return None if parse.is_unknown_job(f"{answer.err}\n{answer.out}") else Unreachable(why=answer.why)

    def parse_shown_array(self, answer: ProgramResult) -> Mapping[TaskId, AccountRow] | Unreachable:
        """Return what scontrol answered on an array."""
        if answer.ok:
            return parse.shown_rows(answer.out)
        return {} if parse.is_unknown_job(f"{answer.err}\n{answer.out}") else Unreachable(why=answer.why)

    def accounting_fields_call(self) -> ProgramCall:
        """Return the call that lists the fields of this version's sacct."""
        return ProgramCall(("sacct", "--helpformat"), timeout_s=SHORT_S)

    def accounting_calls(self, tasks: Iterable[TaskId], known_fields: str) -> Iterator[ProgramCall]:
        """Return calls of sacct: fields that decide outcomes, and fields to store."""
        fields = (*parse.ACCOUNT_FIELDS, *parse.stored_fields(known_fields))
        for names in _chunks(_names_of(tasks)):
            yield ProgramCall((*self._sacct_words(fields), f"--jobs={','.join(names)}"))

    def accounting_by_name_call(self, name: str, *, since: str, user: str) -> ProgramCall:
        """Return the call of sacct for jobs of a name."""
        words = self._sacct_words(parse.ACCOUNT_FIELDS)
        return ProgramCall((*words, f"--name={name}", f"--starttime={since}", f"--user={user}"))

    def parse_accounting(self, output: str, known_fields: str = "") -> dict[TaskId, AccountRow]:
        """Return the tasks in sacct's output."""
        return parse.gathered_rows(output, parse.stored_fields(known_fields))

    def reports_out_of_memory(self, output: str, raw_id: str) -> bool:
        """Whether slurmstepd reports in a batch's output that a task ran out of memory."""
        return parse.reports_out_of_memory(output, raw_id)

    def _sacct_words(self, fields: Sequence[str]) -> tuple[str, ...]:
        return (
            "sacct",
            "--noheader",
            "--parsable2",
            f"--delimiter={parse.SEPARATOR}",
            f"--format={','.join(fields)}",
            *self._cluster_option,
        )

    # ------------------------------------------------------------------------------------------------------- ping

    def version_question(self) -> Question[str]:
        """Return the question for sbatch's version."""
        return Question(ProgramCall(("sbatch", "--version")), lambda text: (text.split() or [""])[-1])

    def partitions_question(self) -> Question[Mapping[str, PartitionState]]:
        """Return the question for the partitions."""
        return Question(self.query_call("scontrol", "--oneliner", "show", "partition"), parse_cluster.parse_partitions)

    def accounts_question(self, user: str, facts: ClusterFacts) -> Question[Sequence[Association]]:
        """Return the question for the user's associations."""
        who = (f"user={user}", *([f"cluster={facts.name}"] if facts.name else []))
        words = (*_SHOW_ACCOUNTS, "associations", *who, f"format={parse_cluster.ASSOCIATION_FIELDS}")
        return Question(ProgramCall(words), parse_cluster.parse_associations)

    def qos_question(self) -> Question[Mapping[str, Qos]]:
        """Return the question for the QOS."""
        words = (*_SHOW_ACCOUNTS, "qos", f"format={parse_cluster.QOS_FIELDS}")
        return Question(ProgramCall(words), parse_cluster.parse_qos)

    def capacity_question(self) -> Question[Mapping[str, int] | None]:
        """Return the question for the sizes of nodes."""
        return Question(
            self.query_call("sinfo", "--noheader", "--Node", "--format=%c|%m"), parse_cluster.parse_capacity
        )

    # -------------------------------------------------------------------------------------------------------- act

    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return calls of scancel."""
        words = ("scancel", *self._cluster_option, *(("--state=PENDING",) if waiting_only else ()))
        for names in _chunks([str(task) for task in tasks]):
            yield ProgramCall((*words, *names))

    def cancel_named_call(self, name: str, user: str) -> ProgramCall:
        """Return the call of scancel for all jobs of a name."""
        return ProgramCall(("scancel", *self._cluster_option, f"--name={name}", f"--user={user}"))

    def priority_calls(self, priorities: Mapping[int, int]) -> Iterator[ProgramCall]:
        """Return one call of scontrol that sets nice values."""
        # scontrol reads commands from its input, and continues after a failed one.
        lines = "".join(f"update JobId={job} Nice={nice}\n" for job, nice in priorities.items())
        yield ProgramCall(("scontrol", *self._cluster_option), stdin=lines)

    # ----------------------------------------------------------------------------------------------- dependencies

    def hold_options(self) -> tuple[str, ...]:
        """Return the option that submits a job held."""
        return ("--hold",)

    def after_success_options(
        self, parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]
    ) -> tuple[str, ...]:
        """Return the options that start a batch after its parents' success."""
        value = dependency_value(parents, records)
        return (f"--dependency={value}", "--kill-on-invalid-dep=yes") if value else ()

    def after_end_options(self, jobs: Sequence[int]) -> tuple[str, ...]:
        """Return the options that start a job after the end of others."""
        return (f"--dependency=afterany:{':'.join(map(str, jobs))}", "--kill-on-invalid-dep=yes")

    def is_held(self, row: AccountRow) -> bool:
        """Whether scontrol shows a job as held."""
        return row.state == "PENDING" and "Held" in row.reason

    def release_calls(self, jobs: Iterable[int]) -> Iterator[ProgramCall]:
        """Return calls of scontrol that release held jobs."""
        for names in _chunks([str(job) for job in jobs]):
            yield ProgramCall(("scontrol", *self._cluster_option, "release", ",".join(names)))


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove variables of an enclosing job or of a user's settings that would affect Slurm's programs."""
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT_VARIABLES or not _SLURM_VARIABLE.fullmatch(name)
    }


def _names_of(tasks: Iterable[TaskId]) -> list[str]:
    """Name tasks for a query: individually, or by their array when it has many of them."""
    by_job: dict[int, list[TaskId]] = {}
    for task in tasks:
        by_job.setdefault(task.job, []).append(task)
    names: list[str] = []
    for job, these in sorted(by_job.items()):
        names += [str(job)] if len(these) > _TASKS_PER_CALL else [str(task) for task in these]
    return names


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + _IDS_PER_CALL] for start in range(0, len(items), _IDS_PER_CALL))
