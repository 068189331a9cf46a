"""The stores agree: random changes of one scope on SQLite and PostgreSQL get the same answers in
the same order.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

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
    "otter otter",
    "日本語のテキスト",
    "100%_'\"",
    "!?",
)
EVENTS = ("e1", "e2", "e3", "e4")


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


numbers = st.integers(0, 40)
rows = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any)
some = st.lists(numbers, max_size=3)
limits = one_of(0, 1, 2, 3, 50)
terms = st.lists(one_of("zebra", "yak", "lynx", "otter", "gnu", "日本", "100"), max_size=3)
filters = st.builds(
    Filter,
    types=one_of((), ("semantic",), ("episodic", "semantic")),
    topics=one_of((), (), ("tea", "cake")),
    tags=one_of((), (), ("x",), ("x", "y")),
    metadata=one_of({}, {}, {"k": 1}, {"k": True}, {"k": None}, {"x.y": 2.5}),
    session_id=one_of(None, None, "s", "S"),
    min_importance=one_of(None, None, 0.5),
    created_after=one_of(None, None, NOW + DAY),
    happened_before=one_of(None, None, NOW),
    superseded=st.booleans(),
)
facts = st.fixed_dictionaries(
    {
        "content": one_of(*TEXTS),
        "type": one_of("semantic", "episodic", "procedural"),
        "topics": one_of((), ("tea",), ("cake", "tea")),
        "tags": one_of((), ("x",), ("y", "x")),
        "importance": one_of(0.25, 0.5, 0.75),
        "author": one_of(None, "ann"),
        "session_id": one_of(None, "s", "S", "it's"),
        "event_ids": st.lists(one_of(*EVENTS), max_size=2, unique=True).map(tuple),
        "metadata": one_of(
            {}, {"k": 1}, {"k": True}, {"k": None}, {"k": "1", "x.y": 2.5}, {"k": [1]}
        ),
        "happened_at": one_of(None, NOW - DAY, NOW),
        "ttl_days": one_of(None, 1, 3),
        "pinned": one_of(False, False, True),
        "verbatim": st.booleans(),
    }
)


def plain(answer: Any) -> Any:
    """Return the answer in a form that compares with its order."""
    if isinstance(answer, Mapping):
        return list(answer.items())
    return [plain(inner) for inner in answer] if isinstance(answer, list | tuple) else answer


class RandomChanges(RuleBasedStateMachine):
    """Calls every verb on both stores; each run has a scope of its own."""

    def __init__(self, runner: asyncio.Runner, stores: tuple[Store, Store]) -> None:
        super().__init__()
        self.runner, self.stores, self.scope, self.now = runner, stores, a_scope(), NOW
        self.ids: list[str] = []
        self.dice = random.Random(0)
        self.space = self.both(lambda store: store.memories.spaces.add("life", 3, None)).number

    def both(self, verb: Callable[[Store], Awaitable[Any]]) -> Any:
        """Return what both stores answer to one verb; errors of ours are answers too."""

        async def answer(store: Store) -> Any:
            try:
                return await verb(store)
            except KagentMemoryError as error:
                return type(error)

        async def answers() -> list[Any]:
            return await asyncio.gather(*map(answer, self.stores))

        first, second = self.runner.run(answers())
        assert plain(first) == plain(second), f"{first}\n!=\n{second}"
        return first

    def ask(self, verb: str, *args: Any, **options: Any) -> Any:
        """Return what the memories of both stores answer to a verb of the scope."""
        return self.both(
            lambda store: getattr(store.memories, verb)(self.scope, *args, now=self.now, **options)
        )

    def history(self, id: str) -> Any:
        return self.both(lambda store: store.memories.history(self.scope, id))

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.dice.getrandbits(128)))

    def pick(self, picked: list[int]) -> list[str]:
        """Return some of the ids there ever were, and now and then one that never was."""
        return [
            self.ids[number % len(self.ids)] if self.ids and number < 39 else self.new_id()
            for number in picked
        ]

    def current(self, number: int) -> Memory | None:
        [id] = self.pick([number % 39])
        return self.ask("get", [id], superseded=True).get(id)

    def apply(self, *changes: Change, **values: Any) -> None:
        batch = Batch(changes=changes, **values)
        self.both(lambda store: store.apply(self.scope, batch, now=self.now))

    def made(self, **values: Any) -> Memory:
        self.ids.append(self.new_id())
        return a_memory(id=self.ids[-1], now=self.now, **values)

    def teardown(self) -> None:
        for store in self.stores:
            self.runner.run(store.forget(self.scope, everything=True, now=self.now))

    @rule(step=one_of(DAY / 86_400, DAY / 2, DAY, 2 * DAY))
    def time_passes(self, step: Any) -> None:
        self.now += step

    @rule(
        added=st.lists(facts, min_size=1, max_size=3), row=st.none() | rows, explicit=st.booleans()
    )
    def add(self, added: list[dict[str, Any]], row: list[int] | None, explicit: bool) -> None:
        memories = [self.made(**values) for values in added]
        vectors = {memories[0].id: vector(*row)} if row else {}
        self.apply(
            *adding(*memories, explicit=explicit),
            vectors=vectors,
            space_number=self.space if row else None,
        )

    @rule(
        turns=st.lists(one_of(*EVENTS), min_size=1, max_size=2, unique=True),
        session=one_of("s", "S"),
    )
    def take_turns(self, turns: list[str], session: str) -> None:
        said = [
            self.made(content=f"turn {e}", session_id=session, verbatim=True, event_ids=(e,))
            for e in turns
        ]
        self.apply(*adding(*said), taken=[(session, event) for event in turns])

    @rule(number=numbers, content=st.none() | one_of(*TEXTS), stale=one_of(0, 0, 0, 1))
    def edit(self, number: int, content: str | None, stale: int) -> None:
        if memory := self.current(number):
            stale_one = replace(memory, revision=memory.revision + stale)
            change = changing(
                stale_one, now=self.now, content=content or memory.content, importance=1.0
            )
            self.apply(replace(change, who="ann", why="because", event_ids=("e9",)))

    @rule(number=numbers, values=facts, kind=one_of("supersede", "merge"))
    def supersede(self, number: int, values: dict[str, Any], kind: Any) -> None:
        if memory := self.current(number):
            new, group = self.made(**values), f"group {self.now.isoformat()}"
            self.apply(
                replace(adding(new)[0], group=group), superseding(memory, new, kind, group=group)
            )
            self.both(lambda store: store.memories.group(self.scope, group))

    @rule(number=numbers)
    def undo(self, number: int) -> None:
        memory = self.current(number)
        history = self.history(memory.id) if memory else []
        if memory and history and history[-1].before:
            before = replace(history[-1].before, revision=memory.revision + 1)
            self.apply(Change(kind="undo", memory=before))

    @rule(picked=some, session=one_of(None, None, "s"), everything=one_of(*[False] * 7, True))
    def forget(self, picked: list[int], session: str | None, everything: bool) -> None:
        ids = self.pick(picked)

        async def forgotten(store: Store) -> set[str]:
            which: Any = {"ids": ids, "session_id": session, "everything": everything}
            return set(await store.forget(self.scope, **which, now=self.now))

        self.both(forgotten)

    @rule(picked=some, row=rows, success=st.booleans())
    def use(self, picked: list[int], row: list[int], success: bool) -> None:
        ids = self.pick(picked)
        outcome = {"successes" if success else "failures": dict.fromkeys(ids[:1], 1)}
        used = replace(delivery(self.scope, *ids, now=self.now), **outcome)
        used = replace(used, delivered=dict.fromkeys(ids[1:], 1))
        self.both(lambda store: store.memories.count([used]))
        self.apply(reinforced=ids)
        self.apply(vectors={id: vector(*row) for id in ids}, space_number=self.space)

    @rule(
        picked=some, keep=st.integers(0, 4), popular_after=st.integers(1, 2), dry_run=st.booleans()
    )
    def prune_and_evict(
        self, picked: list[int], keep: int, popular_after: int, dry_run: bool
    ) -> None:
        self.both(
            lambda store: store.memories.prune(
                now=self.now, popular_after=popular_after, dry_run=dry_run
            )
        )
        self.ask("evict", self.pick(picked), keep=keep)
        self.both(lambda store: store.memories.crowded(above=keep, now=self.now))

    @rule(order=one_of(*get_args(Order)), size=st.integers(1, 4), filter=filters)
    def list_every_page(self, order: Order, size: int, filter: Filter) -> None:
        async def pages(store: Store) -> list[tuple[Memory, ...]]:
            found: list[tuple[Memory, ...]] = []
            cursor: str | None = None
            while cursor or not found:
                query: dict[str, Any] = {"filter": filter, "order": order, "cursor": cursor}
                page = await store.memories.list(self.scope, limit=size, now=self.now, **query)
                found.append(page.memories)
                cursor = page.cursor
            return found

        self.both(pages)

    @rule(
        asked=terms,
        queries=st.lists(rows, max_size=2),
        limit=limits,
        filter=st.just(Filter()) | filters,
    )
    def search(
        self, asked: list[str], queries: list[list[int]], limit: int, filter: Filter
    ) -> None:
        visible, vectors = replace(filter, superseded=False), [vector(*query) for query in queries]

        async def found(store: Store) -> Any:
            view = await store.memories.view(self.scope, filter=visible, now=self.now)
            matches = view.text(asked, limit=limit)
            return (
                matches,
                list(matches.matches),
                await view.nearest(self.space, vectors, limit=limit),
            )

        self.both(found)

    @rule(picked=some, reach=st.integers(0, 2), limit=limits)
    def read(self, picked: list[int], reach: int, limit: int) -> None:
        ids = self.pick(picked)
        self.ask("get", ids)

        async def places(store: Store) -> dict[str, dict[str, Any]]:
            view = await store.memories.view(self.scope, now=self.now)
            return features_of(view, ids, reach)

        self.both(places)
        self.ask("unembedded", self.space, limit=limit)
        self.both(lambda store: store.memories.taken(self.scope, "s", EVENTS))
        self.both(lambda store: store.stats(self.scope, now=self.now))
        for id in ids:
            self.history(id)


def test_random_changes_are_answered_alike(postgres_uri: str) -> None:
    """SQLite and PostgreSQL give the same answers and the same errors, whatever came before."""
    checks: Any = list(HealthCheck)
    lives = settings(
        max_examples=25,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=checks,
        print_blob=True,
    )
    with asyncio.Runner() as runner:
        stores = runner.run(open_store("libsql:///:memory:")), runner.run(open_store(postgres_uri))
        try:
            changes: Any = partial(RandomChanges, runner, stores)
            run_state_machine_as_test(changes, settings=lives)
        finally:
            for store in stores:
                runner.run(store.close())
