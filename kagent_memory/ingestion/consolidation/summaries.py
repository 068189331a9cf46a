"""Old episodic memories of one topic become one summary, whose history they are: pure rules around
a model's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

from ...checks import json_text
from ...concurrency import run_in_thread
from ...language.tokenizer import EDGES, STOP_WORDS, denying_terms, identity, tokens
from ...models.llm import Llm
from ...models.prompts import MAX_PROMPT_CHARS, filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from ...records import Change, Fact, Memory, Usage
from ...retention.lifecycle import expiry, ttl_days_of
from ...settings import MemorySettings
from ..answers import GroupSummary
from .merging import joined
from .similarity import identity_of, said

LEAST = 5
MOST = 50
GROUPS_AT_MOST = 10  # of a scope at a time: each costs a call
_TOOLS = ("tools", "tool", "tool_name")
# metadata that may differ within a group
_OF_EACH = frozenset((*_TOOLS, "success_rate", "session_id", "source"))
_ABOUT_EVERYTHING = frozenset(("", "user", "users", "the user"))  # subjects that are not a topic


def groups(memories: Sequence[Memory]) -> list[list[Memory]]:
    """Return groups of 5 to 50 memories that share a topic or subject; oldest first.

    A memory goes to the name that most of them share. Pinned memories, turns as they were said and
    sessions' summaries stay alone; what tools said, and what its callers labelled otherwise by
    category or metadata, is never summed up together.
    """
    free = [
        one
        for one in memories
        if not (one.pinned or one.verbatim or one.is_summary) and one.type == "episodic"
    ]
    free.sort(key=lambda one: (one.created_at, one.id))
    shared: dict[tuple[str, str], list[Memory]] = {}
    for memory in free:
        for key in _keys(memory):
            shared.setdefault(key, []).append(memory)
    made: list[list[Memory]] = []
    grouped: set[str] = set()
    for key in sorted(shared, key=lambda key: (-len(shared[key]), key)):
        for part in parts([memory for memory in shared[key] if memory.id not in grouped]):
            made.append(part)
            grouped.update(memory.id for memory in part)
    return sorted(made, key=lambda group: (group[0].created_at, group[0].id))


def _keys(memory: Memory) -> Iterator[tuple[str, str]]:
    """Yield what a memory may be grouped by: each name with the labels that must be equal."""
    common = {key: memory.metadata[key] for key in sorted(memory.metadata.keys() - _OF_EACH)}
    labels = json_text([memory.origin == "tool", memory.category, common], "The metadata")
    subject = " ".join((memory.subject or "").casefold().split())
    topics = (" ".join(topic.casefold().split()) for topic in memory.topics)
    for name in dict.fromkeys((*topics, *(() if subject in _ABOUT_EVERYTHING else (subject,)))):
        yield name, labels


def parts(memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    """Yield the memories in groups that fit into one prompt; too few left over wait for others."""
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
    """Return ten groups at most, every day others first, so that a failing one delays no other."""
    made = groups(memories)
    first = now.toordinal() * GROUPS_AT_MOST % len(made) if len(made) > GROUPS_AT_MOST else 0
    return [*made[first:], *made[:first]][:GROUPS_AT_MOST]


async def plan_summary(
    group: Sequence[Memory], llm: Llm, *, settings: MemorySettings, now: datetime
) -> tuple[Change, ...]:
    """Return the changes that put a summary in the place of a group, if the model's text can stand
    for it.

    The summary is added before the originals are retired; all share a decision, which `undo` takes
    back as a whole.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    size = sum(len(memory.content) for memory in group)
    lines = await run_in_thread(size, partial(_lines, group))
    answer = await llm.complete(
        filled(prompt("summarize_group"), memories="\n".join(lines)), schema=GroupSummary
    )
    text = " ".join(unescaped(answer.summary).split())
    stands = partial(_can_stand, text, unescaped("\n".join(lines)), settings.max_content_bytes)
    same = {identity_of(memory) for memory in group}
    if identity(text, verbatim=False) in same or not await run_in_thread(size, stands):
        return ()
    why = f"{len(group)} memories were summed up."
    return tuple(joined(group, text, now=now, why=why, **_common(group, settings, now)))


def _lines(group: Sequence[Memory]) -> list[str]:
    return [
        f"- [{(one.happened_at or said(one)).date()}] {' '.join(escaped(one.content).split())}"
        for one in group
    ]


def _can_stand(text: str, sources: str, max_bytes: int) -> bool:
    """Return True for a text that is shorter than its sources, about the same, and invents nothing.

    Half of its content words must stand in them, and every number, identifier, capitalised name
    and denial.
    """
    if not text or len(text) >= len(sources) or len(text.encode()) > max_bytes:
        return False
    known = frozenset(tokens(sources))
    words = [word for chunk in text.split() if (word := chunk.strip(EDGES))]
    content = [term for word in words for term in tokens(word) if term not in STOP_WORDS]
    marks = [word for word in words if not word.isalpha() or not word.islower()]
    telling = {term for word in marks for term in tokens(word)} - STOP_WORDS
    said = denying_terms().intersection(term for word in words for term in tokens(word))
    return telling | said <= known and 2 * sum(term in known for term in content) > len(content)


def _common(group: Sequence[Memory], settings: MemorySettings, now: datetime) -> dict[str, Any]:
    """Return the fields of a summary: what its group has in common, and a life that no original's
    outlasts.
    """

    def shared(name: str) -> Any:
        values = {getattr(one, name) for one in group}
        return values.pop() if len(values) == 1 else None

    helped = sum(memory.usage.successes for memory in group)
    judged = helped + sum(memory.usage.failures for memory in group)
    tools: dict[str, None] = {}
    for memory in group:
        for value in (memory.metadata.get(key) for key in _TOOLS):
            names = cast("Sequence[object]", value) if isinstance(value, list) else (value,)
            tools.update((name, None) for name in names if isinstance(name, str) and name)
        if memory.origin == "tool" and memory.author:
            tools[memory.author] = None
    tags = tuple(dict.fromkeys(tag for memory in group for tag in memory.tags))
    days = ttl_days_of(Fact(text="", type="episodic", tags=tags), settings)
    ends = [
        expiry(now, days),
        *(memory.expires_at for memory in group if memory.state != "short_term"),
    ]
    lasting = None in ends
    return {
        "type": "episodic",
        "state": "active",
        "is_error": all(memory.is_error for memory in group),
        "explicit": any(memory.explicit for memory in group),
        "origin": shared("origin")
        or ("user" if any(memory.origin == "user" for memory in group) else "agent"),
        **{name: shared(name) for name in ("author", "session_id", "subject")},
        "attribute": None,
        "metadata": {
            **{key: value for key, value in group[0].metadata.items() if key not in _OF_EACH},
            **({"tools": list(tools)[:MOST]} if tools else {}),
            **({"success_rate": round(helped / judged, 4)} if judged else {}),
        },
        "expires_at": None if lasting else max(end for end in ends if end is not None),
        "ttl_days": 0 if lasting else max(days, *(memory.ttl_days or 0 for memory in group)),
        "usage": Usage(),
    }
