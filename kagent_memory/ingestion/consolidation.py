"""Merge memories of a scope that say the same, and sum up what a session holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from ..checks import json_text
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
from .comparing import WHO, joined, may_merge, said, united_fields, unites
from .editing import retired
from .planner import UNITED, decide

MAX_MERGED = 200
"""The newest memories of a scope, which are merged with what says the same."""
MAX_SHORT_TERM_READ = 1000
MIN_SIMILARITY = 0.8
"""Cosine of two memories that may be one."""
MIN_GROUP = 5
MAX_GROUP = 50
# metadata that may differ within a group
_OF_EACH = frozenset(("tools", "success_rate", "session_id", "source"))


@dataclass(frozen=True)
class Consolidation:
    """Unite stored memories by a model's words; what has a vector of its caller's stays alone:
    nobody here can make one for other words.
    """

    store: Store
    vectors: StoreEmbedder | None
    settings: MemorySettings
    clock: Callable[[], datetime]

    async def merge(
        self, scope: Scope, llm: Llm, *, saved: bool = False, dry_run: bool = False
    ) -> tuple[Change, ...]:
        """Merge the newest memories of a scope with what says the same; return the changes.

        Args:
            scope: whose.
            llm: writes what several memories become.
            saved: also what callers saved as it is; only where a caller asks for that.
            dry_run: only returns the changes.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
            Conflict: the scope changed meanwhile.
        """
        now, memories = self.clock(), self.store.memories
        version = await memories.version(scope)
        page = await memories.list(scope, order="newest", limit=MAX_MERGED, now=now)
        recent = [memory for memory in page.memories if may_merge(memory, saved=saved)]
        view = await memories.view(scope, now=now)
        near, _ = await neighbours(view, self.vectors, recent)
        nearby = [memory for neighbours in near.values() for memory, _ in neighbours]
        bound = await self._bound(scope, [*recent, *nearby])
        pairs = [pair for pair in alike(recent, near, saved=saved) if bound.isdisjoint(_ids(pair))]
        merges = await plan_merges(pairs, llm, now=now)
        if not dry_run:
            await self._apply(scope, merges, version=version)
        return tuple(merges)

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
        store, ids = self.store.memories, list(_ids(memories))
        return {
            id
            for space in await store.spaces.all()
            if ids and space.name.startswith(EXTERNAL)
            for id in await store.vectors(scope, space.number, ids)
        }


async def plan_merges(
    pairs: Sequence[tuple[Memory, Memory]], llm: Llm, *, now: datetime
) -> list[Change]:
    """Return the changes that unite memories in pairs, as the model decides about new facts; each
    memory is in one pair at most.

    Args:
        pairs: newer and older memories that may be one, the most similar first.
        llm: decides, and writes the sentence that says both.
        now: when the plan is made.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    chosen: list[tuple[Memory, Memory]] = []
    paired: Set[str] = set()
    for pair in pairs:
        if paired.isdisjoint(_ids(pair)):
            chosen.append(pair)
            paired |= _ids(pair)
    shown = {number: [(older, 1.0)] for number, (_, older) in enumerate(chosen)}
    decided = await decide([newer for newer, _ in chosen], shown, llm)
    return [
        change
        for number, decision in decided.items()
        if decision.action == "UPDATE"
        and unites(text := decision.text or "", [memory.content for memory in chosen[number]])
        for change in joined(chosen[number], text, now=now, why=UNITED)
    ]


def alike(
    memories: Sequence[Memory], near: Near, *, saved: bool = False
) -> list[tuple[Memory, Memory]]:
    """Return pairs of a newer and an older memory that are alike and may be one, the most similar
    first.

    Args:
        memories: visible memories of one scope.
        near: index into `memories` → memories that are like it, with their cosine.
        saved: also what callers saved as it is.
    """
    pairs = [
        (value, *sorted((memories[place], other), key=said, reverse=True))
        for place, neighbours in near.items()
        for other, value in neighbours
        if value >= MIN_SIMILARITY
    ]
    return [
        (newer, older)
        for _, newer, older in sorted(pairs, key=lambda pair: -pair[0])
        if all(may_merge(memory, saved=saved) for memory in (newer, older))
        and _are_of_a_kind(newer, older)
    ]


def _are_of_a_kind(a: Memory, b: Memory) -> bool:
    """Return True for two memories of one type and origin with the same labels that fill no
    slot.
    """
    kind, other_kind = (
        (memory.type, memory.origin, memory.is_error, slot_of(memory), _labels(memory))
        for memory in (a, b)
    )
    return kind == other_kind and slot_of(a) is None


def _labels(memory: Memory) -> str:
    """Return, as text, the labels that memories share which become one."""
    named = {key: memory.metadata[key] for key in sorted(memory.metadata.keys() - _OF_EACH)}
    return json_text([memory.category, named], "The metadata")


def _ids(memories: Iterable[Memory]) -> Set[str]:
    return {memory.id for memory in memories}


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
