"""One recall over several scopes, over all of a user's agents, over a tenant: ranked as if all lay
in one.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from kagent_memory import Fact, Filter, InvalidInput, Memories, Recall, Scope, Scopes
from kagent_memory.memories import memories as module
from kagent_memory.records import new_id
from kagent_memory.stores.values import Batch
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import NOW, a_memory, adding, vector
from memories.opening import contents, opened

OWN, TEAM, OTHER = (
    Scope("acme", "ada", "desk"),
    Scope("acme", "team", "desk"),
    Scope("acme", "ada", "shop"),
)
STRANGERS = Scope("rival", "ada", "desk")
SIZES = {OWN: 4, TEAM: 260, OTHER: 60}
WORDS = re.findall(
    r"\w+",
    "kettle parrot ladder invoice harbour violin ticket garden copper window meeting "
    "engine blanket river candle basket mirror planet saddle thunder wallet zebra "
    "oolong lantern pepper",
)
QUERIES = (
    "Where is the oolong kettle?",
    "Which invoice came with the copper ladder?",
    "What did Grace say about the violin? And where is the zebra?",
    "What happened on 3 March 2026?",
    "parrot",
    "",
)


def facts(seed: int, count: int, session: str) -> list[Fact]:
    chance = random.Random(seed)
    return [
        Fact(
            (
                f"{chance.choice(['Grace', 'Ada', 'Bo'])} put the "
                f"{' and the '.join(chance.sample(WORDS, 4))} on shelf {n}"
            )
            + chance.choice([".", "?"]),
            author=chance.choice(["Grace", "Ada", None]),
            session_id=f"{session}{n // 9}",
            importance=round(chance.random(), 2),
            tags=("even",) if n % 2 == 0 else (),
            happened_at=NOW + timedelta(days=n % 40 - 20),
        )
        for n in range(count)
    ]


@pytest.fixture(params=["keyword", "hybrid"])
async def filled(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Memories, Scope]]:
    """Memories in three scopes whose sessions have the same names, and all of them in one with
    names of their own.
    """
    embedder = HashEmbedder(64) if request.param == "hybrid" else None
    async with await opened(embedding=embedder, clock=lambda: NOW) as memories:
        whole = Scope("acme", "all", "in one")
        for number, (scope, count) in enumerate(SIZES.items()):
            await memories.add(scope, facts(number, count, "s"))
            await memories.add(whole, facts(number, count, f"{scope.user} {scope.app} "))
        await memories.add(STRANGERS, facts(9, 30, "s"))
        yield memories, whole


def shown(recall: Recall) -> list[tuple[str, float, float | None]]:
    return [(hit.memory.content, round(hit.score, 9), hit.cosine) for hit in recall]


OPTIONS: list[dict[str, Any]] = [
    {"limit": 10},
    {"limit": 70, "explain": True},
    {"limit": 10, "filter": Filter(tags=("even",), min_importance=0.3)},
    {"limit": 20, "budget_tokens": 60},
    {"limit": 20, "min_score": 0.35},
    {"limit": 5, "history": ["Tell me of the lantern in the garden"]},
]


async def test_several_scopes_are_ranked_as_one(filled: tuple[Memories, Scope]):
    """Several scopes are ranked as one that holds all their memories."""
    memories, whole = filled
    for options, query in product(OPTIONS, QUERIES):
        together = await memories.recall([TEAM, OWN, OTHER], query, **options)
        in_one = await memories.recall(whole, query, **options)
        assert shown(together) == shown(in_one), (options, query)
        assert together.mode == in_one.mode
        if options.get("explain"):
            assert [hit.why for hit in together] == [hit.why for hit in in_one]
            assert len(together.left_out) == len(in_one.left_out)
            for out in together.left_out:
                assert out.scope is not None
                await memories.get(out.scope, out.memory_id)
        for hit in together:
            assert (await memories.get(hit.scope, hit.memory.id)).content == hit.memory.content


async def test_equal_ids_sessions_and_texts_of_two_scopes_stay_apart(store_uri: str):
    """Equal ids of two scopes are two memories; of equal texts one is handed over."""
    async with await opened(store_uri, clock=lambda: NOW) as memories:
        id = new_id(NOW)
        for scope, text in (
            (OWN, "Ada's own tea is oolong"),
            (TEAM, "The team's tea is peppermint"),
        ):
            memory = a_memory(text, id=id, session_id="s")
            await memories.store.apply(scope, Batch(changes=adding(memory)), now=NOW)
        recall = await memories.recall([OWN, TEAM], "tea", explain=True)
        assert {(hit.scope, hit.memory.id, hit.memory.content) for hit in recall} == {
            (OWN, id, "Ada's own tea is oolong"),
            (TEAM, id, "The team's tea is peppermint"),
        }
        for scope in (OWN, TEAM):
            await memories.add(scope, ["The gate code is 4711."])
        recall = await memories.recall([OWN, TEAM], "gate code", explain=True)
        assert contents(recall) == ["The gate code is 4711."]
        assert "duplicate" in {out.reason for out in recall.left_out}


async def test_each_scope_counts_its_own_deliveries(store_uri: str):
    """A delivery counts in the scope of its memory."""
    async with await opened(store_uri) as memories:
        [own] = await memories.add(OWN, ["Ada's tea is oolong"])
        [team] = await memories.add(TEAM, ["The team's tea is peppermint"])
        assert len(await memories.recall([OWN, TEAM], "tea")) == 2
        assert len(await memories.recall([OWN, TEAM], "tea", explain=True)) == 2
        assert len(await memories.recall([OWN, TEAM], "tea", deliver=False)) == 2
        assert await memories.drain(60)
        counted = [await memories.get(scope, id) for scope, id in ((OWN, own), (TEAM, team))]
        assert [memory.usage.delivered for memory in counted] == [1, 1]


async def test_vectors_that_callers_bring_are_searched_in_every_scope():
    """A caller's vector is compared with those of each scope."""
    async with await opened() as memories:
        for scope, weight in ((OWN, 0.9), (TEAM, 1.0), (OTHER, 0.1)):
            await memories.add(
                scope,
                [f"what {scope.user} keeps in {scope.app}"],
                embedding=[vector(weight, 1 - weight, *[0] * 62)],
            )
        recall = await memories.recall(
            [OWN, OTHER, TEAM], "", embedding=vector(1, *[0] * 63), limit=2
        )
        assert [hit.scope for hit in recall] == [TEAM, OWN]
        with pytest.raises(InvalidInput, match="dimensions"):
            await memories.recall([OWN, OTHER, TEAM], "", embedding=vector(1, 0, 0))


async def test_all_agents_of_a_user_and_all_of_a_tenant(store_uri: str):
    """`Scopes` means what exists of a tenant, its user or its app, and no other tenant."""
    async with await opened(store_uri) as memories:
        bare, alike = Scope("", "ada", "desk"), Scope("acme", "ada%", "desk")
        for number, scope in enumerate((OWN, TEAM, OTHER, STRANGERS, bare, alike)):
            await memories.add(scope, [f"The tea is in tin {number}"])

        async def of(whose: Any) -> set[Scope]:
            return {hit.scope for hit in await memories.recall(whose, "tea", limit=50)}

        assert await of(Scopes(tenant="acme", user="ada")) == {OWN, OTHER}
        assert await of(Scopes(tenant="acme", app="desk")) == {OWN, TEAM, alike}
        assert await of(Scopes(tenant="acme")) == {OWN, TEAM, OTHER, alike}
        assert await of(Scopes(tenant="")) == {bare}
        assert await of([Scopes(tenant="acme", user="ada"), OWN, TEAM]) == {OWN, OTHER, TEAM}
        nobody = await memories.recall(Scopes(tenant="acme", user="nobody"), "tea")
        assert (list(nobody), nobody.mode, nobody.degraded) == ([], "keyword", ())


async def test_more_scopes_than_one_search_may_read_are_refused(monkeypatch: pytest.MonkeyPatch):
    """A search covers at least one scope and at most `MAX_SCOPES`."""
    monkeypatch.setattr(module, "MAX_SCOPES", 3)
    async with await opened() as memories:
        scopes = [Scope("acme", f"user {n}", "desk") for n in range(4)]
        for scope in scopes:
            await memories.add(scope, ["tea"])
        for none in ([], [scopes[0], "team"]):
            with pytest.raises(InvalidInput, match=r"at least one scope|instance of Scope"):
                await memories.recall(none, "tea")  # pyright: ignore[reportArgumentType]
        for whose in (scopes, Scopes(tenant="acme")):
            with pytest.raises(InvalidInput, match="at most 3 scopes"):
                await memories.recall(whose, "tea")
        assert len(await memories.recall(scopes[:3] * 9, "tea")) == 1  # equal texts take one place
