"""Old episodic memories of one topic become one summary, whose history they are: pure rules around a model's text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import cast

from pydantic import BaseModel

from ..concurrency import run_in_thread
from ..language.tokenizer import EDGES, STOP_WORDS, denying_terms, tokens
from ..models.llm import Llm
from ..models.prompts import MAX_PROMPT_CHARS, filled, prompt
from ..models.prompts.escaping import escaped, unescaped
from ..records import Change, Fact, Memory, Origin, json_text, new_id
from ..retention.lifecycle import to_memory, ttl_days_of
from ..settings import MemorySettings
from .answer_fields import Text
from .consolidation import identity_of
from .consolidation.similarity import said
from .editing import retired

LEAST = 5
MOST = 50
GROUPS_AT_MOST = 10  # of a scope at a time: each costs a call
_TOOLS = ("tools", "tool", "tool_name")
_OF_EACH = frozenset((*_TOOLS, "success_rate", "session_id", "source"))  # metadata that may differ within a group
_ABOUT_EVERYTHING = frozenset(("", "user", "users", "the user"))  # subjects that are not a topic


class GroupSummary(BaseModel):
    """The model's summary of one group."""

    summary: Text


def groups(memories: Sequence[Memory]) -> list[list[Memory]]:
    """Groups of 5 to 50 memories that share a topic, else a subject; oldest first.

    A memory goes to the first of its topics that enough of them are left to share. Pinned memories, turns as they were
    said and sessions' summaries stay alone; what tools said, and what its callers labelled otherwise by category or
    metadata, is never summed up together.
    """
    free = [one for one in memories if not (one.pinned or one.verbatim or one.is_summary) and one.type == "episodic"]
    free.sort(key=lambda one: (one.created_at, one.id))
    topics = {one.id: one.topics for one in free}
    named = ((one.id, (one.subject or "").strip()) for one in free)
    subjects = {id: (subject,) for id, subject in named if subject.casefold() not in _ABOUT_EVERYTHING}
    made: list[list[Memory]] = []
    for names in (topics, subjects):
        for some in _sharing(free, names):
            made += _parts(some)
        grouped = {memory.id for group in made for memory in group}
        free = [memory for memory in free if memory.id not in grouped]
    return sorted(made, key=lambda group: (group[0].created_at, group[0].id))


def _sharing(memories: Sequence[Memory], names: Mapping[str, Sequence[str]]) -> list[list[Memory]]:
    """The memories by the first name each shares with enough others of the same origin, category and metadata.

    Names that too few come to are given up, the rarest first, and their memories go to the next of theirs.
    """
    keys: dict[str, Sequence[tuple[str, str]]] = {}
    for memory in memories:
        common = {key: memory.metadata[key] for key in sorted(memory.metadata.keys() - _OF_EACH)}
        labels = json_text([memory.origin == "tool", memory.category, common], "The metadata")
        plain = (" ".join(name.casefold().split()) for name in names.get(memory.id, ()))
        keys[memory.id] = list(dict.fromkeys((name, labels) for name in plain))
    count = Counter(key for some in keys.values() for key in some)
    shared: dict[tuple[str, str], list[Memory]] = {key: [] for key in sorted(count) if count[key] >= LEAST}

    def place(some: Sequence[Memory]) -> None:
        for memory in some:
            key = next((key for key in keys[memory.id] if key in shared), None)
            if key is not None:
                shared[key].append(memory)

    place(memories)
    for key in sorted(shared, key=lambda key: (count[key], key)):
        if len(shared[key]) < LEAST:
            place(shared.pop(key))
    order = {memory.id: number for number, memory in enumerate(memories)}
    return [sorted(some, key=lambda one: order[one.id]) for some in shared.values()]


def _parts(memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    """The same in groups that fit into one prompt; too few that are left over wait for others."""
    part: list[Memory] = []
    size = 0
    for memory in memories:
        chars = len(memory.content)
        if part and (len(part) == MOST or size + chars > MAX_PROMPT_CHARS):
            if len(part) >= LEAST:
                yield part
            part, size = [], 0
        part.append(memory)
        size += chars
    if len(part) >= LEAST and size <= MAX_PROMPT_CHARS:
        yield part


def next_groups(memories: Sequence[Memory], *, now: datetime) -> list[list[Memory]]:
    """Ten of the groups at most: every day others first, so that none waits behind those that the model fails at."""
    made = groups(memories)
    first = now.toordinal() * GROUPS_AT_MOST % len(made) if len(made) > GROUPS_AT_MOST else 0
    return [*made[first:], *made[:first]][:GROUPS_AT_MOST]


async def plan_summary(
    group: Sequence[Memory], llm: Llm, *, settings: MemorySettings, now: datetime
) -> tuple[Change, ...]:
    """The changes that put a summary in the place of a group; none where the model's text cannot stand for it.

    The summary is added before the originals are retired; all share a decision, which `undo` takes back as a whole.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    size = sum(len(memory.content) for memory in group)
    days = [(one.happened_at or said(one)).date().isoformat() for one in group]
    texts = await run_in_thread(size, lambda: [" ".join(escaped(one.content).split()) for one in group])
    lines = [f"- [{day}] {text}" for day, text in zip(days, texts, strict=True)]
    answer = await llm.complete(filled(prompt("summarize_group"), memories="\n".join(lines)), schema=GroupSummary)
    text = " ".join(unescaped(answer.summary).split())
    sources = [unescaped(line) for line in lines]
    if not await run_in_thread(size, partial(_can_stand, text, sources, settings.max_content_bytes)):
        return ()
    summary = replace(_summary(group, text, settings=settings, now=now), valid_from=now)
    if identity_of(summary) in {identity_of(memory) for memory in group}:
        return ()
    name = new_id(now)
    why = f"{len(group)} old memories about the same were summed up."
    how = partial(Change, who="consolidation", why=why, group=name)
    return (
        how(kind="add", memory=summary, event_ids=summary.event_ids),
        *(how(kind="merge", memory=retired(one, summary.id, now=now, valid_to=now)) for one in group),
    )


def _can_stand(text: str, sources: Sequence[str], max_bytes: int) -> bool:
    """Return True for a text that is shorter than its sources, about the same, and invents nothing.

    Half of its content words must stand in them, and every number, identifier, capitalised name
    and denial.
    """
    everything = "\n".join(sources)
    if not text or len(text) >= len(everything) or len(text.encode()) > max_bytes:
        return False
    known = frozenset(tokens(everything))
    words = [word for chunk in text.split() if (word := chunk.strip(EDGES))]
    content = [term for word in words for term in tokens(word) if term not in STOP_WORDS]
    marks = [word for word in words if not word.isalpha() or not word.islower()]
    telling = {term for word in marks for term in tokens(word)} - STOP_WORDS
    said = denying_terms().intersection(term for word in words for term in tokens(word))
    return telling | said <= known and 2 * sum(term in known for term in content) > len(content)


def _summary(group: Sequence[Memory], text: str, *, settings: MemorySettings, now: datetime) -> Memory:
    """The row of a summary: what the group has in common, with a life of its own that no original's outlasts."""
    authors, sessions, subjects = (
        {getattr(one, name) for one in group} for name in ("author", "session_id", "subject")
    )
    origins: set[Origin] = {memory.origin for memory in group}
    helped = sum(memory.usage.successes for memory in group)
    judged = helped + sum(memory.usage.failures for memory in group)
    common = {key: value for key, value in group[0].metadata.items() if key not in _OF_EACH}
    tools: dict[str, None] = {}
    for memory in group:
        for value in (memory.metadata.get(key) for key in _TOOLS):
            names = cast("Sequence[object]", value) if isinstance(value, list) else (value,)
            tools.update((name, None) for name in names if isinstance(name, str) and name)
        if memory.origin == "tool" and memory.author:
            tools[memory.author] = None
    fact = Fact(
        text=text,
        type="episodic",
        topics=tuple(dict.fromkeys(topic for memory in group for topic in memory.topics)),
        tags=tuple(dict.fromkeys(tag for memory in group for tag in memory.tags)),
        importance=max(memory.importance for memory in group),
        is_error=all(memory.is_error for memory in group),
        origin=origins.pop() if len(origins) == 1 else "user" if "user" in origins else "agent",
        author=authors.pop() if len(authors) == 1 else None,
        category=group[0].category,
        session_id=sessions.pop() if len(sessions) == 1 else None,
        event_ids=tuple(dict.fromkeys(event for memory in group for event in memory.event_ids)),
        subject=subjects.pop() if len(subjects) == 1 else None,
        metadata={
            **common,
            **({"tools": list(tools)[:MOST]} if tools else {}),
            **({"success_rate": round(helped / judged, 4)} if judged else {}),
        },
        happened_at=max((one.happened_at for one in group if one.happened_at), default=None),
        said_at=max(said(memory) for memory in group),
    )
    explicit = any(memory.explicit for memory in group)
    made = to_memory(fact, now=now, ttl_days=ttl_days_of(fact, settings), explicit=explicit)
    ends = [memory.expires_at for memory in (made, *group)]
    lasting = None in ends
    return replace(
        made,
        expires_at=None if lasting else max(end for end in ends if end is not None),
        ttl_days=0 if lasting else max(memory.ttl_days or 0 for memory in (made, *group)),
    )
