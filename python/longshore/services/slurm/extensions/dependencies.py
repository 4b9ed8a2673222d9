"""Values of ``sbatch --dependency`` (pure functions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longshore.batch.records import BatchRecord


def dependency_value(parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]) -> str:
    """Build the value of ``sbatch --dependency`` for a batch's members.

    `parents` holds the parents' indices per member: the same for all, or at the member's own place in other batches.
    `records` holds the batch of each submitted job, and its position in the batch.
    """
    positions: dict[str, list[int]] = {}
    found: dict[str, BatchRecord] = {}
    for job in parents[0]:
        batch_record, position = records[job]
        positions.setdefault(batch_record.tag, []).append(position)
        found[batch_record.tag] = batch_record
    if any(set(each) != set(parents[0]) for each in parents):
        return f"aftercorr:{':'.join(str(batch_record.id) for batch_record in found.values())}"
    names: list[str] = []
    for tag, these in positions.items():
        batch_record = found[tag]
        if len(these) == len(batch_record.members):
            names.append(str(batch_record.id))
        else:
            names += [f"{batch_record.id}_{position}" for position in sorted(these)]
    return f"afterok:{':'.join(names)}" if names else ""
