"""Work in portions."""

from __future__ import annotations

import pytest

from kagent_memory.concurrency import each_aside


@pytest.mark.parametrize("size", [1, 5_000])
async def test_a_stop_iteration_of_an_item_is_an_error(size: int):
    """An item whose work stops an iteration is an error and no end of the items."""

    def work(item: int) -> int:
        return next(one for one in (1, 3) if one == item)

    assert await each_aside([1, 3, 1], lambda _: size, work) == [1, 3, 1]
    with pytest.raises(RuntimeError, match="StopIteration"):
        await each_aside([1, 2, 3], lambda _: size, work)
