"""The store of samples/custom_store.py keeps the whole contract, with a queue and tokens in a libSQL file beside it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.retrieval.past import PastView
from kagent_memory.stores import JobQueue, MemoryStore, Store, TokenStore, open_with
from kagent_memory.stores.base import Batch
from kagent_memory.testing import StoreContract
from kagent_memory.testing.fixtures import DAY, NOW, a_memory, a_scope, add, changing, embed, vector

SAMPLE = Path(__file__).parents[2] / "samples" / "custom_store.py"


def sample():
    if "custom_store" not in sys.modules:
        spec = importlib.util.spec_from_file_location("custom_store", SAMPLE)
        module = sys.modules["custom_store"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["custom_store"]


class TestDictStore(StoreContract):
    async def open_store(self) -> Store:
        return await open_with(sample().DictStore, "dict://")


async def test_keys_are_refused_where_nothing_is_encrypted():
    with pytest.raises(ConfigurationError, match="does not encrypt"):
        await open_with(sample().DictStore, "dict://", encryption_keys="id:" + "A" * 43)


async def test_the_past_of_any_store_is_searched_by_vectors():
    store, scope, later = await open_with(sample().DictStore, "dict://"), a_scope(), NOW + DAY
    space = await store.add_embedding_space("hash", 2, None)
    then = [a_memory(f"then {number}") for number in range(3)]
    await add(store, scope, *then)
    await embed(store, scope, space, {memory.id: (number, 1) for number, memory in enumerate(then)})
    since = [a_memory(f"since {number}", now=later) for number in range(9)]
    await add(store, scope, *since, now=later)
    await embed(store, scope, space, {memory.id: (0, 1) for memory in since})
    reworded = changing(then[0], now=later, content="something else")
    await store.apply(scope, Batch(changes=[reworded]), now=later)
    [past] = await PastView.all_at(store, None, [scope], NOW)
    [near] = await past.nearest(space.number, [vector(0, 1)], limit=2)
    assert [id for id, _ in near] == [then[1].id, then[2].id]
    assert (await past.memories([then[0].id]))[then[0].id].content == "then 0"
    await store.close()


def test_a_store_of_memories_alone_needs_seventeen_methods_at_most():
    assert len(MemoryStore.__abstractmethods__) <= 17
    assert not issubclass(sample().DictStore, JobQueue | TokenStore)
