"""Slurm's dialect: the calls of sbatch, squeue, sacct, scontrol and scancel, and what their answers mean."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from longshore.contract.service import PartitionState, Unreachable
from longshore.model.values import YamlValue
from longshore.services.batch.answers import SubmitReplies
from longshore.services.batch.dialect import (
    SHORT_S,
    SUBMIT_S,
    DependencyDialect,
    InventoryQuestions,
    ProgramCall,
    Programs,
    ProgramVariables,
    Question,
    StepLauncher,
    calls_with,
    parent_batches,
)
from longshore.services.batch.jobs import AccountRow, ClusterFacts, StateTable, TaskId
from longshore.services.batch.records import BatchRecord
from longshore.services.batch.script import JobSpec
from longshore.services.slurm import answers, cluster
from longshore.services.slurm.options import (
    COMPONENT_NAMES,
    JOB_NAMES,
    SITE_NAMES,
    allocations,
    component_count,
    components,
    contradictions,
    nice_value,
    normalize_names,
    omitted_options,
    scale,
    site_options,
    with_nice,
)
from longshore.services.slurm.script import buffer_lines, directives, insert_buffer_lines, refuse_buffer_lines
from longshore.services.slurm.states import STATES
from longshore.system.programs import ProgramResult
from longshore.system.reading import can_see

_TASKS_PER_CALL: Final = 100
"""Tasks of one array that are queried individually; beyond that, the whole array is queried."""


class SlurmDialect(DependencyDialect):
    """Slurm, as its site's map (``config``, ``clusters``) selects it."""

    name: ClassVar[str] = "slurm"
    title: ClassVar[str] = "Slurm"
    programs: ClassVar[Programs] = Programs(submit="sbatch", queue="squeue", accounting="sacct", cancel="scancel")
    states: ClassVar[StateTable] = STATES
    submit_replies: ClassVar[SubmitReplies] = answers.REPLIES
    variables: ClassVar[ProgramVariables] = ProgramVariables(
        cluster={"config": ("SLURM_CONF",)},
        dropped=re.compile(r"(SLURM|SBATCH|SQUEUE|SACCT|SCANCEL|SALLOC|SRUN|SINFO|PMI|PMIX)_?\w*"),
    )
    release_hint: ClassVar[str] = "scontrol release ID lets them go"
    key_names: ClassVar[frozenset[str]] = frozenset((*COMPONENT_NAMES, *JOB_NAMES, *SITE_NAMES))
    run_keys: ClassVar[frozenset[str]] = frozenset({"use_nice", "time_origin", "nice_factor"})
    engine_keys: ClassVar[frozenset[str]] = frozenset({"partition", "qos", "reserv", "wckey"})
    directive: ClassVar[str] = "#SBATCH"
    raw_key: ClassVar[str] = "sbatch"
    restart_count: ClassVar[str] = '"${SLURM_RESTART_COUNT:-0}"'
    task_index: ClassVar[str] = '"$((SLURM_ARRAY_TASK_ID + 1))"'

    # ------------------------------------------------------------------------------------------------ environment

    def cluster_key(self, environment: Mapping[str, str]) -> str:
        """Return the configuration file and the name of the cluster."""
        return f"{super().cluster_key(environment)}\0{self.settings.get('clusters') or ''}"

    def query_call(self, program: str, *words: str) -> ProgramCall:
        """Return a call with the option that selects the cluster."""
        return ProgramCall((program, *self._cluster_option, *words), timeout_s=SHORT_S)

    @property
    def _cluster_option(self) -> tuple[str, ...]:
        """The option of the programs that selects one of the clusters that they know (sbatch(1): --clusters)."""
        clusters = self.settings.get("clusters")
        return (f"--clusters={clusters}",) if clusters else ()

    # ----------------------------------------------------------------------------------------------------- submit

    def check_site(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` or `ValueError` for an invalid setting of the site."""
        self.check_job(own)
        scale(own)

    def check_job(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an unknown name, two spellings of one name, or a missing index."""
        component_count(own)
        omitted_options(own)

    normalize = staticmethod(normalize_names)

    allocations = staticmethod(allocations)

    contradictions = staticmethod(contradictions)

    def directives(self, job: JobSpec) -> Iterator[str]:
        """Return the options of sbatch."""
        refuse_buffer_lines(job.raw)
        return directives(job, components(with_nice(job), site_options(job)))

    def render(self, job: JobSpec, template: str, **words: str) -> str:
        """Render a script with the lines for burst buffers."""
        return insert_buffer_lines(super().render(job, template, **words), buffer_lines(job.own))

    def plain_name(self, name: str) -> str:
        """Return a name that Slurm and its filters accept."""
        return re.sub(r"[^A-Za-z0-9._:-]+", "_", name)

    def node_launcher(self, nodes: int, cpus: int) -> StepLauncher:
        """Return the step that starts a command on each node, and ends all if one fails."""
        return StepLauncher(
            # Without --wait=0, the configuration may end all tasks some time after the first one that ended well.
            prefix=f'srun --export=ALL --nodes={nodes} --ntasks={nodes} --cpus-per-task="${{SLURM_CPUS_PER_TASK:-1}}" '
            "--wait=0 --kill-on-bad-exit=1",
            index="$SLURM_PROCID",
            settings={"nodeCount": nodes, "tasksPerNode": 1},
        )

    def takes_array(self, own: Mapping[str, YamlValue]) -> bool:
        """Whether jobs have one component: Slurm accepts no arrays of heterogeneous jobs."""
        return component_count(own) == 1

    priority = staticmethod(nice_value)

    def submit_call(self, script: str, options: Sequence[str]) -> ProgramCall:
        """Return a call of sbatch, which reads the script from its input."""
        words = ("sbatch", "--parsable", *self._cluster_option, *options)
        return ProgramCall(words, stdin=script, timeout_s=SUBMIT_S)

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
        return cluster.cluster_facts(config, licences)

    def queue_call(self, user: str) -> ProgramCall:
        """Return the call of squeue."""
        words = ("squeue", "--noheader", "--array", "--states=all", f"--user={user}")
        return ProgramCall((*words, *self._cluster_option, f"--format={answers.QUEUE_FORMAT}"))

    parse_queue = staticmethod(answers.queue_rows)

    def show_call(self, task: TaskId) -> ProgramCall:
        """Return the call of scontrol for one task."""
        return ProgramCall(("scontrol", *self._cluster_option, "--oneliner", "show", "job", str(task)))

    def parse_shown(self, task: TaskId, answer: ProgramResult) -> AccountRow | Unreachable | None:
        """Return what scontrol answered on a task."""
        if answer.ok:
            return answers.shown_row(task, answer.out)
        return None if answers.is_unknown_job(f"{answer.err}\n{answer.out}") else Unreachable(why=answer.why)

    def parse_shown_array(self, answer: ProgramResult) -> Mapping[TaskId, AccountRow] | Unreachable:
        """Return what scontrol answered on an array."""
        if answer.ok:
            return answers.shown_rows(answer.out)
        return {} if answers.is_unknown_job(f"{answer.err}\n{answer.out}") else Unreachable(why=answer.why)

    def boot_question(self, nodes: str) -> Question[float | None]:
        """Return the question for the times at which nodes booted."""
        return Question(self.query_call("scontrol", "--oneliner", "show", "node", nodes), answers.parse_boot_time)

    def accounting_fields_call(self) -> ProgramCall:
        """Return the call that lists the fields of this version's sacct."""
        return ProgramCall(("sacct", "--helpformat"), timeout_s=SHORT_S)

    def accounting_calls(self, tasks: Iterable[TaskId], known_fields: str) -> Iterator[ProgramCall]:
        """Return calls of sacct: fields that decide outcomes, and fields to store."""
        fields = (*answers.ACCOUNT_FIELDS, *answers.stored_fields(known_fields))
        for call in calls_with((), _names_of(tasks)):
            yield ProgramCall((*self._sacct_words(fields), f"--jobs={','.join(call.argv)}"))

    def accounting_by_name_call(self, name: str, *, since: str, user: str) -> ProgramCall:
        """Return the call of sacct for jobs of a name."""
        words = self._sacct_words(answers.ACCOUNT_FIELDS)
        return ProgramCall((*words, f"--name={name}", f"--starttime={since}", f"--user={user}"))

    def parse_accounting(self, output: str, known_fields: str = "") -> dict[TaskId, AccountRow]:
        """Return the tasks in sacct's output."""
        return answers.gathered_rows(output, answers.stored_fields(known_fields))

    reports_out_of_memory = staticmethod(answers.reports_out_of_memory)

    def _sacct_words(self, fields: Sequence[str]) -> tuple[str, ...]:
        return (
            "sacct",
            "--noheader",
            "--parsable2",
            f"--delimiter={answers.SEPARATOR}",
            f"--format={','.join(fields)}",
            *self._cluster_option,
        )

    # ------------------------------------------------------------------------------------------------------- ping

    def obstacle(self) -> str:
        """Return that the configuration file is not there: Slurm's programs would look for it for a minute."""
        path = self.environment(os.environ).get("SLURM_CONF", "")
        if not path or can_see(Path(path)):
            return ""
        name = "slurm.config" if self.settings.get("config") else "SLURM_CONF"
        return f"'{name}' is '{path}', which is not there"

    def trial_call(self, script: str) -> ProgramCall:
        """Return a call of sbatch that says whether it would take a script."""
        return ProgramCall(("sbatch", "--test-only", *self._cluster_option), stdin=script, timeout_s=SHORT_S)

    def version_question(self) -> Question[str]:
        """Return the question for sbatch's version."""
        return Question(ProgramCall(("sbatch", "--version")), lambda text: (text.split() or [""])[-1])

    def partitions_question(self) -> Question[Mapping[str, PartitionState]]:
        """Return the question for the partitions."""
        return Question(self.query_call("scontrol", "--oneliner", "show", "partition"), cluster.parse_partitions)

    accounts_question = staticmethod(cluster.accounts_question)

    qos_question = staticmethod(cluster.qos_question)

    def inventory_questions(self) -> InventoryQuestions:
        """Return the questions for what the cluster has, beside its partitions."""
        return cluster.questions(self.query_call)

    # -------------------------------------------------------------------------------------------------------- act

    def cancel_calls(self, tasks: Iterable[TaskId], *, waiting_only: bool = False) -> Iterator[ProgramCall]:
        """Return calls of scancel."""
        words = ("scancel", *self._cluster_option, *(("--state=PENDING",) if waiting_only else ()))
        return calls_with(words, tasks)

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
        return calls_with(("scontrol", *self._cluster_option, "release"), jobs)


def _names_of(tasks: Iterable[TaskId]) -> list[str]:
    """Name tasks for a query: individually, or by their array when it has many of them."""
    by_job: dict[int, list[TaskId]] = {}
    for task in tasks:
        by_job.setdefault(task.job, []).append(task)
    names: list[str] = []
    for job, these in sorted(by_job.items()):
        names += [str(job)] if len(these) > _TASKS_PER_CALL else [str(task) for task in these]
    return names


def dependency_value(parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]) -> str:
    """Build the value of ``sbatch --dependency`` for a batch's members.

    `parents` holds the parents' indices per member: the same for all, or at the member's own place in other batches.
    `records` holds the batch of each submitted job, and its position in the batch.
    """
    batches, is_by_place = parent_batches(parents, records)
    if is_by_place:
        return f"aftercorr:{':'.join(str(number) for number, _ in batches)}"
    names: list[str] = []
    for number, places in batches:
        names += [str(number)] if places is None else [f"{number}_{place}" for place in places]
    return f"afterok:{':'.join(names)}" if names else ""
