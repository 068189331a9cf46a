"""Many memories become one summary, whose history they are: pure rules around a model's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

from ..checks import json_text
from ..concurrency import run_in_thread
from ..language.tokenizer import EDGES, STOP_WORDS, denying_terms, identity, tokens
from ..models.llm import Llm
from ..models.prompts import batches, filled, prompt
from ..models.prompts.escaping import escaped, unescaped
from ..records import Change, Fact, Memory, Usage
from ..retention.lifecycle import latest, ttl_days_of
from ..settings import MemorySettings
from ..stores.codec import expiry
from ..stores.planning import identity_of
from .answers import GroupSummary
from .comparing import joined, said

MIN_GROUP = 5
MAX_GROUP = 50
MAX_GROUPS = 10  # of a scope at a time: each costs a call
# metadata that may differ within a group
_OF_EACH = frozenset(("tools", "success_rate", "session_id", "source"))
_ABOUT_EVERYTHING = frozenset(("", "user", "users", "the user"))  # subjects that are not a topic


def topic_groups(memories: Sequence[Memory], *, now: datetime) -> list[list[Memory]]:
    """Return groups of 5 to 50 episodic memories that share a topic or subject, oldest first.

    A memory goes to the name that most of them share. Pinned memories, turns as they were said and
    sessions' summaries stay alone; what tools said, and what its callers labelled otherwise by
    category or metadata, is never summed up together. At most ten groups, every day others first,
    so that a failing one delays no other.
    """
    shared: dict[tuple[str, str], list[Memory]] = {}
    for memory in sorted(memories, key=lambda one: (one.created_at, one.id)):
        stays = memory.pinned or memory.verbatim or memory.is_summary
        for key in () if stays or memory.type != "episodic" else _keys(memory):
            shared.setdefault(key, []).append(memory)
    groups: list[list[Memory]] = []
    grouped: set[str] = set()
    for key in sorted(shared, key=lambda key: (-len(shared[key]), key)):
        for group in parts([memory for memory in shared[key] if memory.id not in grouped]):
            groups.append(group)
            grouped.update(memory.id for memory in group)
    groups.sort(key=lambda group: (group[0].created_at, group[0].id))
    first = now.toordinal() * MAX_GROUPS % len(groups) if len(groups) > MAX_GROUPS else 0
    return [*groups[first:], *groups[:first]][:MAX_GROUPS]


def _keys(memory: Memory) -> Iterator[tuple[str, str]]:
    """Yield what a memory may be grouped by: each name with the labels that must be equal."""
    common = {key: memory.metadata[key] for key in sorted(memory.metadata.keys() - _OF_EACH)}
    labels = json_text([memory.origin == "tool", memory.category, common], "The metadata")
    subject, *topics = (
        " ".join(name.casefold().split()) for name in (memory.subject or "", *memory.topics)
    )
    names = topics if subject in _ABOUT_EVERYTHING else (*topics, subject)
    yield from ((name, labels) for name in dict.fromkeys(names))


def parts(memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    """Yield the memories in groups that fit into one prompt; too few left over wait for others."""
    for batch in batches((place, memory.content) for place, memory in enumerate(memories)):
        places = list(batch)
        for start in range(0, len(places), MAX_GROUP):
            group = [memories[place] for place in places[start : start + MAX_GROUP]]
            if len(group) >= MIN_GROUP:
                yield group


async def plan_summary(
    group: Sequence[Memory], llm: Llm, *, settings: MemorySettings, now: datetime
) -> list[Change]:
    """Return the changes that put a summary in the place of a group; none where the model's text
    cannot stand for it.

    The summary is added before the originals are retired; all share a decision, which `undo` takes
    back as a whole.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    size = sum(len(memory.content) for memory in group)
    lines = await run_in_thread(size, lambda: "\n".join(map(_line, group)))
    answer = await llm.complete(
        filled(prompt("summarize_group"), memories=lines), schema=GroupSummary
    )
    text = " ".join(unescaped(answer.summary).split())
    is_one_of_them = identity(text, verbatim=False) in {identity_of(memory) for memory in group}
    stands = partial(_can_stand, text, unescaped(lines), settings.max_content_bytes)
    if is_one_of_them or not await run_in_thread(size, stands):
        return []
    why = f"{len(group)} memories were summed up."
    return joined(group, text, now=now, why=why, **_common(group, settings, now))


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
    known = frozenset(tokens(sources))
    words = [word for chunk in text.split() if (word := chunk.strip(EDGES))]
    content = [term for word in words for term in tokens(word) if term not in STOP_WORDS]
    marks = [word for word in words if not word.isalpha() or not word.islower()]
    telling = {term for word in marks for term in tokens(word)} - STOP_WORDS
    denied = denying_terms().intersection(tokens(text))
    return telling | denied <= known and 2 * sum(term in known for term in content) > len(content)


def _common(group: Sequence[Memory], settings: MemorySettings, now: datetime) -> dict[str, Any]:
    """Return the fields of a summary: what its group has in common, and a life that no original's
    outlasts.
    """

    def shared(name: str) -> Any:
        values = {getattr(one, name) for one in group}
        return values.pop() if len(values) == 1 else None

    helped = sum(memory.usage.successes for memory in group)
    judged = helped + sum(memory.usage.failures for memory in group)
    used: list[Any] = [memory.author for memory in group if memory.origin == "tool"]
    for memory in group:
        listed = memory.metadata.get("tools")
        used += cast("list[Any]", listed) if isinstance(listed, list) else ()
    tools = list(dict.fromkeys(name for name in used if name and isinstance(name, str)))
    tags = tuple(dict.fromkeys(tag for memory in group for tag in memory.tags))
    days = ttl_days_of(Fact(text="", type="episodic", tags=tags), settings)
    lives = [one.expires_at for one in group if one.state != "short_term"]
    ends = latest((expiry(days, now), *lives))
    is_of_user = any(memory.origin == "user" for memory in group)
    metadata = {key: value for key, value in group[0].metadata.items() if key not in _OF_EACH}
    if tools:
        metadata["tools"] = tools[:MAX_GROUP]
    if judged:
        metadata["success_rate"] = round(helped / judged, 4)
    return {
        "type": "episodic",
        "state": "active",
        "is_error": all(memory.is_error for memory in group),
        "explicit": any(memory.explicit for memory in group),
        "origin": shared("origin") or ("user" if is_of_user else "agent"),
        **{name: shared(name) for name in ("author", "session_id", "subject")},
        "attribute": None,
        "metadata": metadata,
        "expires_at": ends,
        "ttl_days": (ends and max(days, *(memory.ttl_days or 0 for memory in group))) or 0,
        "usage": Usage(),
    }
