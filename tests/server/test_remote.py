"""The verbs through a server: the same arguments, answers and errors; and a KagentMemoryService on
top.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest

from kagent_memory.errors import ConfigurationError, Conflict, InvalidInput, NotFound, StoreError
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Message, Scope
from kagent_memory.remote import RemoteMemories, open_memories
from kagent_memory.server.auth import Access
from kagent_memory.settings import MemorySettings

from .ground import axis, served

SCOPE = Scope("", "ada", "demo/with ünïcode")


async def _opened() -> Memories:
    return await Memories.open("libsql:///:memory:")


@pytest.fixture
def address() -> Iterator[str]:
    with served(_opened) as base:
        yield base


async def test_every_verb_gives_what_the_store_would(address: str):
    """Each verb of a server's memories answers as the store's own would."""
    async with await open_memories(address) as memories:
        assert isinstance(memories, RemoteMemories)
        assert memories.mode == "keyword"
        happened = datetime(2026, 1, 2, tzinfo=UTC)
        told: dict[str, Any] = {
            "topics": ("tea",),
            "metadata": {"n": 1},
            "happened_at": happened,
            "author": "Ada",
            "category": "%",
            "ttl_days": 3,
        }
        [id] = await memories.add(SCOPE, [Fact("Ada likes tea", **told)], who="me")
        got = await memories.get(SCOPE, id)
        assert (got.content, {name: getattr(got, name) for name in told}) == ("Ada likes tea", told)
        only = Filter(topics=("tea",), author="Ada", category="%")
        assert [
            hit.memory.id
            for hit in await memories.recall(
                [SCOPE, replace(SCOPE, user="eve")], "tea?", filter=only
            )
        ] == [id]
        assert (await memories.forget(SCOPE, filter=only, dry_run=True)).ids == (id,)
        assert not await memories.recall(SCOPE, "tea?", as_of=happened)
        assert (await memories.recall(SCOPE, "tea?", gate=True, tool=True)).degraded == ("gated",)
        page = await memories.list(SCOPE, filter=Filter(metadata={"n": 1}), limit=1)
        assert ([memory.id for memory in page.memories], page.cursor) == ([id], None)
        assert (await memories.edit(SCOPE, id, content="Ada likes green tea")).revision == 2
        assert [revision.kind for revision in await memories.history(SCOPE, id)] == ["edit"]
        assert (await memories.undo(SCOPE, id))[0].content == "Ada likes tea"
        assert (await memories.pin(SCOPE, id)).pinned
        await memories.feedback(SCOPE, id, success=True)
        [second] = await memories.add(SCOPE, ["Ada likes coffee"], replaces=id)
        with pytest.raises(NotFound):
            await memories.get(SCOPE, id)
        assert (await memories.get(SCOPE, id, superseded=True)).superseded_by == second
        vector = np.asarray(axis(0), dtype=np.float32)
        [third] = await memories.add(SCOPE, ["near"], embedding=[vector])
        assert third in [
            hit.memory.id for hit in await memories.recall(SCOPE, "near", embedding=vector)
        ]
        near = await memories.recall(SCOPE, "", embedding=vector, embedding_space="external-768")
        assert [hit.memory.id for hit in near] == [third]
        with pytest.raises(InvalidInput, match="No embedding space 'other'"):
            await memories.add(SCOPE, ["far"], embedding=[vector], embedding_space="other")
        job = await memories.remember(SCOPE, [Message(text="I moved to Rome", event_id="e")], "s")
        assert job
        # the worker may have been quicker
        assert [one.id for one in await memories.jobs(id=job)] in ([job], [])
        assert list(await memories.jobs(id=id)) == []
        assert await memories.drain(60)
        await memories.end_session(SCOPE, "s")
        assert list(await memories.jobs()) == []
        assert (await memories.stats(SCOPE)).visible == 3
        assert (await memories.facets(SCOPE, filter=Filter(types=("semantic",)))).total == 2
        assert (await memories.prune(dry_run=True)).deleted == 0
        assert await memories.consolidate(SCOPE, dry_run=True) == ()
        assert list(await memories.scopes()) == [SCOPE]
        assert (await memories.check())["store"] == "ok"
        assert second in await memories.forget(SCOPE, second)
        await memories.forget(SCOPE, everything=True)


async def test_errors_cross_the_wire_as_themselves(address: str):
    """An error of the server is raised as the class it had there."""
    async with await RemoteMemories.open(address) as memories:
        [id] = await memories.add(SCOPE, ["x"])
        with pytest.raises(NotFound):
            await memories.get(SCOPE, "../../info")
        with pytest.raises(Conflict):
            await memories.edit(SCOPE, id, content="y", revision=7)
        with pytest.raises(InvalidInput):
            await memories.add(SCOPE, [" "])
        deep = json.loads("[" * 900 + "]" * 900)
        for odd in (deep, object(), math.nan, "half of \ud83e"):
            with pytest.raises(InvalidInput):
                await memories.add(SCOPE, [Fact("x", metadata={"a": odd})])
            with pytest.raises(InvalidInput):
                await memories.edit(SCOPE, id, metadata={"a": odd})
    with pytest.raises(StoreError, match="cannot be reached"):
        await RemoteMemories.open("http://127.0.0.1:9")
    for uri in ("http://[", "http://host:port"):
        with pytest.raises(ConfigurationError, match=r"Invalid (server )?URI"):
            await open_memories(uri)


async def test_a_setting_of_the_server_is_never_ignored_in_silence(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """What only the server can have is refused where it is given, and warned of in the
    environment.
    """
    given: list[tuple[str, dict[str, Any]]] = [
        ("", {"embedding": "ollama/x"}),
        ("", {"search_limit": 5}),
        ("", {"pool": object()}),
        ("?ttl_days=3", {}),
        ("", {"settings": MemorySettings(min_score=0.3, tenant="acme")}),
    ]
    for query, options in given:
        with pytest.raises(ConfigurationError, match="set this where the server") as refused:
            await RemoteMemories.open(address.replace("//", "//ada:secret@") + query, **options)
        assert "secret" not in str(refused.value)
    own = MemorySettings(tenant="acme", llm=False)
    monkeypatch.setenv("KAGENT_MEMORY_TENANT", "shop")
    async with await RemoteMemories.open(address, settings=own) as memories:
        assert memories.settings.tenant == "acme"
    assert not caplog.records
    monkeypatch.setenv("KAGENT_MEMORY_SEARCH_LIMIT", "3")
    async with await RemoteMemories.open(address) as memories:
        assert memories.settings.tenant == "shop"
    assert "these of the environment have no effect here: search_limit." in caplog.text


@pytest.mark.parametrize("text", ["<!doctype html>", '{"other": "service"}', "[]", '"ok"'])
async def test_another_server_at_that_address_is_a_clear_error(text: str):
    """What is no server of ours is told as that."""
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text=text))
    with pytest.raises(StoreError, match="is not a kagent-memory server"):
        await RemoteMemories.open("http://127.0.0.1:9", transport=transport)


async def test_versions_beside_each_other_understand_each_other():
    """A client sends no defaults, and ignores what it does not know of an answer."""
    sent: list[httpx.Request] = []

    def newer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if request.url.path.endswith("/info"):
            return httpx.Response(
                200, json={"mode": "keyword", "needs_model": False, "colour": "red"}
            )
        if request.url.path.endswith("/stats"):
            return httpx.Response(200, json={"visible": 2, "dreams": {"a": 1}})
        return httpx.Response(200, json=["an id"])

    async with await RemoteMemories.open(
        "http://127.0.0.1", transport=httpx.MockTransport(newer)
    ) as memories:
        assert (await memories.stats(SCOPE)).visible == 2
        assert await memories.add(SCOPE, ["x", Fact("y", tags=("z",))], replaces=None, who="") == [
            "an id"
        ]
    assert json.loads(sent[-1].content) == {"items": ["x", {"text": "y", "tags": ["z"]}]}
    assert dict(sent[-1].url.params) == {"app": SCOPE.app, "user": SCOPE.user}


async def test_callers_may_only_name_models_on_the_list():
    """A model that the operator does not offer is refused; a client does not name it."""
    message = [Message(text="I moved to Rome", event_id="e")]

    async def opened() -> Memories:
        return await Memories.open("libsql:///:memory:", worker=False)

    with served(opened, Access(models=frozenset({"openai/offered"}))) as address:
        async with await RemoteMemories.open(address) as memories:
            await memories.remember(SCOPE, message, "s", llm="openai/offered")
            await memories.remember(SCOPE, message, "t", llm="openai/costly")
            assert {job.model for job in await memories.jobs()} == {"openai/offered", ""}
            body = {"messages": [], "session_id": "u", "llm": "openai/costly"}
            query = {"app": "demo", "user": "ada"}
            async with httpx.AsyncClient(base_url=address) as client:
                refused = await client.post("/api/v1/sessions", params=query, json=body)
            assert (refused.status_code, "llm" in refused.json()["detail"]) == (400, True)


async def test_a_token_travels_in_the_header_and_never_in_the_location(
    monkeypatch: pytest.MonkeyPatch,
):
    """A token is sent and never shown, and binds the caller to its tenant."""
    secret = ""

    async def guarded() -> Memories:
        nonlocal secret
        memories = await _opened()
        secret, _ = await memories.tokens.create(tenant="acme")
        return memories

    with served(guarded, Access(required=True)) as address:
        with pytest.raises(ConfigurationError, match="token"):
            await RemoteMemories.open(address)
        monkeypatch.setenv("KAGENT_MEMORY_TOKEN", secret)
        async with await RemoteMemories.open(address) as memories:
            assert secret not in memories.location + repr(memories.settings)
            await memories.add(SCOPE, ["x"])
            assert [scope.tenant for scope in await memories.scopes()] == ["acme"]
