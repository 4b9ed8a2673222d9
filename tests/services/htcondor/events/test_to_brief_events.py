"""Brief events leave the same state as full events."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.htcondor.log_records import BY_HAND, BY_RULE, ENDED, HELD, OOM, REQUEUED, WITH_DAG

from longshore.model.event import AttemptSucceeded, BriefEvent, Ended, Started
from longshore.reports.attempts import AttemptCollector
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JobCode, RunState
from longshore.services.htcondor.events.dag_jobs import DagNodes, NodeRetries
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.events.log_records import UserLog
from longshore.services.htcondor.events.to_events import BriefEventBuilder, EventBuilder

DATA = Path(__file__).resolve().parents[3] / "data" / "htcondor"
FAILED = ENDED.replace(b"value 0", b"value 3")


class Run:
    """A run of some jobs, and the log that its DAGMan writes."""

    def __init__(self, log: Path, parents: list[tuple[int, ...]], *, retries: int = 0, final: bool = False) -> None:
        self.log = log
        self.parents = parents
        self.final = final
        self.retry_times = dict.fromkeys(range(len(parents)), retries) if retries else {}
        self.seconds = 0
        log.write_bytes(b"")

    def write(self, kind: int, cluster: int, body: bytes) -> None:
        self.seconds += 1
        at = f"2026-11-22 06:{self.seconds // 60:02}:{self.seconds % 60:02}"
        with self.log.open("ab") as file:
            file.write(f"{kind:03} ({cluster:03}.000.000) {at} ".encode() + body + b"\n...\n")

    def submit(self, node: str, cluster: int) -> None:
        self.write(0, cluster, f'Job submitted\n    [ DAGNodeName = "{node}" ]'.encode())

    def told(
        self, *, short: bool, is_removed: bool | None = None, with_attempts: bool = False
    ) -> tuple[list[BriefEvent], JobPhases, RunState, AttemptCollector]:
        """What the log leaves behind, once DAGMan is over unless ``is_removed`` is left out."""
        phases = JobPhases(len(self.parents))
        nodes = DagNodes(len(self.parents), final=self.final)
        builder = EventBuilder(phases, nodes=nodes, retries=NodeRetries(self.retry_times))
        log = UserLog(self.log)
        news: list[BriefEvent] = []
        if short:
            news += BriefEventBuilder(builder, log, with_attempts=with_attempts).events()
        else:
            for record in log.read_records():
                news += builder.convert(record)
        if is_removed is not None:
            news += builder.end_run(1e9, is_removed=is_removed, submit_failures={})
        state, attempts = (
            RunState(self.parents, [0] * len(self.parents), final=self.final),
            AttemptCollector([0] * 99, 1),
        )
        for event in news:
            apply_event(state, event)
        attempts.add(news)
        return news, phases, state, attempts


def left_behind(state: RunState, attempts: AttemptCollector) -> tuple[object, ...]:
    """All of it that is not a matter of the order in which attempts began."""
    return (
        [JobCode(code) for code in state.code],
        state.counts,
        list(state.waiting),
        list(state.attempts),
        list(state.tries),
        list(state.lost),
        state.open_jobs,
        state.is_over,
        state.compute_state(),
        state.active,
        state.cancelling,
        state.held,
        state.batches,
        state.undecided_ends,
        state.is_cancelled,
        state.last_end,
        attempts.first_start,
        {job: event.at for job, event in attempts.running.items()},
        list(attempts.failed),
        attempts.failed_ends,
        attempts.badput,
        attempts.hold_codes,
        attempts.run_s,
        attempts.ended_at,
        attempts.busy_s,
        attempts.peak_memory_b,
    )


def assert_same(run: Run, is_removed: bool | None) -> list[BriefEvent]:
    news, short, *shortly = run.told(short=True, is_removed=is_removed)
    full, long, *at_length = run.told(short=False, is_removed=is_removed)
    assert left_behind(*shortly) == left_behind(*at_length)  # type: ignore[arg-type]
    told, meant = short.save(), long.save()
    for name in (
        "attempts",
        "phase",
        "cluster",
        "attempts_before",
        "earlier_clusters",
        "job_of_cluster",
        "node_failures",
        "holds",
        "causes",
        "is_cancelled",
        "provisioner",
    ):
        assert getattr(told, name) == getattr(meant, name), name
    assert_same_attempts(run.told(short=True, is_removed=is_removed, with_attempts=True)[0], news, full)
    return news


def assert_same_attempts(detailed: list[BriefEvent], news: list[BriefEvent], full: list[BriefEvent]) -> None:
    """Whole attempts have what the full events say of start and end; all else is as without this."""
    starts = {(event.j, event.a): event for event in full if isinstance(event, Started)}
    ends = {(event.j, event.a): event for event in full if isinstance(event, Ended)}
    for event in detailed:
        if isinstance(event, AttemptSucceeded):
            start, end = starts[event.j, event.a], ends[event.j, event.a]
            assert (event.host, event.at) == (start.host, start.at)
            assert (event.end, event.t, event.run_s) == (end.end, end.t, end.run_s)
            assert (event.cpu_s, event.rss_b, end.exit, end.reason) == (end.cpu_s, end.rss_b, 0, None)


@pytest.mark.parametrize("is_removed", [None, False, True])
@pytest.mark.parametrize("path", sorted(DATA.glob("*.nodes.log")), ids=lambda path: path.name)
def test_captured_logs(path: Path, tmp_path: Path, is_removed: bool | None) -> None:
    run = Run(tmp_path / "log", [()] * 8, retries=1, final=True)
    run.log.write_bytes(path.read_bytes())
    assert assert_same(run, is_removed)


def test_a_success_is_one_event(tmp_path: Path) -> None:
    run = Run(tmp_path / "log", [(), (0,)])
    run.submit("j0", 7)
    run.write(1, 7, b"Job executing on host: <10.0.0.1:9618>")
    run.write(6, 7, b"Image size of job updated: 1")
    run.write(5, 7, ENDED + b"\n\t   Memory (MB)          :       12      128       128")
    run.submit("j1", 8)
    run.write(1, 8, b"Job executing on host: <10.0.0.1:9618>\n\tSlotName: slot1_1@node8")
    first, *others = assert_same(run, None)
    assert isinstance(first, AttemptSucceeded)
    assert (first.j, first.a, first.run_s, first.rss_b) == (0, 1, 2.0, 12 * 1024 * 1024)
    (start,) = [event for event in others if isinstance(event, Started)]
    assert start.host == "node8"


def test_invalid_text_is_skipped(tmp_path: Path) -> None:
    run = Run(tmp_path / "log", [()])
    run.log.write_bytes(
        b"000 (007.000.000) once upon a time\n...\n001 (xyz.000.000) 2026-11-22 06:00:00 x\n...\nend\n...\n"
    )
    assert not assert_same(run, None)
    run.submit("j0", 8)
    run.write(1, 8, b"Job executing")
    with run.log.open("ab") as file:
        file.write(b"005 (008.000.000) at some time\n\t(1) Normal termination (return value 0)\n...\n")
    run.write(5, 8, ENDED)
    assert assert_same(run, False)


_BODIES = st.sampled_from([REQUEUED, OOM, HELD, BY_RULE, BY_HAND, WITH_DAG, b"", ENDED, FAILED])
_NODES = {1: "j0", 2: "j1", 3: "j2", 4: "j3", 5: "provision"}
_KINDS = st.sampled_from([1, 1, 1, 4, 5, 5, 5, 6, 7, 9, 12, 13, 16, 22, 24])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just(0), st.integers(1, 5), st.none()),
            st.tuples(_KINDS, st.integers(1, 5), _BODIES),
        ),
        max_size=40,
    ),
    st.sampled_from([None, False, True]),
    st.integers(0, 1),
)
def test_any_log_of_independent_jobs(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, bytes | None]],
    is_removed: bool | None,
    retries: int,
) -> None:
    run = Run(tmp_path_factory.mktemp("run") / "log", [()] * 4, retries=retries)
    for kind, cluster, said in steps:
        if said is None:
            run.submit(_NODES[cluster], cluster)
        else:
            run.write(kind, cluster, said)
    assert_same(run, is_removed)


_ENDS = (
    (5, ENDED),
    (5, ENDED),
    (5, FAILED),
    (4, REQUEUED),
    (4, OOM),
    (12, HELD),
    (9, BY_HAND),
    (9, WITH_DAG),
    (7, b""),
)


@given(
    st.lists(st.integers(0, 999), max_size=60),
    st.lists(st.sets(st.integers(0, 6), max_size=2), min_size=7, max_size=7),
    st.sampled_from([None, False, True]),
)
def test_any_log_of_a_graph(
    tmp_path_factory: pytest.TempPathFactory, choices: list[int], above: list[set[int]], is_removed: bool | None
) -> None:
    """A job is submitted once those above it have succeeded, as DAGMan does."""
    parents = [tuple(sorted(each for each in these if each < job)) for job, these in enumerate(above)]
    run = Run(tmp_path_factory.mktemp("run") / "log", parents)
    cluster, active = 1, dict[int, bool]()
    for choice in choices:
        _, _, state, _ = run.told(short=False)
        ready = [job for job in range(7) if state.code[job] == JobCode.READY and not state.attempts[job]]
        which = choice % (len(ready) + len(active) or 1)
        if which < len(ready):
            cluster += 1
            run.submit(f"j{ready[which]}", cluster)
            active[cluster] = False
        elif active:
            each = sorted(active)[which - len(ready)]
            if not active[each]:
                run.write(1, each, b"Job executing")
                active[each] = True
                continue
            kind, body = _ENDS[choice % len(_ENDS)]
            run.write(kind, each, body)
            active[each] = False
            if kind in (5, 9):
                del active[each]
    assert_same(run, is_removed)
