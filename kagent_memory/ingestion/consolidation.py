"""Merge memories of a scope that say the same, and sum up what a session holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from ..concurrency import run_in_thread
from ..language.tokenizer import EDGES, STOP_WORDS, denying_terms, identity, tokens
from ..models.llm import Llm
from ..models.prompts import MAX_PROMPT_CHARS, batches, filled, prompt
from ..models.prompts.escaping import escaped, unescaped
from ..records import Change, Fact, Memory, Scope, new_id
from ..retention.lifecycle import to_memory
from ..retrieval.embedding_spaces import EXTERNAL, StoreEmbedder, with_vectors
from ..retrieval.similar import Near, neighbours
from ..settings import MemorySettings
from ..stores import Store
from ..stores.planning import identity_of, slot_of
from ..stores.values import Batch
from .answers import GroupSummary
from .comparing import WHO, said, united_fields, unites
from .editing import retired
from .planner import Plan, decide

MAX_MERGED = 200
"""The newest memories of a scope, which are merged with what says the same."""
MAX_SHORT_TERM_READ = 1000
MIN_SIMILARITY = 0.8
"""Cosine of two memories that may be one."""
MIN_GROUP = 5
MAX_GROUP = 50


@dataclass(frozen=True)
class Consolidation:
    """Unite stored memories by a model's words; what has a vector of its caller's stays alone:
    nobody here can make one for other words.
    """

    store: Store
    vectors: StoreEmbedder | None
    settings: MemorySettings
    clock: Callable[[], datetime]

    async def merge(self, scope: Scope, llm: Llm, *, dry_run: bool = False) -> Sequence[Change]:
        """Merge the newest memories of a scope with what says the same; return the changes.

        Args:
            scope: whose.
            llm: decides, and writes the sentence that says both.
            dry_run: only returns the changes.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
            Conflict: the scope changed meanwhile.
        """
        now, memories = self.clock(), self.store.memories
        version = await memories.version(scope)
        page = await memories.list(scope, order="newest", limit=MAX_MERGED, now=now)
        recent = list(filter(may_merge, page.memories))
        view = await memories.view(scope, now=now)
        near, _ = await neighbours(view, self.vectors, recent)
        nearby = (memory for neighbours in near.values() for memory, _ in neighbours)
        bound = await self._bound(scope, [*recent, *nearby])
        plan = await plan_merges(alike(recent, near, without=bound), llm, now=now)
        if not dry_run:
            await self._apply(scope, plan.changes, version=version)
        return plan.changes

    async def sum_up_session(self, scope: Scope, session_id: str, llm: Llm, *, keep: int) -> None:
        """Put long-term summaries in the place of a session's short-term memories but for the
        newest; what tools said is never summed up with what others said.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
            Conflict, NotFound: a memory changed or went meanwhile.
        """
        newest = await self.store.memories.short_term(
            scope, session_id=session_id, limit=MAX_SHORT_TERM_READ, now=self.clock()
        )
        old = [memory for memory in reversed(newest[keep:]) if not memory.verbatim]
        of_tools = [memory for memory in old if memory.origin == "tool"]
        of_others = [memory for memory in old if memory.origin != "tool"]
        for group in (*parts(of_others), *parts(of_tools)):
            text = await summary_of(group, llm, max_bytes=self.settings.max_content_bytes)
            if text:
                changes = summed_up(group, text, settings=self.settings, now=self.clock())
                await self._apply(scope, changes)

    async def _apply(
        self, scope: Scope, changes: Sequence[Change], *, version: int | None = None
    ) -> None:
        if changes:
            now = self.clock()
            batch = Batch(changes=changes, expected_version=version)
            batch = await with_vectors(self.vectors, scope, batch, now)
            await self.store.apply(scope, batch, now=now)

    async def _bound(self, scope: Scope, memories: Sequence[Memory]) -> Set[str]:
        """Return the ids of those memories whose vectors their callers brought."""
        store, ids = self.store.memories, list({memory.id for memory in memories})
        return {
            id
            for space in await store.spaces.all()
            if ids and space.name.startswith(EXTERNAL)
            for id in await store.vectors(scope, space.number, ids)
        }


async def plan_merges(pairs: Sequence[tuple[Memory, Memory]], llm: Llm, *, now: datetime) -> Plan:
    """Return the plan that unites pairs of a newer and an older memory where a model says so.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    plan = Plan(now=now)
    shown = {number: [(older, 1.0)] for number, (_, older) in enumerate(pairs)}
    for number, decision in (await decide([newer for newer, _ in pairs], shown, llm)).items():
        newer, older = pairs[number]
        text = decision.text or ""
        if decision.action == "UPDATE" and unites(text, older, newer):
            plan.unite(older, newer, text)
    return plan


def may_merge(memory: Memory) -> bool:
    """Return True if a memory may become one with others, when somebody asks for that."""
    stays = memory.verbatim or memory.is_summary or memory.pinned or slot_of(memory)
    return memory.state == "active" and not stays


def alike(
    memories: Sequence[Memory], near: Near, *, without: Set[str] = frozenset()
) -> list[tuple[Memory, Memory]]:
    """Return pairs of a newer and an older memory of one kind that are alike and may be one, the
    most similar first; each memory is in one pair at most.

    Args:
        memories: visible memories of one scope.
        near: index into `memories` → memories that are like it, with their cosine.
        without: ids of memories that stay alone.
    """
    pairs = [
        (value, *sorted((memories[place], other), key=said, reverse=True))
        for place, neighbours in near.items()
        for other, value in neighbours
        if value >= MIN_SIMILARITY and may_merge(other) and _kind(memories[place]) == _kind(other)
    ]
    chosen: list[tuple[Memory, Memory]] = []
    taken = {*without}
    for _, newer, older in sorted(pairs, key=lambda pair: -pair[0]):
        if taken.isdisjoint((newer.id, older.id)):
            chosen.append((newer, older))
            taken |= {newer.id, older.id}
    return chosen


def _kind(memory: Memory) -> tuple[object, ...]:
    return memory.type, memory.origin, memory.is_error, memory.category, memory.metadata


def parts(memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    """Yield the memories in groups that fit into one prompt; too few left over wait for others."""
    share = MAX_PROMPT_CHARS // MAX_GROUP
    for group in batches(memories, lambda memory: max(len(memory.content), share)):
        if len(group) >= MIN_GROUP:
            yield group


async def summary_of(group: Sequence[Memory], llm: Llm, *, max_bytes: int) -> str:
    """Return the text that a model sums some memories up in; "" where it cannot stand for them.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    size = sum(len(memory.content) for memory in group)
    lines = await run_in_thread(size, lambda: "\n".join(map(_line, group)))
    answer = await llm.complete(
        filled(prompt("summarize_group"), memories=lines), schema=GroupSummary
    )
    text = answer.summary
    is_one_of_them = identity(text, verbatim=False) in {identity_of(memory) for memory in group}
    stands = partial(_can_stand, text, unescaped(lines), max_bytes)
    return "" if is_one_of_them or not await run_in_thread(size, stands) else text


def summed_up(
    group: Sequence[Memory], text: str, *, settings: MemorySettings, now: datetime
) -> list[Change]:
    """Return the changes that put a long-term summary in the place of memories of a session, which
    become its history; one `undo` takes all of them back.

    The summary is added first. It has what the group has in common, and no original's time to live
    is longer than its own.
    """

    def shared(name: str) -> Any:
        values = {getattr(memory, name) for memory in group}
        return values.pop() if len(values) == 1 else None

    lives = {memory.ttl_days or 0 for memory in group}
    is_of_user = any(memory.origin == "user" for memory in group)
    fact = Fact(
        text=text,
        type="episodic",
        is_error=all(memory.is_error for memory in group),
        origin=shared("origin") or ("user" if is_of_user else "agent"),
        author=shared("author"),
        category=shared("category"),
        session_id=shared("session_id"),
        said_at=max(map(said, group)),
        ttl_days=0 if 0 in lives else max(lives),
        **united_fields(group),
    )
    added, name = replace(to_memory(fact, settings, now=now), valid_from=now), new_id(now)
    why = f"{len(group)} memories were summed up."
    former = (retired(memory, added.id, now=now) for memory in group)
    return [
        Change(kind="add", memory=added, who=WHO, why=why, group=name, event_ids=added.event_ids),
        *(Change(kind="merge", memory=memory, who=WHO, why=why, group=name) for memory in former),
    ]


def _line(memory: Memory) -> str:
    day = (memory.happened_at or said(memory)).date()
    return f"- [{day}] {' '.join(escaped(memory.content).split())}"


def _can_stand(text: str, sources: str, max_bytes: int) -> bool:
    """Return True for a text that is shorter than its sources, about the same, and invents nothing.

    Half of its content words must stand in them, and every number, identifier, capitalised name
    and denial.
    """
    if not text or len(text) >= len(sources) or len(text.encode()) > max_bytes:
        return False
    known, terms = frozenset(tokens(sources)), tokens(text)
    content = [term for term in terms if term not in STOP_WORDS]
    words = (chunk.strip(EDGES) for chunk in text.split())
    marks = (word for word in words if not (word.isalpha() and word.islower()))
    telling = {term for word in marks for term in tokens(word)} - STOP_WORDS
    telling |= denying_terms().intersection(terms)
    return telling <= known and 2 * sum(term in known for term in content) > len(content)
