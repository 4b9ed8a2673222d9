"""The search for garbage: off inside of a block, and as it was behind it, whatever happens inside."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from longshore.model.tasks import collection_paused


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_as_before_behind_a_block_and_a_block_in_a_block(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_an_error_inside_leaves_it_on() -> None:
    gc.enable()
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()
