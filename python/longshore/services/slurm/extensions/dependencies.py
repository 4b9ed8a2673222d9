"""Dependencies that Slurm keeps in a native run (``mode: native``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from longshore.batch.dialect import DependencyDialect, ProgramCall, calls_with, parent_batches
from longshore.batch.jobs import AccountRow
from longshore.batch.records import BatchRecord
from longshore.services.slurm.extensions.federation import cluster_option


class SlurmDependencies(DependencyDialect):
    """Slurm's part of a native run."""

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
        return calls_with(("scontrol", *cluster_option(self.settings), "release"), jobs)


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
