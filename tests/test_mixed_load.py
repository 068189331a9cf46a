"""Two servers and two workers on one database: what bench/mixed_load.py does for a minute, for seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kagent_memory import Fact, Memories, Scope

SCOPE, OTHER = Scope("load", "user0", "bench"), Scope("load", "user1", "bench")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "bench"))
    import mixed_load

    yield mixed_load
    for name in ("mixed_load", "growth"):
        sys.modules.pop(name, None)


async def test_nothing_is_lost_doubled_stale_or_deadlocked(bench: ModuleType, postgres_uri: str):
    outcome = await bench.load(postgres_uri, seconds=3, callers=6)
    assert outcome.faults == {}
    assert {"search", "add", "remember"} <= set(outcome.milliseconds)


async def test_the_comparison_tells_each_fault(bench: ModuleType):
    async with await Memories.open("libsql:///:memory:", worker=False) as memories:
        await memories.add(SCOPE, ["Kept.", "Forgotten.", "Of a call that failed.", "Nobody's.", "Once."])
        await memories.add(SCOPE, [Fact("Kept.", verbatim=True, event_ids=("again",))])
        await memories.add(OTHER, ["At another's.", "Once."])
        account = bench.Account()
        account.there = {"Kept.": SCOPE, "Lost.": SCOPE, "At another's.": SCOPE, "Once.": SCOPE}
        account.gone, account.open = {"Forgotten."}, {"Of a call that failed.", "Of another."}
        outcome = bench.Outcome()
        await bench.compare(memories, [account], outcome)
    assert outcome.faults == {
        "doubled": ["Kept."],
        "lost": ["At another's.", "Lost."],
        "revenants": ["Forgotten."],
        "unknown": ["At another's. (user1)", "Nobody's. (user0)", "Once. (user1)"],
    }
