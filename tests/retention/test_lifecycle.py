"""Policies, the lives of memories, and the formulas of importance and age."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pytest
from memories.opening import ADA, DAY, START, opened

from kagent_memory import Fact, InvalidInput, Memory, Message
from kagent_memory.records import Usage
from kagent_memory.retention.lifecycle import has_faded, to_memory
from kagent_memory.retention.prune import least_first
from kagent_memory.retrieval.ranking.importance import ImportanceWeights, importance
from kagent_memory.settings import MemorySettings, compose


def aged(days: float, text: str = "x", *, used: Usage = Usage(), **values: Any) -> Memory:
    memory = to_memory(Fact(text, ttl_days=0, **values), now=START - days * DAY)
    return replace(memory, usage=used)


# -- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "values"),
    [
        ("kagent", {"ttl_days": 15, "popular_after": 10, "max_memories": 0, "half_life_days": 0}),
        ("archive", {"ttl_days": 0, "max_memories": 0, "half_life_days": 0}),
        ("tiers", {"ttl_days": 90, "max_memories": 10_000, "half_life_days": 30}),
        ("kagent", {"prune_every_hours": 24}),
        ("tiers", {"prune_every_hours": 168}),
    ],
)
def test_a_policy_sets_what_nobody_sets(policy: Any, values: dict[str, Any]):
    """A policy sets defaults of other settings, and the default policy is kagent's."""
    assert MemorySettings() == MemorySettings(policy="kagent")
    assert MemorySettings(policy=policy) == MemorySettings(policy=policy, **values)


@pytest.mark.parametrize(
    ("query", "environ", "options", "expected"),
    [
        ("policy=tiers", {}, {}, ("tiers", 90, 10_000)),
        ("", {"POLICY": "tiers", "TTL_DAYS": "15"}, {}, ("tiers", 15, 10_000)),
        ("ttl_days=7", {"MAX_MEMORIES": "0"}, {"policy": "tiers"}, ("tiers", 7, 0)),
        ("policy=tiers&max_memories=3", {}, {"policy": "archive"}, ("archive", 0, 3)),
        ("policy=archive", {"POLICY": "tiers"}, {}, ("archive", 0, 0)),
    ],
)
def test_what_is_set_anywhere_counts_before_the_policy(query, environ, options, expected):
    """An argument, the URI and the environment override the policy, wherever it is chosen."""
    named = {f"KAGENT_MEMORY_{name}": value for name, value in environ.items()}
    _, settings = compose(f"libsql:///x.db?{query}", None, options, named)
    assert (settings.policy, settings.ttl_days, settings.max_memories) == expected


def test_another_policy_replaces_what_the_former_one_set():
    """Another policy replaces the defaults of the former one and nothing else."""
    own: dict[str, Any] = {"popular_after": 3, "half_life_days": 7}
    settings = MemorySettings(policy="tiers", **own).updated({"policy": "archive"})
    assert settings == MemorySettings(policy="archive", **own)
    assert settings.updated({"search_limit": 9}).policy == "archive"


async def test_a_ttl_is_of_the_memory_its_tag_its_type_or_the_policy(store_uri: str):
    """The time to live is the memory's own, else its tag's, its type's or the policy's."""
    by: Any = {"episodic": 30, "tag=invoice": 3650, "tag=note: it": 0}
    options: dict[str, Any] = {"policy": "tiers", "ttl_days_by": by, "short_term_hours": 0}
    async with await opened(store_uri, **options) as memories:
        facts: list[tuple[Fact, int | None]] = [
            (Fact("a"), 90),
            (Fact("b", type="episodic"), 30),
            (Fact("c", type="episodic", tags=("invoice",)), 3650),
            (Fact("d", tags=("note: it",)), None),
            (Fact("e", tags=("invoice",), ttl_days=2), 2),
        ]
        ids = await memories.add(ADA, [fact for fact, _ in facts])
        expiries = [(await memories.get(ADA, id)).expires_at for id in ids]
        assert expiries == [days and START + days * DAY for _, days in facts]
        await memories.remember(ADA, [Message(text="Ada sails", event_id="e1")], "s1")
        await memories.work(until_idle=True)
        [turn] = [
            memory for memory in (await memories.list(ADA)).memories if "sails" in memory.content
        ]
        assert (turn.type, turn.expires_at) == ("episodic", START + 30 * DAY)


# -- formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "stored"), [(2.0, 1.0), (-1.0, 0.0), (float("nan"), 0.5), (0.3, 0.3)]
)
def test_importance_stays_within_0_to_1(value: float, stored: float):
    """An importance out of range is clamped; NaN becomes the default."""
    assert aged(0, importance=value).importance == stored


USED = Usage(delivered_total=9, successes=3, failures=0, last_delivered_at=START - 30 * DAY)
SEVERE = (0.5, math.log(10) / math.log(101), 0.8, 0.8, 0.75)


def parts(memory: Memory, **options: Any) -> list[float]:
    """Return each part of a memory's importance, weighed alone."""
    none = dict.fromkeys(asdict(ImportanceWeights()), 0.0)
    alone = [ImportanceWeights(**{**none, part: 1.0}) for part in none]
    return [importance(memory, weights=weights, **options) for weights in alone]


@pytest.mark.parametrize(
    ("memory", "nearest", "expected"),
    [
        (aged(30, importance=0.8, is_error=True, used=USED), 0.25, SEVERE),
        (aged(-1, importance=0.8), -0.3, (1.0, 0.0, 0.5, 0.0, 1.0)),
    ],
)
def test_each_part_of_the_importance_formula_has_its_value(memory, nearest, expected):
    """Importance is the mean of recency, frequency, success, severity and uniqueness."""
    options = {"now": START, "nearest": nearest}
    assert parts(memory, **options) == pytest.approx(expected)
    assert importance(memory, **options) == pytest.approx(sum(expected) / 5)


def test_weights_count_by_their_proportions_and_must_make_sense():
    """Weights are shares of their sum; negative, infinite and all-zero ones are refused."""
    others = {"success": 0.0, "error": 0.0, "uniqueness": 0.0}
    weights = ImportanceWeights(recency=3, frequency=1, **others)
    assert importance(aged(0), weights=weights, now=START) == 0.75
    none = {"recency": 0.0, "frequency": 0.0, **others}
    for wrong in ({"recency": -0.1}, {"recency": float("inf")}, none):
        with pytest.raises(InvalidInput):
            ImportanceWeights(**wrong)


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
def test_what_has_faded(memory: Memory, half_life: float, faded: bool):
    """A memory has faded once its importance, halved every half-life, is below 0.05."""
    assert has_faded(memory, now=START, half_life_days=half_life) is faded


def test_the_least_important_go_first():
    """Old, unused and misleading memories are evicted first; of two equal ones only one is."""
    memories = [
        aged(0, "new"),
        aged(60, "old"),
        aged(60, "old and used", used=Usage(delivered_total=50)),
        aged(60, "old and wrong", used=Usage(failures=8)),
        aged(60, "old and severe", is_error=True, importance=1.0),
    ]
    new, old = (memory.id for memory in memories[:2])

    def chosen(likeness: Any, weights: ImportanceWeights = ImportanceWeights()) -> list[str]:
        weighs = partial(importance, weights=weights, now=START)
        return [memory.content for memory in least_first(memories, likeness, weighs)]

    assert chosen({}) == ["old and wrong", "old", "new", "old and used", "old and severe"]
    twins = {new: {old: 1.0}, old: {new: 1.0}}
    assert chosen(twins)[:3] == ["old", "old and wrong", "new"]
    by_age = ImportanceWeights(frequency=0, success=0, error=0, uniqueness=0)
    assert chosen({}, by_age)[-1] == "new"
