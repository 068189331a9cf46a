"""The store of samples/custom_store.py keeps the whole contract, with queue and tokens in a libSQL
file.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import custom_store
import pytest
from custom_store import DictAdapter

from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.retrieval.question import Question
from kagent_memory.retrieval.search import Search
from kagent_memory.retrieval.views import past_views
from kagent_memory.stores import Adapter, EmbeddingSpaces, MemoryStore, Store, open_with
from kagent_memory.testing import StoreContract
from kagent_memory.testing.fixtures import DAY, NOW, ScopedStore, a_memory, a_scope, vector


class TestDictStore(StoreContract):
    async def open_store(self) -> Store:
        return await open_with(DictAdapter, "dict://")


async def test_what_an_adapter_lacks_is_named():
    """A store without encryption takes no keys, and an adapter without `open` opens nothing."""
    with pytest.raises(NotImplementedError, match="`open`"):
        await open_with(Adapter, "dict://")
    with pytest.raises(ConfigurationError, match="leave encryption_keys out"):
        await open_with(DictAdapter, "dict://", encryption_keys="id:" + "A" * 43)


async def test_the_past_of_any_store_is_searched_by_vectors():
    """A view of the past searches former texts by vectors, even if the store has no such view of
    its own.
    """
    store, scope = await open_with(DictAdapter, "dict://"), a_scope()
    home = ScopedStore(store, scope)
    later, space = home.at(NOW + DAY), await home.space()
    then = await home.write("then 0", "then 1", "then 2")
    await home.embed(space, {memory.id: (number, 1) for number, memory in enumerate(then)})
    since = [a_memory(f"since {number}", now=later.now) for number in range(9)]
    await later.add(*since)
    await later.embed(space, {memory.id: (0, 1) for memory in since})
    await later.change(then[0], content="something else")
    search = Search(scopes=[scope], text="", question=Question.read("", NOW), now=NOW + DAY / 2)
    _, past = await past_views(store.memories, scope, search)
    [ranking] = await past.nearest(space, [vector(0, 1)], limit=2)
    assert [id for id, _ in ranking] == [then[1].id, then[2].id]
    assert (await past.memories([then[0].id]))[then[0].id].content == "then 0"
    await store.close()


async def test_an_interrupted_forget_is_finished_by_the_next():
    """A forget that was cut off between the parts leaves nothing in the queue if repeated."""
    async with await open_with(DictAdapter, "dict://") as store:
        home = ScopedStore(store, a_scope())
        [memory] = await home.write("Ada", event_ids=("e",))
        await home.enqueue(payload={"messages": [{"event_id": "e", "text": "Ada"}]})
        companion = patch.object(store.companion, "forget", side_effect=StoreError)
        with companion, pytest.raises(StoreError):
            await home.forget(memory.id)
        await home.forget(memory.id)
        assert [job.payload for job in await home.jobs()] == [{"messages": []}]


def test_a_store_of_memories_needs_few_methods():
    """A store needs at most fifteen methods, including its spaces, and 200 lines."""
    required = MemoryStore.__abstractmethods__ | EmbeddingSpaces.__abstractmethods__
    assert len(required) <= 15
    assert len(Path(custom_store.__file__).read_text("utf-8").splitlines()) <= 200
