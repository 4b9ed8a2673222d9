"""Pictures of labels and of the neighborhood of one job, limited in size."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from longshore.model.report import DrawingEdge, DrawingNode
from longshore.model.states import JobState
from longshore.plan.drawings import MAX_DRAWN, JobOutline, draw_labels, draw_neighborhood, find_neighborhood


def outline(parents: list[list[int]], labels: str) -> JobOutline:
    names = sorted(set(labels))
    return JobOutline(title="t", parents=parents, label_of=[names.index(label) for label in labels], labels=names)


def test_labels_stand_for_their_jobs() -> None:
    picture = draw_labels(
        outline([[], [], [0, 1], [0, 1], [2, 3]], "bbaac"), {"a": {JobState.FAILED: 1, JobState.READY: 0}}
    )
    assert picture.boxes == (
        DrawingNode(name="b", label="b", jobs=2),
        DrawingNode(name="a", label="a", jobs=2, counts={JobState.FAILED: 1}),
        DrawingNode(name="c", label="c", jobs=1),
    )
    assert picture.arrows == (DrawingEdge(start=0, end=1, jobs=4), DrawingEdge(start=1, end=2, jobs=2))


def test_neighborhood_of_a_job() -> None:
    graph = outline([[], [0], [1], [1], [2, 3], [4]], "abccde")
    near = find_neighborhood(graph, 1, 1)
    assert (near.jobs, near.arrows, near.left_out) == ((0, 1, 2, 3), ((0, 1), (1, 2), (1, 3)), {})
    assert find_neighborhood(graph, 1, 2).jobs == (0, 1, 2, 3, 4)
    assert find_neighborhood(graph, 5, 10).jobs == (0, 1, 2, 3, 4, 5)


def test_excess_jobs_are_counted_in_one_box() -> None:
    size = 100_000
    graph = outline([[], *[[0]] * size, list(range(1, size + 1))], "a" + "b" * size + "c")
    for job, arrow in ((0, (0, MAX_DRAWN + 1)), (size + 1, (MAX_DRAWN + 1, MAX_DRAWN))):
        near = find_neighborhood(graph, job, 1)
        assert len(near.jobs) == MAX_DRAWN + 1
        picture = draw_neighborhood(
            graph, near, job, {each: f"j{each}" for each in near.jobs}, {near.jobs[0]: JobState.READY}
        )
        assert picture.boxes[-1] == DrawingNode(
            name=f"{size - MAX_DRAWN} more", label="b", jobs=size - MAX_DRAWN, more=True
        )
        assert (picture.arrows[-1].start, picture.arrows[-1].end) == arrow
        assert [box.name for box in picture.boxes if box.here] == [f"j{job}"]
        assert picture.boxes[0].counts == {JobState.READY: 1}


@given(
    st.integers(1, 14).flatmap(
        lambda size: st.tuples(
            st.lists(st.lists(st.integers(0, size), max_size=4, unique=True), min_size=size, max_size=size),
            st.lists(st.sampled_from("abc"), min_size=size, max_size=size),
            st.integers(0, size - 1),
            st.integers(1, 4),
        )
    )
)
def test_neighborhood_agrees_with_a_walk(drawn: tuple[list[list[int]], list[str], int, int]) -> None:
    raw, labels, job, depth = drawn
    parents = [[other for other in these if other < each] for each, these in enumerate(raw)]
    near = find_neighborhood(outline(parents, "".join(labels)), job, depth)
    children: dict[int, set[int]] = {}
    for each, these in enumerate(parents):
        for other in these:
            children.setdefault(other, set()).add(each)
    expected = {job}
    for neighbours in (dict(enumerate(map(set, parents))), children):
        layer = {job}
        for _ in range(depth):
            layer = {other for each in layer for other in neighbours.get(each, set())}
            expected |= layer
    assert not near.left_out, "there are fewer than would be left out"
    assert set(near.jobs) == expected
    assert all(start in parents[end] for start, end in near.arrows)


def test_arrows_of_labels_add_up() -> None:
    parents = [[], [0], [0, 1], [1, 2], [0, 3]]
    picture = draw_labels(outline(parents, "ababa"))
    assert sum(arrow.jobs for arrow in picture.arrows) == sum(map(len, parents))
    assert Counter({box.label: box.jobs for box in picture.boxes}) == Counter("ababa")
