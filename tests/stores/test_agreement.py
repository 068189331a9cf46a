"""The stores agree: a random life of one scope on libSQL and PostgreSQL gets the same answers in the same order."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from kagent_memory.errors import KagentMemoryError
from kagent_memory.records import Change, Filter, Memory, Scope
from kagent_memory.stores import MemoryStore, open_store
from kagent_memory.stores.base import Batch, Job, Order, Page
from kagent_memory.stores.codec import expiry
from kagent_memory.testing.fixtures import DAY, NOW, SECOND, vector

TEXTS = ("zebra yak", "Zebra  YAK.", "yak", "lynx otter zebra", "otter otter", "日本語のテキスト", "100%_'\"", "!?")
SESSIONS = (None, "s", "S", "it's")
EVENTS = ("e1", "e2", "e3", "e4")
ORDERS: tuple[Order, ...] = get_args(Order)
METADATA: tuple[Any, ...] = ({}, {"k": 1}, {"k": True}, {"k": None}, {"k": "1", "x.y": 2.5}, {"k": [1]})

picks = st.integers(0, 40)
rows = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any)
some = st.lists(picks, max_size=3)
limits = st.sampled_from([0, 1, 2, 3, 50])
terms = st.lists(st.sampled_from(["zebra", "yak", "lynx", "otter", "gnu", "日本", "100"]), max_size=3)
filters = st.builds(
    Filter,
    types=st.sampled_from([(), ("semantic",), ("episodic", "semantic")]),
    topics=st.sampled_from([(), (), ("tea", "cake")]),
    tags=st.sampled_from([(), (), ("x",), ("x", "y")]),
    origins=st.sampled_from([(), (), ("agent", "tool")]),
    metadata=st.sampled_from([{}, {}, {"k": 1}, {"k": True}, {"k": None}, {"x.y": 2.5}]),
    session_id=st.sampled_from([None, None, "s", "S"]),
    min_importance=st.sampled_from([None, None, 0.5]),
    created_after=st.sampled_from([None, None, NOW + DAY]),
    happened_before=st.sampled_from([None, None, NOW]),
    superseded=st.booleans(),
)
facts = st.fixed_dictionaries(
    {
        "content": st.sampled_from(TEXTS),
        "type": st.sampled_from(["semantic", "episodic", "procedural"]),
        "topics": st.sampled_from([(), ("tea",), ("cake", "tea")]),
        "tags": st.sampled_from([(), ("x",), ("y", "x")]),
        "origin": st.sampled_from(["user", "agent", "tool"]),
        "importance": st.sampled_from([0.25, 0.5, 0.75]),
        "author": st.sampled_from([None, "ann"]),
        "session_id": st.sampled_from(SESSIONS),
        "event_ids": st.lists(st.sampled_from(EVENTS), max_size=2, unique=True).map(tuple),
        "metadata": st.sampled_from(METADATA),
        "happened_at": st.sampled_from([None, NOW - DAY, NOW]),
        "ttl_days": st.sampled_from([None, 1, 3]),
        "pinned": st.sampled_from([False, False, True]),
        "verbatim": st.booleans(),
    }
)


def plain(answer: Any) -> Any:
    """The answer in a form that compares with its order; when a lease ends is each database's own."""
    if isinstance(answer, Mapping):
        return list(answer.items())
    if isinstance(answer, Job):
        return replace(answer, lease_until=None), answer.lease_until is None
    return [plain(one) for one in answer] if isinstance(answer, list | tuple) else answer


class RandomLife(RuleBasedStateMachine):
    """Plays every verb on both stores; each life has a scope of its own and forgets it at its end."""

    def __init__(self, runner: asyncio.Runner, stores: tuple[MemoryStore, MemoryStore]) -> None:
        super().__init__()
        self.runner, self.stores = runner, stores
        self.now: datetime = NOW
        self.ids: list[str] = []
        self.claimed: list[Job] = []
        self.job_ids: list[str] = []
        self.scope = Scope("agreement", uuid.uuid4().hex, "life")
        self.dice = random.Random(0)

    def both(self, verb: Callable[[MemoryStore], Awaitable[Any]]) -> Any:
        """What both stores answer to one verb; errors of ours are answers too."""

        async def answer(store: MemoryStore) -> Any:
            try:
                return await verb(store)
            except KagentMemoryError as error:
                return type(error)

        first, second = (self.runner.run(answer(store)) for store in self.stores)
        assert plain(first) == plain(second), f"{first}\n!=\n{second}"
        return first

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.dice.getrandbits(128)))

    def pick(self, numbers: list[int]) -> list[str]:
        """Some of the ids there ever were, and now and then one that never was."""
        return [self.ids[number % len(self.ids)] if self.ids and number < 39 else self.new_id() for number in numbers]

    def current(self, number: int) -> Memory | None:
        id = self.pick([number % 39])[0]
        found = self.both(lambda store: store.get(self.scope, [id], now=self.now, superseded=True))
        return found.get(id)

    def apply(self, *changes: Change, **values: Any) -> Any:
        batch = Batch(changes=changes, **values)
        return self.both(lambda store: store.apply(self.scope, batch, now=self.now))

    def a_memory(self, values: dict[str, Any]) -> Memory:
        memory = Memory(
            id=self.new_id(),
            created_at=self.now,
            updated_at=self.now,
            expires_at=expiry(values["ttl_days"], self.now),
            **values,
        )
        self.ids.append(memory.id)
        return memory

    @initialize()
    def begin(self) -> None:
        self.space_number = self.both(lambda store: store.add_embedding_space("life", 3, None)).number

    def teardown(self) -> None:
        async def leave(store: MemoryStore) -> None:
            await store.forget(self.scope, everything=True, now=self.now)
            for job in await store.jobs(scope=self.scope):
                await store.release(job, run_after=NOW, error="", dead=True)
                await store.drop(job.id)

        for store in self.stores:
            self.runner.run(leave(store))

    # -- writing --------------------------------------------------------------------------------

    @rule(step=st.sampled_from([SECOND, DAY / 2, DAY, 2 * DAY]))
    def time_passes(self, step: Any) -> None:
        self.now += step

    @rule(added=st.lists(facts, min_size=1, max_size=3), row=st.none() | rows, explicit=st.booleans())
    def add(self, added: list[dict[str, Any]], row: list[int] | None, explicit: bool) -> None:
        memories = [self.a_memory(values) for values in added]
        changes = [Change(kind="add", memory=memory, explicit=explicit) for memory in memories]
        vectors = {memories[0].id: vector(*row)} if row else {}
        self.apply(*changes, vectors=vectors, space_number=self.space_number if row else None)

    @rule(turns=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=2, unique=True), session=st.sampled_from("sS"))
    def take_turns(self, turns: list[str], session: str) -> None:
        values = {"ttl_days": None, "session_id": session, "verbatim": True, "type": "episodic"}
        memories = [self.a_memory({**values, "content": f"turn {turn}", "event_ids": (turn,)}) for turn in turns]
        self.apply(
            *(Change(kind="add", memory=memory) for memory in memories), taken=[(session, turn) for turn in turns]
        )

    @rule(number=picks, content=st.none() | st.sampled_from(TEXTS), stale=st.sampled_from([0, 0, 0, 1]))
    def edit(self, number: int, content: str | None, stale: int) -> None:
        if memory := self.current(number):
            changed = replace(
                memory,
                content=content or memory.content,
                importance=1.0,
                revision=memory.revision + 1 + stale,
                updated_at=self.now,
            )
            self.apply(Change(kind="edit", memory=changed, who="ann", why="because", event_ids=("e9",)))

    @rule(number=picks, values=facts, kind=st.sampled_from(["supersede", "merge"]))
    def supersede(self, number: int, values: dict[str, Any], kind: Any) -> None:
        if memory := self.current(number):
            new = self.a_memory(values)
            old = replace(memory, state="superseded", superseded_by=new.id, revision=memory.revision + 1)
            group = f"group {self.now.isoformat()}"
            self.apply(Change(kind="add", memory=new, group=group), Change(kind=kind, memory=old, group=group))
            self.both(lambda store: store.group(self.scope, group))

    @rule(number=picks)
    def undo(self, number: int) -> None:
        memory = self.current(number)
        history = self.both(lambda store: store.history(self.scope, memory.id)) if memory else []
        if memory and history and history[-1].before:
            self.apply(Change(kind="undo", memory=replace(history[-1].before, revision=memory.revision + 1)))

    @rule(numbers=some, session=st.sampled_from([None, None, "s"]), everything=st.sampled_from([False] * 7 + [True]))
    def forget(self, numbers: list[int], session: str | None, everything: bool) -> None:
        ids = self.pick(numbers)
        options = {"ids": ids, "session_id": session, "everything": everything}

        async def forgotten(store: MemoryStore) -> set[str]:
            return set(await store.forget(self.scope, **options, now=self.now))

        self.both(forgotten)

    @rule(retrieved=some, delivered=some)
    def deliver(self, retrieved: list[int], delivered: list[int]) -> None:
        found, handed = self.pick(retrieved), self.pick(delivered)
        self.both(lambda store: store.deliver(self.scope, retrieved=found, delivered=handed, now=self.now))

    @rule(number=picks, success=st.booleans())
    def feedback(self, number: int, success: bool) -> None:
        (id,) = self.pick([number])
        self.both(lambda store: store.feedback(self.scope, id, success=success))

    @rule(numbers=some)
    def meet_again(self, numbers: list[int]) -> None:
        self.apply(reinforced=self.pick(numbers))

    @rule(numbers=some, row=rows)
    def embed(self, numbers: list[int], row: list[int]) -> None:
        vectors = {id: vector(*row) for id in self.pick(numbers)}
        self.apply(vectors=vectors, space_number=self.space_number)

    @rule(popular_after=st.integers(1, 2), dry_run=st.booleans())
    def prune(self, popular_after: int, dry_run: bool) -> None:
        self.both(lambda store: store.prune(now=self.now, popular_after=popular_after, dry_run=dry_run))

    @rule(numbers=some, keep=st.integers(0, 4))
    def evict(self, numbers: list[int], keep: int) -> None:
        self.both(lambda store: store.evict(self.scope, self.pick(numbers), keep=keep, now=self.now))
        self.both(lambda store: store.crowded(above=keep, now=self.now))

    # -- reading --------------------------------------------------------------------------------

    @rule(order=st.sampled_from(ORDERS), size=st.integers(1, 4), filter=filters)
    def read_every_page(self, order: Order, size: int, filter: Filter) -> None:
        async def pages(store: MemoryStore) -> list[tuple[Memory, ...]]:
            page = Page(memories=())
            found: list[tuple[Memory, ...]] = []
            while not found or page.cursor:
                options: dict[str, Any] = {"filter": filter, "order": order, "cursor": page.cursor}
                page = await store.list(self.scope, limit=size, now=self.now, **options)
                found.append(page.memories)
            return found

        self.both(pages)

    @rule(queries=st.lists(rows, max_size=2), limit=limits, filter=st.just(Filter()) | filters)
    def search_by_vector(self, queries: list[list[int]], limit: int, filter: Filter) -> None:
        asked = [vector(*query) for query in queries]
        visible = replace(filter, superseded=False)
        self.both(
            lambda store: store.view(self.scope, filter=visible, now=self.now).nearest(
                self.space_number, asked, limit=limit
            )
        )

    @rule(asked=terms, limit=limits, filter=st.just(Filter()) | filters)
    def search_by_text(self, asked: list[str], limit: int, filter: Filter) -> None:
        async def found(store: MemoryStore) -> Any:
            visible = replace(filter, superseded=False)
            answer = await store.view(self.scope, filter=visible, now=self.now).text(asked, limit=limit)
            return answer, list(answer.matches)

        self.both(found)

    @rule(numbers=some, reach=st.integers(0, 2), limit=limits)
    def look_around(self, numbers: list[int], reach: int, limit: int) -> None:
        ids = self.pick(numbers)
        self.both(lambda store: store.get(self.scope, ids, now=self.now))
        self.both(lambda store: store.view(self.scope, now=self.now).features(ids, reach=reach))
        self.both(lambda store: store.unembedded(self.scope, self.space_number, limit=limit, now=self.now))
        self.both(lambda store: store.taken(self.scope, "s", EVENTS))
        self.both(lambda store: store.stats(self.scope, now=self.now))
        self.both(lambda store: store.version(self.scope))
        for id in ids:
            self.both(lambda store, id=id: store.history(self.scope, id))

    # -- the queue ------------------------------------------------------------------------------

    @rule(
        key=st.sampled_from(["", "timer"]),
        session=st.sampled_from(["s", "t"]),
        delay=st.sampled_from([0, 1]),
        model=st.sampled_from(["", "m"]),
    )
    def enqueue(self, key: str, session: str, delay: int, model: str) -> None:
        job = Job(
            id=self.new_id(),
            scope=self.scope,
            kind="transcript",
            key=key,
            session_id=session,
            payload={"messages": [{"text": "zebra", "event_id": "e4"}], "n": len(self.job_ids)},
            provider=model,
            model=model,
            run_after=self.now + delay * DAY,
            created_at=self.now,
        )
        self.job_ids.append(job.id)
        self.both(lambda store: store.enqueue([job]))

    @rule(exclude=st.sampled_from([(), (("m", "m"),)]), seconds=st.sampled_from([0, 3600, 3600]))
    def claim(self, exclude: Any, seconds: float) -> None:
        job = self.both(lambda store: store.claim("me", now=self.now, lease_seconds=seconds, exclude=exclude))
        if isinstance(job, Job):
            self.claimed.append(job)

    @precondition(lambda self: self.claimed)
    @rule(number=picks, way=st.sampled_from(["finish", "renew", "release", "bury"]))
    def end_claim(self, number: int, way: str) -> None:
        job = self.claimed[number % len(self.claimed)]
        if way == "finish":
            self.apply(job=(job.id, job.fence))
        elif way == "renew":
            self.both(lambda store: store.renew(job, lease_seconds=3600))
        else:
            spent = replace(job, calls=job.calls + 1)
            self.both(lambda store: store.release(spent, run_after=self.now, error="later", dead=way == "bury"))

    @precondition(lambda self: self.job_ids)
    @rule(number=picks, again=st.booleans())
    def retry_or_drop(self, number: int, again: bool) -> None:
        id = self.job_ids[number % len(self.job_ids)]
        self.both(lambda store: store.retry(id, now=self.now) if again else store.drop(id))

    @rule(state=st.sampled_from([None, "queued", "running", "dead"]), limit=limits)
    def read_jobs(self, state: Any, limit: int) -> None:
        self.both(lambda store: store.jobs(scope=self.scope, state=state, limit=limit))


lives = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def test_a_random_life_is_the_same_on_libsql_and_postgres(postgres_uri: str) -> None:
    with asyncio.Runner() as runner:
        first = runner.run(open_store("libsql:///:memory:"))
        second = runner.run(open_store(postgres_uri))
        try:
            run_state_machine_as_test(lambda: RandomLife(runner, (first, second)), settings=lives)
        finally:
            runner.run(first.close())
            runner.run(second.close())
