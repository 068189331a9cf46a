"""Policies and their parts: presets, decay, what is old and unused, capacity, times to live by type
and tag; and the prune, which gives a reason for each memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory import Fact, KagentMemoryService, Memories, Message, Scope
from kagent_memory.errors import ConfigurationError
from kagent_memory.records import Memory, Usage
from kagent_memory.retention.lifecycle import has_faded, is_old_and_unused, to_memory
from kagent_memory.retrieval.ranking import RankSettings
from kagent_memory.retrieval.ranking.importance import ImportanceParts, importance, tiered_parts
from kagent_memory.settings import MemorySettings, compose
from kagent_memory.settings.policies import POLICIES
from kagent_memory.stores.base import Pruned
from kagent_memory.testing import FrozenClock

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ADA, BOB = Scope("", "ada", "app"), Scope("acme", "bob", "app")


async def opened(uri: str = "libsql:///:memory:", **options: Any) -> Memories:
    return await Memories.open(uri, **{"llm": False, "worker": False, **options})


async def texts(memories: Memories, scope: Scope = ADA) -> set[str]:
    return {memory.content for memory in (await memories.list(scope, limit=1000)).memories}


def aged(days: float, *, used: Usage = Usage(), **values: Any) -> Memory:
    return replace(to_memory(Fact("x", **values), now=NOW - days * DAY, ttl_days=0), usage=used)


def reasons(pruned: Pruned) -> dict[str, str]:
    return {one.memory_id: one.reason for one in pruned.gone}


# -- one setting, and what stands beside it ------------------------------------------------------


def test_a_policy_sets_what_nobody_sets() -> None:
    """A policy sets what nobody sets and kagents is the default."""
    default = MemorySettings()
    assert default == MemorySettings(policy="kagent")
    assert (
        default.ttl_days,
        default.popular_after,
        default.max_memories,
        default.half_life_days,
    ) == (15, 10, 0, 0)
    archive = MemorySettings(policy="archive")
    assert (archive.ttl_days, archive.max_memories, archive.half_life_days) == (0,) * 3
    tiers = MemorySettings(policy="tiers")
    assert (tiers.ttl_days, tiers.max_memories, tiers.prune_every_hours) == (90, 10_000, 168)
    assert tiers.half_life_days == 30
    assert [policy.unimportant_after_days for policy in POLICIES.values()] == [0, 0, 180]
    assert [policy.importance_boost for policy in POLICIES.values()] == [0, 0, 0.1]
    assert MemorySettings(policy="tiers", ttl_days=15).ttl_days == 15


@pytest.mark.parametrize(
    ("uri", "environ", "options", "expected"),
    [
        ("libsql:///x.db?policy=tiers", {}, {}, ("tiers", 90, 10_000)),
        ("libsql:///x.db", {"POLICY": "tiers", "TTL_DAYS": "15"}, {}, ("tiers", 15, 10_000)),
        ("libsql:///x.db?ttl_days=7", {"MAX_MEMORIES": "0"}, {"policy": "tiers"}, ("tiers", 7, 0)),
        (
            "libsql:///x.db?policy=tiers&max_memories=3",
            {},
            {"policy": "archive"},
            ("archive", 0, 3),
        ),
        ("libsql:///x.db?policy=archive", {"POLICY": "tiers"}, {}, ("archive", 0, 0)),
    ],
)
def test_what_is_set_anywhere_counts_before_the_policy(
    uri: str, environ: dict[str, str], options: dict[str, Any], expected: tuple[str, int, int]
) -> None:
    """What is set anywhere counts before the policy wherever that is chosen."""
    named = {f"KAGENT_MEMORY_{name}": value for name, value in environ.items()}
    _, settings = compose(uri, None, options, named)
    assert (settings.policy, settings.ttl_days, settings.max_memories) == expected


def test_another_policy_replaces_what_the_former_one_set() -> None:
    """Another policy replaces what the former one set and nothing else."""
    settings = MemorySettings(policy="tiers", popular_after=3, half_life_days=7).updated(
        {"policy": "archive"}
    )
    assert settings == MemorySettings(policy="archive", popular_after=3, half_life_days=7)
    assert settings.updated({"search_limit": 9}).policy == "archive"


@pytest.mark.parametrize("wrong", ["Tiers", "kagent,tiers", 3, None])
async def test_an_unknown_policy_is_one_error_that_names_the_three(
    wrong: Any, tmp_path: Any
) -> None:
    place = tmp_path / "memory.db"
    with pytest.raises(ConfigurationError) as told:
        await Memories.open(f"libsql:///{place}", policy=wrong)
    assert all(name in str(told.value) for name in ("policy", "kagent", "archive", "tiers"))
    with pytest.raises(ConfigurationError):
        KagentMemoryService("libsql:///:memory:", policy=wrong)
    assert not place.exists()


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("ttl_days_by", "episode:3"),
        ("ttl_days_by", {"semantic": -1}),
        ("ttl_days_by", "semantic:36501"),
        ("ttl_days_by", "tag=:3"),
        ("ttl_days_by", "tag=a:3.5"),
        ("ttl_days_by", '{"episodic": 30'),
        ("ttl_days_by", 3),
        ("half_life_days", -1),
        ("half_life_days", "nan"),
    ],
)
def test_values_that_do_not_fit_are_refused(setting: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        MemorySettings().updated({setting: wrong})


# -- the parts, pure ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "nearest", "parts"),
    [
        (aged(0), 0.0, (1.0, 0.0, 1.0, 0.5, 0.9)),
        (aged(73), 0.9, (0.8, 0.0, 1.0, 0.5, 0.5)),
        (aged(4000, is_error=True), -1.0, (0.0, 0.0, 1.0, 0.9, 0.9)),
        (aged(0, used=Usage(delivered=1, delivered_total=5)), 1.0, (1.0, 0.5, 1.0, 0.5, 0.5)),
        (aged(0, used=Usage(delivered_total=11, failures=1)), 0.0, (1.0, 1.0, 0.3, 0.5, 0.9)),
    ],
)
def test_the_published_formula_to_the_letter(
    memory: Memory, nearest: float, parts: tuple[float, float, float, float, float]
) -> None:
    found = tiered_parts(memory, now=NOW, nearest=nearest)
    names = ("recency", "frequency", "success", "error", "uniqueness")
    assert found == ImportanceParts(**dict(zip(names, parts, strict=True)))
    assert importance(found) == pytest.approx(sum(parts) * 0.2)


@pytest.mark.parametrize(
    ("memory", "half_life", "faded"),
    [
        (aged(121, importance=0.8), 30, True),
        (aged(121, importance=0.8, pinned=True), 30, False),
        (aged(30, importance=0.0), 30, True),
        (aged(-9, importance=0.0), 30, False),
        (aged(9999), 1e-300, True),
    ],
)
def test_what_has_faded(memory: Memory, half_life: float, faded: bool) -> None:
    assert has_faded(memory, now=NOW, half_life_days=half_life) is faded


@pytest.mark.parametrize(
    ("memory", "after", "unused"),
    [
        (aged(180), 180, False),
        (aged(181), 180, True),
        (aged(181, pinned=True), 180, False),
        (aged(181, used=Usage(delivered_total=3)), 180, False),
    ],
)
def test_what_is_old_and_unused(memory: Memory, after: int, unused: bool) -> None:
    assert is_old_and_unused(memory, now=NOW, after_days=after) is unused


@pytest.mark.parametrize(
    "text", ["episodic:3, tag=note: it:0", '{"episodic": 3, "tag=note: it": "0"}']
)
def test_times_to_live_by_type_and_tag_are_also_read_from_text(text: str) -> None:
    assert MemorySettings().updated({"ttl_days_by": text}).ttl_days_by == {
        "episodic": 3,
        "tag=note: it": 0,
    }


# -- in effect
# --------------------------------------------------------------------------------------


async def test_a_ttl_is_of_the_memory_its_tag_its_type_or_the_policy(store_uri: str) -> None:
    """The time to live is that of the memory its tag its type or the policy."""
    clock = FrozenClock(NOW)
    options = {"ttl_days_by": "episodic:30,tag=invoice:3650,tag=note: it:0"}
    async with await opened(
        store_uri, policy="tiers", short_term_hours=0, clock=clock, **options
    ) as memories:
        ids = await memories.add(
            ADA,
            [
                "by policy",
                Fact("by type", type="episodic"),
                Fact("by tag", type="episodic", tags=("invoice",)),
                Fact("never", tags=("note: it",)),
                Fact("its own", tags=("invoice",), ttl_days=2),
            ],
        )
        found = [(await memories.get(ADA, id)).expires_at for id in ids]
        assert found == [NOW + 90 * DAY, NOW + 30 * DAY, NOW + 3650 * DAY, None, NOW + 2 * DAY]
        await memories.remember(ADA, [Message(text="Ada sails", event_id="e1")], "s1")
        await memories.work(until_idle=True)
        [turn] = [one for one in (await memories.list(ADA)).memories if "sails" in one.content]
        assert (turn.type, turn.expires_at) == ("episodic", NOW + 30 * DAY)


async def test_in_an_archive_nothing_goes_however_old(store_uri: str) -> None:
    clock = FrozenClock(NOW)
    async with await opened(store_uri, policy="archive", clock=clock) as memories:
        await memories.add(ADA, ["Ada sails", Fact("Grace paints", importance=0)])
        clock.now = NOW + 36_500 * DAY
        assert await memories.prune() == Pruned()
        assert await texts(memories) == {"Ada sails", "Grace paints"}


async def test_a_prune_gives_each_memory_that_goes_with_its_reason(store_uri: str) -> None:
    clock = FrozenClock(NOW)
    options: dict[str, Any] = {"policy": "tiers", "max_memories": 4, "half_life_days": 100}
    async with await opened(store_uri, clock=clock, **options) as memories:
        days = ("expired", "faded", "unimportant", "pinned", "used", "high")
        facts = {
            "expired": Fact("Rent is due on Monday", ttl_days=30),
            "faded": Fact("Bob skis in Davos", ttl_days=0, importance=0.1),
            "unimportant": Fact("The gateway restarts nightly", ttl_days=0, importance=1.0),
            "pinned": Fact("The spare key is with Grace", pinned=True, importance=0.0),
            "used": Fact("Ada sails near Bergen", ttl_days=0, importance=1.0),
            "high": Fact("Lima was cold in June", ttl_days=0, importance=1.0),
        }
        ids = dict(zip(days, await memories.add(ADA, list(facts.values())), strict=True))
        theirs = await memories.add(BOB, [Fact("Bob paints", ttl_days=1)])
        await memories.feedback(ADA, ids["unimportant"], success=False)
        for _ in range(3):
            memories.parts.deliveries.count(ADA, retrieved=[ids["used"]], delivered=[ids["used"]])
            await memories.drain()
        clock.now = NOW + 181 * DAY
        fresh = await memories.add(ADA, [f"A fresh note, number {number}" for number in range(4)])
        would = await memories.prune(dry_run=True)
        assert would == Pruned(deleted=2, faded=1, unimportant=1, evicted=3)
        told = reasons(would)
        assert {name for name in days if told.get(ids[name]) == name} == {
            "expired",
            "faded",
            "unimportant",
        }
        assert told[theirs[0]] == "expired"
        assert {one.scope for one in would.gone if one.memory_id == theirs[0]} == {BOB}
        assert ids["pinned"] not in told
        assert list(told.values()).count("capacity") == 3
        assert len(await texts(memories)) == 9  # a dry run leaves all there
        done = await memories.prune()
        assert (done, sorted(reasons(done))) == (would, sorted(told))
        assert len(await texts(memories)) == 4
        assert await memories.prune() == Pruned()
        assert {memory.id for memory in (await memories.list(ADA)).memories} <= {
            *fresh,
            *ids.values(),
        } - set(told)


async def test_the_importance_boost_of_a_policy_moves_the_ranking() -> None:
    async def first(**options: Any) -> str:
        async with await opened(**options) as memories:
            ids = await memories.add(
                ADA, ["Grace paints boats in Bergen harbour", "Grace paints boats in Bergen port"]
            )
            order = [
                hit.memory.id
                for hit in await memories.recall(ADA, "who paints boats in Bergen", deliver=False)
            ]
            for _ in range(9):
                await memories.feedback(ADA, order[0], success=False)
            again = await memories.recall(ADA, "who paints boats in Bergen", explain=True)
            assert set(order) == set(ids)
            return "moved" if again[0].memory.id != order[0] else "stays"

    assert await first(policy="tiers") == "moved"
    assert await first() == "stays"
    assert await first(rank=RankSettings(standing=0.3)) == "moved"
