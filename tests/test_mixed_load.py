"""Two servers and two workers on one database: what bench/mixed_load.py does for a minute, for
a second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kagent_memory import Scope

SCOPE, OTHER = Scope("load", "user0", "bench"), Scope("load", "user1", "bench")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "bench"))
    import mixed_load

    yield mixed_load
    for name in ("mixed_load", "growth"):
        sys.modules.pop(name, None)


async def test_nothing_is_lost_doubled_stale_or_deadlocked(bench: ModuleType, postgres_uri: str):
    """Mixed load loses, doubles and deadlocks nothing."""
    outcome = await bench.load(postgres_uri, seconds=1, callers=6)
    assert outcome.faults == {}
    assert {"search", "add", "remember"} <= set(outcome.milliseconds)
