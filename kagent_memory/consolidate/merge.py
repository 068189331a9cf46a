"""Memories that say the same become one: clusters that hold together, merged under the difference guard."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Any, cast

from pydantic import BaseModel, field_validator

from ..guard import differences
from ..llm import Llm
from ..prompts import as_data, as_said, filled, prompt
from ..records import Change, Memory, new_id
from .alike import has_slot, identity_of, keeps, near_identical, upserts

MAX_PROMPT_CHARS = 48_000
_WHENCE = frozenset(("session_id", "source"))  # metadata of where it was said: the newest's will do for all


class Merged(BaseModel):
    """The model's word on one group; read tolerantly."""

    group: str = ""
    merge: bool = False
    text: str = ""

    @field_validator("group", "text", mode="before")
    @classmethod
    def _text(cls, value: object) -> str:
        return value if isinstance(value, str) else ""

    @field_validator("merge", mode="before")
    @classmethod
    def _flag(cls, value: object) -> bool:
        return value.strip().lower() in ("true", "yes", "merge") if isinstance(value, str) else value is True


class MergedGroups(BaseModel):
    """The model's word on all groups; items that are none are left out."""

    groups: list[Merged]

    @field_validator("groups", mode="before")
    @classmethod
    def _items(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [item for item in cast("list[Any]", value) if isinstance(item, (dict, Merged))]


async def plan_merges(
    memories: Sequence[Memory],
    similarities: Mapping[tuple[str, str], float],
    llm: Llm | None = None,
    *,
    now: datetime,
    least_similarity: float = 0.8,
    most: int = 5,
    worded: Collection[str] = (),
    who: str = "consolidation",
) -> tuple[Change, ...]:
    """The changes that merge what says the same; applying them is the caller's, so not to apply is a dry run.

    The merged memory is added before its sources are retired; all changes of a merge share a group, and the sources
    name it in `superseded_by`. Pinned memories, turns as they were said and compaction summaries stay alone, and so do
    those whose metadata hold different values of a key.

    Args:
        memories: the visible memories of one scope.
        similarities: (id, id) in either order → cosine; pairs that are missing are not alike.
        llm: writes the merged text; None merges only what is nearly identical in words, and keeps the newest text.
        now: when the plan is made.
        least_similarity: that every pair of a cluster must have, so that chains of neighbours never form one.
        most: memories in a cluster.
        worded: ids of memories whose vectors their callers brought; nobody here can make one for other words, so they
            merge only with each other, by the rule that keeps the newest text.
        who: stands in the history.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    given = frozenset(worded)
    bound = clusters([one for one in memories if one.id in given], similarities, least_similarity, most)
    free = clusters([one for one in memories if one.id not in given], similarities, least_similarity, most)
    told = await _texts(free, llm) if llm is not None else [_by_rule(group) for group in free]
    changes: list[Change] = []
    for group, text in zip((*free, *bound), (*told, *map(_by_rule, bound)), strict=True):
        contents = [memory.content for memory in group]
        if keeps(text, contents) and not any(differences(text, content) for content in contents):
            changes += _merge(group, text, now=now, who=who)
    return tuple(changes)


def clusters(
    memories: Sequence[Memory],
    similarities: Mapping[tuple[str, str], float],
    least_similarity: float = 0.8,
    most: int = 5,
) -> list[list[Memory]]:
    """Groups of 2 to `most` in which every pair is alike and mergeable (complete linkage), the most similar first."""
    place = {memory.id: number for number, memory in enumerate(memories) if _may_merge(memory)}
    alike = {
        frozenset((place[a], place[b])): value
        for (a, b), value in similarities.items()
        if value >= least_similarity and a != b and a in place and b in place
    }
    linked = {
        pair: value for pair, value in alike.items() if _mergeable(*(memories[number] for number in sorted(pair)))
    }
    group_of: dict[int, frozenset[int]] = {}
    for pair in sorted(linked, key=lambda pair: (-linked[pair], sorted(pair))):
        a, b = sorted(pair)
        ours, theirs = group_of.get(a, frozenset((a,))), group_of.get(b, frozenset((b,)))
        both = ours | theirs
        if ours == theirs or len(both) > most or any(frozenset(link) not in linked for link in combinations(both, 2)):
            continue
        group_of |= dict.fromkeys(both, both)
    found = sorted(set(group_of.values()), key=min)
    return [[memories[number] for number in sorted(group)] for group in found]


def _may_merge(memory: Memory) -> bool:
    return memory.state == "active" and not memory.verbatim and not memory.pinned and not upserts(memory)


def _mergeable(a: Memory, b: Memory) -> bool:
    """Of values of a slot only nearly the same words are the same: one word more or less may be another value."""
    same_kind = (a.type, a.origin, a.is_error) == (b.type, b.origin, b.is_error)
    if not same_kind or differences(a.content, b.content) or _labelled_apart(a, b):
        return False
    return (not has_slot(a) and not has_slot(b)) or near_identical(a, b)


def _labelled_apart(a: Memory, b: Memory) -> bool:
    """Whether their callers gave them different values of the same key, one of which a merge would lose."""
    shared = a.metadata.keys() & b.metadata.keys() - _WHENCE
    return any(a.metadata[key] != b.metadata[key] for key in shared)


def _by_rule(group: Sequence[Memory]) -> str:
    """The newest text when all say the same in nearly the same words, else none."""
    if not all(near_identical(a, b) for a, b in combinations(group, 2)):
        return ""
    return max(group, key=lambda memory: (memory.created_at, memory.id)).content


async def _texts(groups: Sequence[Sequence[Memory]], llm: Llm) -> list[str]:
    """The merged text of each group, "" where the model does not merge; as few calls as the prompt's size allows."""
    found: dict[str, str] = {}
    batch: dict[str, str] = {}
    for number, group in enumerate(groups, 1):
        lines = (f"  - {' '.join(as_data(memory.content).split())}" for memory in group)
        shown = "\n".join((f"G{number}:", *lines))
        if batch and sum(map(len, batch.values())) + len(shown) > MAX_PROMPT_CHARS:
            found |= await _asked(batch, llm)
            batch = {}
        batch[f"G{number}"] = shown
    if batch:
        found |= await _asked(batch, llm)
    return [found.get(f"G{number}", "") for number in range(1, len(groups) + 1)]


async def _asked(batch: Mapping[str, str], llm: Llm) -> dict[str, str]:
    asked = filled(prompt("merge_groups"), groups="\n".join(batch.values()))
    answer = await llm.complete(asked, schema=MergedGroups)
    named = {item.group.upper().strip("[] "): item for item in answer.groups}
    return {name: " ".join(as_said(named[name].text).split()) for name in batch if name in named and named[name].merge}


def _merge(group: Sequence[Memory], text: str, *, now: datetime, who: str) -> list[Change]:
    """The merged memory first, then its sources; a source that says just that is kept and enriched."""
    name = new_id(now)
    why = f"{len(group)} memories said the same."
    newest = max(group, key=lambda memory: (memory.created_at, memory.id))
    merged = replace(_united(group, newest), content=text, updated_at=now)
    twin = next((memory for memory in group if identity_of(memory) == identity_of(merged)), None)
    if twin is not None:
        kept = replace(_carried(merged, twin), revision=twin.revision + 1)
        first = Change(kind="update", memory=kept, who=who, why=why, event_ids=merged.event_ids, group=name)
    else:
        kept = replace(merged, id=new_id(now), created_at=now, revision=1, position=None)
        first = Change(kind="add", memory=kept, who=who, why=why, event_ids=merged.event_ids, group=name)
    return [
        first,
        *(
            Change(kind="merge", memory=_retired(memory, kept, now), who=who, why=why, group=name)
            for memory in group
            if memory is not twin
        ),
    ]


def _united(group: Sequence[Memory], newest: Memory) -> Memory:
    """The newest with what the others have beyond it; it lives as long as the longest of them."""
    oldest_first = sorted(group, key=lambda memory: (memory.created_at, memory.id))
    lasting = any(memory.expires_at is None for memory in group)
    ends = [memory.expires_at for memory in group if memory.expires_at is not None]
    days = 0 if lasting else max(memory.ttl_days or 0 for memory in group)
    return replace(
        newest,
        topics=tuple(dict.fromkeys(topic for memory in group for topic in memory.topics)),
        tags=tuple(dict.fromkeys(tag for memory in group for tag in memory.tags)),
        importance=max(memory.importance for memory in group),
        event_ids=tuple(dict.fromkeys(event for memory in oldest_first for event in memory.event_ids)),
        metadata={key: value for memory in oldest_first for key, value in memory.metadata.items()},
        happened_at=max((memory.happened_at for memory in group if memory.happened_at), default=None),
        expires_at=None if lasting else max(ends),
        ttl_days=days,
    )


def _carried(merged: Memory, twin: Memory) -> Memory:
    """The twin's row with what the merge brings."""
    return replace(
        merged,
        id=twin.id,
        content=twin.content,
        created_at=twin.created_at,
        session_id=twin.session_id,
        position=twin.position,
        subject=twin.subject,
        attribute=twin.attribute,
        usage=twin.usage,
    )


def _retired(memory: Memory, kept: Memory, now: datetime) -> Memory:
    return replace(
        memory,
        state="superseded",
        superseded_by=kept.id,
        valid_to=now,
        updated_at=now,
        revision=memory.revision + 1,
    )
