"""Orders to Slurm: one after another, again where they were not taken, and no longer than somebody wants them."""

from __future__ import annotations

from longshore.services.slurm.commands.pending_commands import Order, Orders
from longshore.world.processes.shell import ProgramResult

FAILED = ProgramResult(argv=("scancel",), status=1, err="no")


class _Act:
    """Does something, as often as it must until it is taken."""

    def __init__(self, *answers: ProgramResult | None) -> None:
        self._answers = list(answers)
        self.done = 0
        self.wanted = True

    def __call__(self) -> ProgramResult | None:
        self.done += 1
        return self._answers.pop(0)

    def order(self) -> Order:
        return Order(self, lambda: self.wanted)


def test_orders_are_carried_out_one_after_another_the_urgent_first() -> None:
    orders = Orders()
    acts = [_Act(None), _Act(None), _Act(None)]
    made = [act.order() for act in acts]
    orders.give(made[0])
    orders.give(made[1])
    orders.give(made[2], first=True)
    orders.turn(0.0, timeout_s=30.0)
    assert [orders.has(order) for order in made] == [True, True, False]
    orders.turn(0.0, timeout_s=30.0)
    orders.turn(0.0, timeout_s=30.0)
    assert [act.done for act in acts] == [1, 1, 1]
    assert not any(map(orders.has, made))
    orders.turn(1.0)


def test_what_was_not_taken_is_done_again_while_it_is_wanted() -> None:
    orders, act = Orders(), _Act(FAILED, FAILED)
    order = act.order()
    orders.give(order)
    orders.turn(100.0, timeout_s=30.0)
    assert (act.done, orders.has(order)) == (1, True)
    orders.turn(105.0, timeout_s=30.0)
    assert act.done == 1
    orders.turn(110.0, timeout_s=30.0)
    assert (act.done, orders.has(order)) == (2, True)
    act.wanted = False
    orders.turn(130.0, timeout_s=30.0)
    assert (act.done, orders.has(order)) == (2, False)
