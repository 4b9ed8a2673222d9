"""Pilot program: runs attempts on a node of an allocation, as an engine elsewhere orders through a shared file system.

It is run as ``python -I -S -B pilot.py MAILBOX NODE CPUS MEMORY UNTIL LEASE IDLE``: the folder of its orders and
records, the number of the node, its processors and bytes of memory, the seconds in which jobs may run (``-`` for no
end), and the seconds of its lease and of its patience without work. `longshore.services.batch.pilots.protocol`
documents orders and records. It needs nothing but the standard library and the files beside it.

It starts a guard with a keeper, which run the attempts as they do for an engine on this machine. Their records and
temporary directories lie on a disk of the node. No attempt outlives the pilot.

Nothing begins later than LEASE seconds after the newest beat that the engine has acknowledged was written. An engine
that hears nothing for longer knows by this that what has no ``got`` record will not begin here.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ not in {"__main__", "pilot"}:
    from longshore.keeper.program.kernel import become_subreaper, boot_id
    from longshore.services.batch.pilots.program.pilot_keeper import Keeper
    from longshore.services.batch.pilots.program.pilot_mailbox import Mailbox
    from longshore.services.batch.pilots.program.pilot_system import seconds_since_boot, system
    from longshore.services.batch.pilots.program.waiting_attempts import Chosen, WaitingAttempts
else:
    # The copy finds only the standard library and the modules beside it.
    sys.dont_write_bytecode = True
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from kernel import become_subreaper, boot_id
    from pilot_keeper import Keeper
    from pilot_mailbox import Mailbox
    from pilot_system import seconds_since_boot, system
    from waiting_attempts import Chosen, WaitingAttempts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from longshore.keeper.protocol import EnvironmentOrder
    from longshore.services.batch.pilots.protocol import AttemptId, BackOrder, HandOverOrder, PilotOrder

_LAST_WRITE_S = 60.0
"""Longest wait for the last records at the end."""
_BEATS_PER_LEASE = 8
_SHORTEST_BEAT_S = 0.25
"""Time between two beats while orders come."""
_PURGE_S = 1.0
"""Time between two looks for attempts that no longer fit into the time that is left."""
_MOST_CHOSEN = 2000
_AHEAD_FACTOR = 3.0
"""Attempts that are made ready ahead of room, as a multiple of those that start while a record is written."""
_RATE_S = 0.2
"""Time over which starts are counted."""
_CHECKSUM_LENGTH = len(',"c":"00000000"}')


class Pilot:
    """The pilot's loop. `words` are those of the program after its name."""

    def __init__(self, words: Sequence[str]) -> None:
        folder, node, cpus, memory, until, lease, idle = words
        self.began = seconds_since_boot()
        self.ends_at = None if until == "-" else self.began + float(until)
        self.lease_s, self.idle_s = float(lease), float(idle)
        self.wake_input, self._wake_output = system.pipe()
        system.set_blocking(self.wake_input, False)
        system.set_blocking(self._wake_output, False)
        self.mailbox = Mailbox(folder, self._wake)
        self.records = self.mailbox.records
        self.waiting = WaitingAttempts(int(cpus), int(memory))
        self.ready: deque[tuple[int, list[Chosen]]] = deque()
        """Attempts whose ``got`` record is being written, with the bytes that are durable then."""
        self.prepared: deque[Chosen] = deque()
        """Attempts whose record is on the disk, in the sequence in which they start."""
        self.ahead = 0
        """How many of the ready and prepared ones have no room reserved."""
        self.starts_per_s = 0.0
        self.started = 0
        self.counted_at = self.began
        self.running: dict[AttemptId, Chosen] = {}
        """Attempts that the keeper has."""
        self.beat = 0
        self.beats: deque[tuple[int, float]] = deque()
        """Numbers and times of beats that the engine has not acknowledged."""
        self.leased_from = self.began
        """When the newest acknowledged beat was added."""
        self.taken = 0
        """Bytes taken of the newest file of orders."""
        self.told_taken = 0
        self.beat_at = self.began
        self.busy_at = self.began
        self.purged_at = self.began
        self.why = ""
        """Why the pilot gives back what waits, and ends once nothing runs; empty while it takes work."""
        self.is_terminated = False
        self.environments = 0
        """The highest number of an environment so far."""
        self.environment_offset = 0
        """What is added to the numbers of the present engine's environments, which count from 1 in each life."""
        left = -1.0 if until == "-" else float(until)
        self.records.add(
            {
                "r": "pilot",
                "v": 1,
                "node": int(node),
                "host": system.uname().nodename,
                "boot": boot_id(),
                "pid": system.getpid(),
                "cpus": int(cpus),
                "memory": int(memory),
                "until": left,
            }
        )
        self.mailbox.start()
        self.mailbox.send()
        self.keeper = Keeper()
        # The allocation's own environment, which the others extend.
        self.keeper.send(json.dumps({"o": "env", "id": 0, "env": system.environment()}).encode())

    def _wake(self) -> None:
        try:
            system.write(self._wake_output, b"\n")
        except OSError:
            pass

    def terminate(self, *_: object) -> None:
        """Note the signal by which a scheduler announces the end of the allocation."""
        self.is_terminated = True
        self._wake()

    # -------------------------------------------------------------------------------------------------------- loop

    def run(self) -> int:
        """Carry out orders until the pilot ends; return its exit status."""
        while True:
            outputs = [self.keeper.input] if self.keeper.unsent else []
            inputs = [self.wake_input, self.keeper.news]
            readable = system.select(inputs, outputs, [], self._pause_s())[0]
            if self.wake_input in readable:
                system.read(self.wake_input, 65536)
            self.keeper.flush()
            if self.keeper.news in readable:
                self.keeper.take_news()
            if self.keeper.is_behind:
                self._forward()
            if not self.keeper.is_alive:
                return self._end("the keeper died")
            if self.keeper.has_lost_guard():
                # Nothing else would kill the jobs if this process were killed.
                return self._end("the guard died")
            now = seconds_since_boot()
            if self._has_unwritten() and now - self.mailbox.durable_at > self.lease_s:
                # What ran here is lost for the engine: it may be tried elsewhere.
                return self._end("no record could be written for %.0f s" % self.lease_s)
            self._take_orders()
            self._purge(now)
            self._start(now)
            self._add_beat(now)
            if self.running or self.ready or self.prepared or self.waiting.count:
                self.busy_at = now
            elif self.why or now - self.busy_at > self.idle_s:
                return self._end(self.why or "idle")

    def _pause_s(self) -> float:
        if self.ready or self.waiting.count:
            return 0.2
        return 0.5

    def _has_unwritten(self) -> bool:
        return self.records.durable < self.records.added

    def _end(self, why: str) -> int:
        """End what runs, write the last record, and return the exit status."""
        self.why = why
        self.keeper.close()
        self.records.add({"r": "closed", "why": why})
        return 0 if self.mailbox.finish(_LAST_WRITE_S) else 1

    # ------------------------------------------------------------------------------------------------------ orders

    def _take_orders(self) -> None:
        while self.mailbox.inbox:
            orders, changes, taken = self.mailbox.inbox.popleft()
            for line in orders:
                self._carry_out(line)
            for new, old, offset in changes:
                self.records.add({"r": "gen", "g": new, "was": old, "at": offset})
                self.environment_offset = self.environments
                self.mailbox.send()
            self.taken = taken

    def _carry_out(self, line: bytes) -> None:
        order: PilotOrder = json.loads(line)
        if order["o"] == "run":
            self._take(order)
        elif order["o"] == "env":
            self._add_environment(order)
        elif order["o"] == "ack":
            while self.beats and self.beats[0][0] <= order["k"]:
                self.leased_from = self.beats.popleft()[1]
        elif order["o"] == "kill":
            wanted = {(job, attempt) for job, attempt in order["m"]}
            self._give_back(self.waiting.remove(wanted.__contains__) + self._remove_ready(wanted))
            if wanted & self.running.keys():
                self.keeper.send(line)
        elif order["o"] == "back":
            self._return_newest(order)
        else:
            self.why = "ordered"

    def _take(self, order: HandOverOrder) -> None:
        for place in (order["p"], *order["m"]):
            if place.get("e"):
                place["e"] += self.environment_offset
        self._give_back(self.waiting.add(order))

    def _add_environment(self, order: EnvironmentOrder) -> None:
        order["id"] += self.environment_offset
        if order.get("on"):
            order["on"] += self.environment_offset
        self.environments = max(self.environments, order["id"])
        self.keeper.send(json.dumps(order).encode())

    def _return_newest(self, order: BackOrder) -> None:
        if "m" in order:
            wanted = {(job, attempt) for job, attempt in order["m"]}
            self._give_back(self.waiting.remove(wanted.__contains__))
        else:
            self._give_back(self.waiting.remove_newest(order["n"]))

    def _give_back(self, attempts: Sequence[AttemptId]) -> None:
        if attempts:
            self.records.add({"r": "never", "m": attempts})
            self.mailbox.send()

    def _remove_ready(self, wanted: set[AttemptId] | None = None) -> list[AttemptId]:
        """Remove attempts that the keeper does not have yet, all by default, and return them."""
        gone: list[AttemptId] = []
        for members in (*(members for _, members in self.ready), self.prepared):
            for chosen in [each for each in members if wanted is None or each.attempt in wanted]:
                members.remove(chosen)
                gone.append(chosen.attempt)
                if chosen.has_room:
                    self.waiting.release(chosen.cpus, chosen.memory)
                else:
                    self.ahead -= 1
        return gone

    def _purge(self, now: float) -> None:
        """Give back what can no longer run here."""
        if self.is_terminated and self.why != "terminated":
            self.why = "terminated"
            order = {"o": "kill", "m": list(self.running), "sig": int(signal.SIGTERM)}
            self.keeper.send(json.dumps(order).encode())
        if self.why:
            self._give_back(self.waiting.remove_longer(0.0) + self._remove_ready())
        elif self.ends_at is not None and now - self.purged_at >= _PURGE_S:
            self.purged_at = now
            self._give_back(self.waiting.remove_longer(self.ends_at - now))

    # ------------------------------------------------------------------------------------------------------- start

    def _start(self, now: float) -> None:
        """Choose attempts, and start those whose ``got`` record is on the disk."""
        if now - self.leased_from <= self.lease_s and not self.why:
            self._announce(now)
        while self.ready and self.ready[0][0] <= self.records.durable:
            self.prepared += self.ready.popleft()[1]
        begun: list[Chosen] = []
        while self.prepared and seconds_since_boot() - self.leased_from <= self.lease_s:
            if not self.prepared[0].has_room:
                if not self.waiting.reserve(self.prepared[0]):
                    break
                self.ahead -= 1
            chosen = self.prepared.popleft()
            self.running[chosen.attempt] = chosen
            begun.append(chosen)
        self._order(begun)
        self._count_starts(len(begun), now)

    def _announce(self, now: float) -> None:
        """Choose attempts, and add their ``got`` record.

        While it is written, slots would idle: some are chosen before there is room, as many as start meanwhile.
        """
        left_s = math.inf if self.ends_at is None else self.ends_at - now
        chosen = [] if self.ahead else self.waiting.choose(now, most=_MOST_CHOSEN, left_s=left_s)
        most = min(_MOST_CHOSEN, int(_AHEAD_FACTOR * self.starts_per_s * self.mailbox.write_s)) - self.ahead
        if most > 0:
            chosen_ahead = self.waiting.choose_ahead(most=most, left_s=left_s)
            self.ahead += len(chosen_ahead)
            chosen += chosen_ahead
        if chosen:
            size = self.records.add({"r": "got", "m": [each.attempt for each in chosen]})
            self.ready.append((size, chosen))
            self.mailbox.send()

    def _count_starts(self, count: int, now: float) -> None:
        """Measure how many attempts start in a second."""
        self.started += count
        if now - self.counted_at >= _RATE_S:
            rate = self.started / (now - self.counted_at)
            self.starts_per_s = (self.starts_per_s + rate) / 2
            self.started, self.counted_at = 0, now

    def _order(self, chosen: Iterable[Chosen]) -> None:
        """Send attempts to the keeper."""
        by_tag: dict[str, list[bytes]] = {}
        for each in chosen:
            by_tag.setdefault(each.tag, []).append(each.text)
        for tag, texts in by_tag.items():
            self.keeper.send(b'{"o":"run","b":%s,"m":[%s]}' % (json.dumps(tag).encode(), b",".join(texts)))

    # ----------------------------------------------------------------------------------------------------- records

    def _forward(self) -> None:
        """Take the keeper's records over."""
        for line in self.keeper.read():
            is_end = line.startswith(b'{"r":"end"')
            if not is_end and not line.startswith((b'{"r":"start"', b'{"r":"exit"')):
                continue
            found = json.loads(line) if is_end or self.is_terminated else {}
            if is_end and (chosen := self.running.pop((found["j"], found["a"]), None)) is not None:
                self.waiting.release(chosen.cpus, chosen.memory)
            if not (self.is_terminated and found.get("s") == signal.SIGTERM):
                # What the end of the allocation killed did not fail: without a record of its end, it is lost.
                self.records.take(line[:-_CHECKSUM_LENGTH] + b"}")
        self.mailbox.send()

    def _add_beat(self, now: float) -> None:
        """Add a sign of life when it is due, or sooner to confirm orders to the engine."""
        pause_s = _SHORTEST_BEAT_S if self.taken != self.told_taken else self.lease_s / _BEATS_PER_LEASE
        if now - self.beat_at < pause_s:
            return
        self.beat, self.beat_at, self.told_taken = self.beat + 1, now, self.taken
        self.beats.append((self.beat, now))
        prepared = len(self.prepared) + sum(len(each) for _, each in self.ready)
        numbers = {"run": len(self.running), "wait": self.waiting.count + prepared}
        self.records.add({"r": "beat", "k": self.beat, "at": self.taken, **numbers})
        self.mailbox.send()


def main() -> None:
    """Run the pilot of one node."""
    become_subreaper()
    try:
        pilot = Pilot(sys.argv[1:])
    except OSError as error:
        sys.exit("longshore: the pilot cannot start: %s" % error)
    # Grid Engine announces the end by the last two, as its options and limits have it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGXCPU):
        signal.signal(number, pilot.terminate)
    sys.exit(pilot.run())


if __name__ == "__main__":
    main()
