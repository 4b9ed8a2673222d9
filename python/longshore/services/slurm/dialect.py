"""Slurm's dialect: the calls of sbatch, squeue, sacct, scontrol and scancel, and what their answers mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from longshore.batch.dialect import (
    SHORT_S,
    SUBMIT_S,
    InventoryQuestions,
    ProgramCall,
    Programs,
    ProgramVariables,
    Question,
    calls_with,
)
from longshore.batch.jobs import AccountRow, ClusterFacts, QueueRow, StateTable, TaskId
from longshore.batch.scripts.job_spec import JobSpec
from longshore.batch.scripts.node_launchers import StepLauncher
from longshore.batch.submit_replies import SubmitReplies
from longshore.contract.batch import Urgency
from longshore.contract.context import Unreachable
from longshore.contract.inventory import Association, PartitionState, Qos
from longshore.model.values import YamlValue
from longshore.model.workflow.allocation import Allocation
from longshore.services.slurm import inventory
from longshore.services.slurm.commands import parse, parse_cluster
from longshore.services.slurm.commands.replies import REPLIES
from longshore.services.slurm.commands.states import STATES
from longshore.services.slurm.extensions import shown_jobs
from longshore.services.slurm.extensions.accounts import accounts_question, qos_question
from longshore.services.slurm.extensions.allocation import allocations
from longshore.services.slurm.extensions.burst_buffer import buffer_lines, insert_buffer_lines, refuse_buffer_lines
from longshore.services.slurm.extensions.components import check_names, component_count, components, normalize_names
from longshore.services.slurm.extensions.dependencies import SlurmDependencies
from longshore.services.slurm.extensions.federation import cluster_option
from longshore.services.slurm.extensions.nice import nice_value, scale, with_nice
from longshore.services.slurm.extensions.pending_reasons import HOPELESS_REASONS
from longshore.services.slurm.render.directives import directives
from longshore.services.slurm.render.sbatch_options import COMPONENT_NAMES, JOB_NAMES, SITE_NAMES, site_options
from longshore.world.processes.shell import ProgramResult

_TASKS_PER_CALL: Final = 100
"""Tasks of one array that are queried individually; beyond that, the whole array is queried."""


class SlurmDialect(SlurmDependencies):
    """Slurm, as its site's map (``config``, ``clusters``) selects it."""

    name: ClassVar[str] = "slurm"
    title: ClassVar[str] = "Slurm"
    programs: ClassVar[Programs] = Programs(submit="sbatch", queue="squeue", accounting="sacct", cancel="scancel")
    states: ClassVar[StateTable] = msgspec.structs.replace(STATES, hopeless_reasons=HOPELESS_REASONS)
    submit_replies: ClassVar[SubmitReplies] = REPLIES
    variables: ClassVar[ProgramVariables] = ProgramVariables(
        cluster={"config": ("SLURM_CONF",)},
        dropped=re.compile(r"(SLURM|SBATCH|SQUEUE|SACCT|SCANCEL|SALLOC|SRUN|SINFO|PMI|PMIX)_?\w*"),
    )
    release_hint: ClassVar[str] = "scontrol release ID lets them go"
    key_names: ClassVar[frozenset[str]] = frozenset((*COMPONENT_NAMES, *JOB_NAMES, *SITE_NAMES))
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
        return cluster_option(self.settings)

    # ----------------------------------------------------------------------------------------------------- submit

    def check_site(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` or `ValueError` for an invalid setting of the site."""
        self.check_job(own)
        scale(own)

    def check_job(self, own: Mapping[str, YamlValue]) -> None:
        """Raise `ConfigError` for an invalid setting of jobs."""
        check_names(own)

    def normalize(self, own: Mapping[str, YamlValue]) -> Mapping[str, YamlValue]:
        """Return a map with each name in its first spelling."""
        return normalize_names(own)

    def allocations(self, job: JobSpec) -> tuple[Allocation, ...]:
        """Return what each component of a job asks for."""
        return allocations(job)

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

    def priority(self, own: Mapping[str, YamlValue], urgency: Urgency, facts: ClusterFacts | None) -> int | None:
        """Return the nice value for an urgency."""
        return nice_value(own, urgency, facts)

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
        return parse.cluster_facts(config, licences)

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
            return shown_jobs.shown_row(task, answer.out)
        return None if shown_jobs.is_unknown_job(f"{answer.err}\n{answer.out}") else Unreachable(why=answer.why)

    def parse_shown_array(self, answer: ProgramResult) -> Mapping[TaskId, AccountRow] | Unreachable:
        """Return what scontrol answered on an array."""
        if answer.ok:
            return shown_jobs.shown_rows(answer.out)
        return {} if shown_jobs.is_unknown_job(f"{answer.err}\n{answer.out}") else Unreachable(why=answer.why)

    def boot_question(self, nodes: str) -> Question[float | None]:
        """Return the question for the times at which nodes booted."""
        return Question(self.query_call("scontrol", "--oneliner", "show", "node", nodes), shown_jobs.parse_boot_time)

    def accounting_fields_call(self) -> ProgramCall:
        """Return the call that lists the fields of this version's sacct."""
        return ProgramCall(("sacct", "--helpformat"), timeout_s=SHORT_S)

    def accounting_calls(self, tasks: Iterable[TaskId], known_fields: str) -> Iterator[ProgramCall]:
        """Return calls of sacct: fields that decide outcomes, and fields to store."""
        fields = (*parse.ACCOUNT_FIELDS, *parse.stored_fields(known_fields))
        for call in calls_with((), _names_of(tasks)):
            yield ProgramCall((*self._sacct_words(fields), f"--jobs={','.join(call.argv)}"))

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
        return accounts_question(user, facts)

    def qos_question(self) -> Question[Mapping[str, Qos]]:
        """Return the question for the QOS."""
        return qos_question()

    def inventory_questions(self) -> InventoryQuestions:
        """Return the questions for what the cluster has, beside its partitions."""
        return inventory.questions(self.query_call)

    def capacity_question(self) -> Question[Mapping[str, int] | None]:
        """Return the question for the sizes of nodes."""
        return Question(self.query_call("sinfo", "--noheader", "--Node", "--format=%c|%m"), inventory.parse_capacity)

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


def _names_of(tasks: Iterable[TaskId]) -> list[str]:
    """Name tasks for a query: individually, or by their array when it has many of them."""
    by_job: dict[int, list[TaskId]] = {}
    for task in tasks:
        by_job.setdefault(task.job, []).append(task)
    names: list[str] = []
    for job, these in sorted(by_job.items()):
        names += [str(job)] if len(these) > _TASKS_PER_CALL else [str(task) for task in these]
    return names
