"""The stores agree: random changes of one scope on SQLite and PostgreSQL get the same answers in
the same order.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from kagent_memory.errors import KagentMemoryError
from kagent_memory.records import Change, Filter, Memory
from kagent_memory.stores import Store, open_store
from kagent_memory.stores.values import Batch, Order
from kagent_memory.testing.fixtures import (
    DAY,
    NOW,
    a_memory,
    a_scope,
    adding,
    changing,
    delivery,
    features_of,
    superseding,
    vector,
)

TEXTS = (
    "zebra yak",
    "Zebra  YAK.",
    "yak",
    "lynx otter zebra",
    "日本語のテキスト",
    "100%_'\"",
    "!?",
)
EVENTS = ("e1", "e2", "e3", "e4")
FIELDS: Mapping[str, tuple[Any, ...]] = {
    "content": TEXTS,
    "type": ("semantic", "episodic", "procedural"),
    "topics": ((), ("tea",), ("cake", "tea")),
    "tags": ((), ("x",), ("y", "x")),
    "importance": (0.25, 0.5, 0.75),
    "author": (None, "ann"),
    "session_id": (None, "s", "S", "it's"),
    "event_ids": ((), ("e1",), ("e2", "e3")),
    "metadata": ({}, {"k": 1}, {"k": True}, {"k": None}, {"k": "1", "x.y": 2.5}, {"k": [1]}),
    "happened_at": (None, NOW - DAY, NOW),
    "ttl_days": (None, 1, 3),
    "pinned": (False, False, True),
    "verbatim": (False, True),
}
FILTERS: Mapping[str, tuple[Any, ...]] = {
    "types": ((), ("semantic",), ("episodic", "semantic")),
    "topics": ((), (), ("tea", "cake")),
    "tags": ((), (), ("x",), ("x", "y")),
    "metadata": ({}, {}, {"k": 1}, {"k": True}, {"k": None}, {"x.y": 2.5}),
    "session_id": (None, None, "s", "S"),
    "min_importance": (None, None, 0.5),
    "created_after": (None, None, NOW + DAY),
    "happened_before": (None, None, NOW),
    "superseded": (False, True),
}


def plain(answer: Any) -> Any:
    """Return the answer in a form that compares with its order."""
    if isinstance(answer, Mapping):
        return list(answer.items())
    return [plain(inner) for inner in answer] if isinstance(answer, list | tuple) else answer


class RandomChanges:
    """Calls every verb on both stores, in a scope of its own."""

    def __init__(self, seed: int, stores: tuple[Store, Store], space: int) -> None:
        self.dice, self.stores, self.space = random.Random(seed), stores, space
        self.scope, self.now, self.ids = a_scope(), NOW, list[str]()

    async def both(self, verb: Callable[[Store], Awaitable[Any]]) -> Any:
        """Return what both stores answer to one verb; errors of ours are answers too."""

        async def answer(store: Store) -> Any:
            try:
                return await verb(store)
            except KagentMemoryError as error:
                return type(error)

        first, second = await asyncio.gather(*map(answer, self.stores))
        assert plain(first) == plain(second)
        return first

    async def ask(self, verb: str, *args: Any, **options: Any) -> Any:
        """Return what the memories of both stores answer to a verb of the scope."""
        return await self.both(
            lambda store: getattr(store.memories, verb)(self.scope, *args, now=self.now, **options)
        )

    async def apply(self, *changes: Change, **values: Any) -> None:
        batch = Batch(changes=changes, **values)
        await self.both(lambda store: store.apply(self.scope, batch, now=self.now))

    def any_of(self, choices: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        return {name: self.dice.choice(values) for name, values in choices.items()}

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.dice.getrandbits(128)))

    def some(self) -> list[str]:
        """Return some of the ids there ever were, and now and then one that never was."""
        known = [*self.ids, self.new_id()]
        return [self.dice.choice(known) for _ in range(self.dice.randrange(4))]

    def row(self) -> Any:
        return vector(1, *(self.dice.randint(-2, 2) for _ in range(2)))

    def embedded(self, ids: list[str]) -> dict[str, Any]:
        return {"vectors": {id: self.row() for id in ids}, "space_number": self.space}

    def made(self, **values: Any) -> Memory:
        self.ids.append(self.new_id())
        return a_memory(id=self.ids[-1], now=self.now, **values)

    async def current(self) -> Memory | None:
        id = self.dice.choice([*self.ids, ""])
        return (await self.ask("get", [id], superseded=True)).get(id)

    async def add(self) -> None:
        memories = [self.made(**self.any_of(FIELDS)) for _ in range(self.dice.randint(1, 3))]
        embedded = self.embedded([memories[0].id]) if self.dice.random() < 0.7 else {}
        await self.apply(*adding(*memories, explicit=self.dice.random() < 0.5), **embedded)

    async def take_turns(self) -> None:
        events, session = self.dice.sample(EVENTS, 2), self.dice.choice("sS")
        said = [
            self.made(content=f"turn {e}", session_id=session, verbatim=True, event_ids=(e,))
            for e in events
        ]
        await self.apply(*adding(*said), taken=[(session, event) for event in events])

    async def edit(self) -> None:
        if memory := await self.current():
            stale = replace(memory, revision=memory.revision + (self.dice.random() < 0.2))
            values = {"content": self.dice.choice((memory.content, *TEXTS)), "importance": 1.0}
            change = changing(stale, now=self.now, **values)
            await self.apply(replace(change, who="ann", why="because", event_ids=("e9",)))

    async def supersede(self) -> None:
        if memory := await self.current():
            new, group = self.made(**self.any_of(FIELDS)), f"group {self.now.isoformat()}"
            retired = superseding(
                memory, new, self.dice.choice(("supersede", "merge")), group=group
            )
            await self.apply(replace(adding(new)[0], group=group), retired)
            await self.both(lambda store: store.memories.group(self.scope, group))

    async def undo(self) -> None:
        if memory := await self.current():
            history = await self.both(lambda store: store.memories.history(self.scope, memory.id))
            if history and history[-1].before:
                before = replace(history[-1].before, revision=memory.revision + 1)
                await self.apply(Change(kind="undo", memory=before))

    async def forget(self) -> None:
        which: dict[str, Any] = {
            "ids": self.some(),
            "session_id": self.dice.choice((None, None, "s")),
            "everything": self.dice.random() < 0.1,
        }

        async def forgotten(store: Store) -> set[str]:
            return set(await store.forget(self.scope, **which, now=self.now))

        await self.both(forgotten)

    async def use(self) -> None:
        ids = self.some()
        used = replace(delivery(self.scope, *ids, now=self.now), successes=dict.fromkeys(ids, 1))
        await self.both(lambda store: store.memories.count([used]))
        await self.apply(reinforced=ids, **self.embedded(ids))

    async def prune_and_evict(self) -> None:
        self.now += self.dice.choice((DAY / 86_400, DAY / 2, DAY, 2 * DAY))
        options = {"popular_after": self.dice.randint(1, 2), "dry_run": self.dice.random() < 0.5}
        await self.both(lambda store: store.memories.prune(now=self.now, **options))
        keep = self.dice.randrange(5)
        await self.ask("evict", self.some(), keep=keep)

    async def read(self) -> None:
        filter, size = Filter(**self.any_of(FILTERS)), self.dice.randint(1, 4)
        order, ids = self.dice.choice(get_args(Order)), self.some()
        terms = self.dice.sample(("zebra", "yak", "lynx", "otter", "gnu", "日本", "100"), 3)
        limit, rows = self.dice.choice((0, 1, 3, 50)), [self.row(), self.row()]
        visible = self.dice.choice((Filter(), replace(filter, superseded=False)))

        async def pages(store: Store) -> list[tuple[Memory, ...]]:
            found: list[tuple[Memory, ...]] = []
            cursor: str | None = None
            while cursor or not found:
                query: dict[str, Any] = {"filter": filter, "order": order, "cursor": cursor}
                page = await store.memories.list(self.scope, limit=size, now=self.now, **query)
                found.append(page.memories)
                cursor = page.cursor
            return found

        async def searched(store: Store) -> Any:
            view = await store.memories.view(self.scope, filter=visible, now=self.now)
            matches = view.text(terms, limit=limit)
            near = await view.nearest(self.space, rows, limit=limit)
            return matches, [*matches.matches], near, features_of(view, ids, 1)

        await self.both(pages)
        await self.both(searched)
        await self.ask("get", ids)
        await self.ask("unembedded", self.space, limit=limit)
        await self.both(lambda store: store.memories.taken(self.scope, "s", EVENTS))
        await self.both(lambda store: store.stats(self.scope, now=self.now))

    async def live(self, steps: int) -> None:
        writing = (self.add, self.take_turns, self.edit, self.supersede, self.undo, self.forget)
        reading = (self.use, self.prune_and_evict, self.read, self.read, self.read)
        for _ in range(steps):
            await self.dice.choice((*writing, *reading))()


async def test_random_changes_are_answered_alike(postgres_uri: str) -> None:
    """SQLite and PostgreSQL give the same answers and the same errors, whatever came before."""
    async with (
        await open_store("libsql:///:memory:") as file,
        await open_store(postgres_uri) as server,
    ):
        spaces = [await store.memories.spaces.add("life", 3, None) for store in (file, server)]
        assert spaces[0] == spaces[1]
        for seed in range(25):
            await RandomChanges(seed, (file, server), spaces[0].number).live(30)
