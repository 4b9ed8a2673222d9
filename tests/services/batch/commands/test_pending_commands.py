"""Orders to Slurm: one after another, again where they were not taken, and no longer than somebody wants them."""

from __future__ import annotations

from longshore.services.batch.client import CONFIRM_S, PendingCommand, PendingCommands
from longshore.system.programs import ProgramResult

FAILED = ProgramResult(argv=("scancel",), status=1, err="no")


class _Act:
    """Does something, as often as it must until it is taken."""

    def __init__(self, *answers: ProgramResult | None) -> None:
        self._answers = list(answers)
        self.done = 0
        self.is_wanted = True

    def __call__(self) -> ProgramResult | None:
        self.done += 1
        return self._answers.pop(0)

    def command(self) -> PendingCommand:
        return PendingCommand(self, lambda: self.is_wanted)


def test_orders_are_carried_out_one_after_another_the_urgent_first() -> None:
    orders = PendingCommands()
    acts = [_Act(None), _Act(None), _Act(None)]
    made = [run.command() for run in acts]
    orders.add(made[0])
    orders.add(made[1])
    orders.add(made[2], first=True)
    orders.run_next(0.0, timeout_s=30.0)
    assert [orders.is_pending(command) for command in made] == [True, True, False]
    orders.run_next(0.0, timeout_s=30.0)
    orders.run_next(0.0, timeout_s=30.0)
    assert [run.done for run in acts] == [1, 1, 1]
    assert not any(map(orders.is_pending, made))
    orders.run_next(1.0)


def test_what_was_not_taken_is_done_again_while_it_is_wanted() -> None:
    orders, run = PendingCommands(), _Act(FAILED, FAILED)
    command = run.command()
    orders.add(command)
    orders.run_next(100.0, timeout_s=30.0)
    assert (run.done, orders.is_pending(command)) == (1, True)
    orders.run_next(105.0, timeout_s=30.0)
    assert run.done == 1
    orders.run_next(110.0, timeout_s=30.0)
    assert (run.done, orders.is_pending(command)) == (2, True)
    run.is_wanted = False
    orders.run_next(130.0, timeout_s=30.0)
    assert (run.done, orders.is_pending(command)) == (2, False)


def test_what_had_no_effect_is_done_again_after_a_while() -> None:
    orders, run = PendingCommands(), _Act(None, None)
    command = run.command()
    orders.add(command)
    orders.run_next(100.0, timeout_s=30.0)
    assert (run.done, orders.is_pending(command)) == (1, False)
    orders.run_next(100.0 + CONFIRM_S - 1, timeout_s=30.0)
    assert run.done == 1
    orders.run_next(100.0 + CONFIRM_S, timeout_s=30.0)
    assert (run.done, orders.is_pending(command)) == (2, False)
    run.is_wanted = False
    orders.run_next(100.0 + 3 * CONFIRM_S, timeout_s=30.0)
    assert run.done == 2
