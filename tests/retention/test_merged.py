"""A merge is deleted and restored together with its originals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from memories import opening
from memories.opening import ADA, kept_ids, later

from kagent_memory import Fact, Memories

CITIES = ("Oslo", "Lima", "Paris", "Rome", "Kyoto")
SUMMARY = "The deployment went out, from Oslo to Kyoto."


def episodes(**more: Any) -> list[Fact]:
    return [Fact(f"The deployment went out to {city}", "episodic", **more) for city in CITIES]


opened = partial(opening.opened, policy="archive")


async def summed_up(memories: Memories, ids: Sequence[str]) -> str:
    """Merge memories into a summary after 91 days; return its id."""
    later(memories, days=91)
    return await opening.merged(memories, ids, SUMMARY)


@pytest.mark.parametrize(
    "part",
    [{"half_life_days": 30}, {"max_memories": 1}, {}],
    ids=["faded", "capacity", "expired"],
)
async def test_what_a_prune_erases_takes_along_what_it_stands_for(part, store_uri):
    """A summary that the prune deletes goes with its originals, each named in the dry run."""
    async with await opened(store_uri, **part) as memories:
        ids = await memories.add(ADA, episodes(importance=0.4))
        summary = await summed_up(memories, ids)
        [vital] = await memories.add(ADA, [Fact("Bob is vital", importance=1.0, pinned=True)])
        if not part:
            await memories.edit(ADA, summary, ttl_days=100)
        later(memories, days=400)
        would = await memories.prune(dry_run=True)
        assert {item.memory_id for item in would.gone} == {summary, *ids}
        assert len({item.reason for item in would.gone}) == 1
        assert len(await kept_ids(memories)) == 7
        report = await memories.prune()
        assert (report, report.gone) == (would, would.gone)
        assert await kept_ids(memories) == [vital]


async def test_what_was_replaced_stays_history_when_the_other_goes():
    """The prune deletes a faded memory without the one that it superseded."""
    async with await opened(half_life_days=30) as memories:
        [old] = await memories.add(ADA, ["Ada lives in Paris"])
        [new] = await memories.add(ADA, [Fact("Ada lives in Rome", importance=0.1)], replaces=old)
        later(memories, days=60)
        for dry_run in (True, False):
            pruned = await memories.prune(dry_run=dry_run)
            assert [item.memory_id for item in pruned.gone] == [new]
        assert await kept_ids(memories) == [old]
