"""Forgetting by what memories have in common: exactly those go, with all that was made of them, and
no others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from adk.scripted import text_of, user_message
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService

from kagent_memory import (
    Change,
    Fact,
    Filter,
    InvalidInput,
    KagentMemoryService,
    Message,
    Scope,
)
from kagent_memory.stores.values import Batch, Erasure
from kagent_memory.testing import HashEmbedder
from memories import opening
from memories.opening import ADA, CANARY, GRACE, HOUR, START, kept_ids, later, listed

opened = partial(opening.opened, embedding=HashEmbedder(16))


FACTS = {
    "tea": Fact(
        "Ada likes tea", tags=("drink", "warm"), author="Ada", session_id="s1", metadata={"n": 1}
    ),
    "cocoa": Fact(
        "Ada likes cocoa", tags=("drink",), author="Grace", session_id="s1", importance=0.9
    ),
    "key": Fact(
        "The key is with Linus", tags=("home",), author="Grace", session_id="s2", ttl_days=1
    ),
    "boat": Fact("The boat is red", type="procedural", topics=("boat",), origin="agent"),
}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"tag": "drink"}, {"tea", "cocoa"}),
        ({"session_id": "s1", "author": "Grace"}, {"cocoa"}),
        ({"before": START + 2 * HOUR}, {"tea", "cocoa"}),
        (
            {"after": START + HOUR, "before": START + 3 * HOUR},
            {"cocoa", "key"},
        ),
        ({"filter": Filter(tags=("drink",)), "tag": "warm"}, {"tea"}),
        ({"filter": Filter(superseded="only")}, set()),
        ({"everything": True}, set(FACTS)),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
async def test_exactly_what_meets_every_condition_goes(options, names):
    """Conditions erase what meets all of them, expired too, and nothing of another scope."""
    async with await opened() as memories:
        ids: dict[str, str] = {}
        for name, fact in FACTS.items():
            [ids[name]] = await memories.add(ADA, [fact])
            await memories.add(GRACE, [fact])
            later(memories, hours=1)
        later(memories, days=3)  # "key" has expired, and goes all the same
        before = await listed(memories)
        doomed = await memories.forget(ADA, dry_run=True, **options)
        assert await listed(memories) == before
        assert {*doomed} == {ids[name] for name in names}
        assert {*await memories.forget(ADA, **options)} == {*doomed}
        assert {*await kept_ids(memories)} == {ids[name] for name in FACTS.keys() - names}
        assert len(await kept_ids(memories, GRACE)) == len(FACTS)


@pytest.mark.parametrize(
    ("options", "linked"),
    [
        ({"tag": "drink"}, ["boat", "key"]),
        ({"everything": True}, []),
    ],
    ids=str,
)
async def test_a_dry_run_names_what_is_linked_and_stays(options, linked, monkeypatch):
    """Conditions name the memories that say the same and do not meet them, and erase none."""
    monkeypatch.setattr("kagent_memory.memories.forgetting.MAX_AT_ONCE", 1)
    async with await opened() as memories:
        added = await memories.add(ADA, [*FACTS.values()])
        ids = dict(zip(FACTS, added, strict=True))
        changes = [
            Change(
                kind="link",
                memory=replace(
                    await memories.get(ADA, ids[name]),
                    links=tuple(ids[other] for other in others),
                    revision=2,
                ),
            )
            for name, others in {"tea": ["cocoa"], "cocoa": ["tea", "boat", "key"]}.items()
        ]
        await memories.store.apply(ADA, Batch(changes=changes), now=memories.clock())
        doomed = await memories.forget(ADA, dry_run=True, **options)
        assert {*doomed.linked} == {ids[name] for name in linked}
        assert not {*doomed.linked} & {*doomed.ids}
        assert hash(doomed) == hash(doomed.ids)
        assert not (await memories.forget(ADA, **options)).linked
        assert {ids[name] for name in linked} <= {*await kept_ids(memories)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tag": "drink", "everything": True},
        {"everything": "no"},
        {"ids": []},
        {"filter": Filter()},
        {"filter": Filter(created_after=START), "after": START},
    ],
    ids=str,
)
async def test_what_is_ambiguous_or_lets_all_through_erases_nothing(options):
    """A call that names no way, two ways, a condition twice or everything unsaid is refused."""
    async with await opened() as memories:
        await memories.add(ADA, list(FACTS.values()))
        for dry_run in (True, False):
            with pytest.raises(InvalidInput):
                await memories.forget(ADA, **options, dry_run=dry_run)
        assert len(await listed(memories)) == len(FACTS)


async def test_a_superseded_memory_is_found_by_its_conditions_too():
    """Forgetting by a condition takes superseded memories that meet it, and spares their heirs."""
    async with await opened() as memories:
        (old,) = await memories.add(ADA, [Fact("Ada works at Initech", tags=("work",))])
        (new,) = await memories.add(ADA, ["Ada works at Hooli"], replaces=old)
        only = Filter(superseded="only")
        assert [*await memories.forget(ADA, filter=only, dry_run=True)] == [old]
        assert [*await memories.forget(ADA, tag="work")] == [old]
        assert await kept_ids(memories) == [new]


@pytest.mark.parametrize(
    "options", [{"everything": True}, {"session_id": "s"}, {"tag": "t"}], ids=str
)
async def test_many_go_in_parts_and_an_interruption_is_taken_up_again(options, monkeypatch):
    """Many are forgotten in parts; after an interruption the same call forgets the rest."""
    monkeypatch.setattr("kagent_memory.retention.selections.MAX_AT_ONCE", 7)
    async with await opened() as memories:
        facts = [Fact(f"Fact number {n}", session_id="s", tags=("t",)) for n in range(30)]
        ids = await memories.add(ADA, facts)
        store, calls = memories.store, 0
        real = type(store.memories).forget

        async def breaks(self: Any, scope: Scope, which: Erasure) -> tuple[str, ...]:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise ConnectionError("the cable")
            return await real(self, scope, which)

        monkeypatch.setattr(type(store.memories), "forget", breaks)
        with pytest.raises(ConnectionError):
            await memories.forget(ADA, **options)
        rest = await kept_ids(memories)
        assert len(rest) == 16
        assert set(await memories.forget(ADA, **options)) == set(rest) < set(ids)
        assert not await kept_ids(memories)


async def test_what_is_queued_of_an_author_is_not_learnt_afterwards():
    """A forgotten author's queued messages are never learned; those of others are."""
    async with await opened() as memories:
        messages = [
            Message(text=f"{CANARY} has a boat", author="Grace", event_id="e1"),
            Message(text="Linus has a kayak", author="Linus", event_id="e2"),
            Message(text=f"{CANARY} has a bike", author="Grace"),
        ]
        await memories.remember(ADA, messages, "s1")
        await memories.remember(
            ADA, [Message(text="Grace skis in Oslo", author="Grace", event_id="e4")], "s2"
        )
        assert not await memories.forget(ADA, author="Grace", session_id="s1", dry_run=True)
        await memories.forget(ADA, author="Grace", session_id="s1")
        await memories.remember(ADA, messages, "s1")  # ADK hands over the whole session again
        await memories.work(until_idle=True)
        assert await listed(memories) == {"Linus has a kayak", "Grace skis in Oslo"}


async def test_a_deleted_session_of_adk_takes_its_memories_along(tmp_path: Path):
    """Deleting a session of ADK forgets its memories for good, and touches no other session."""
    sessions = InMemorySessionService()
    async with KagentMemoryService(f"libsql:///{tmp_path}/m.db", llm=False) as service:
        other = await sessions.create_session(app_name="demo", user_id="ada")
        deleted = await sessions.create_session(app_name="demo", user_id="ada")
        for session, text in (
            (other, "The spare key is with Grace"),
            (deleted, f"{CANARY} is the password"),
        ):
            said = Event(author="user", content=user_message(text), invocation_id="i")
            await sessions.append_event(session, said)
            await service.add_session_to_memory(session)
        assert await service.drain()
        where: dict[str, Any] = {"app_name": "demo", "user_id": "ada"}
        for times in (1, 0):
            erased = await service.delete_session(sessions, **where, session_id=deleted.id)
            assert len(erased) == times
        assert await sessions.get_session(**where, session_id=deleted.id) is None
        await service.add_session_to_memory(deleted)
        assert await service.drain()
        entries = (await service.search_memory(**where, query="password or key")).memories
        assert [text_of(entry) for entry in entries] == ["The spare key is with Grace"]
        assert await sessions.get_session(**where, session_id=other.id) is not None
