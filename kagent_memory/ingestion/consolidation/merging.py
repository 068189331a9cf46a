"""Memories that say the same become one: clusters that hold together, merged into a text that holds all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import Annotated

from pydantic import BaseModel, BeforeValidator

from ...concurrency import run_in_thread
from ...models.llm import Llm
from ...models.prompts import batches, filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from ...records import Change, Memory, new_id
from ..answer_fields import Text, objects, truth
from ..editing import retired
from .similarity import said, slot_of, unites

_WHENCE = frozenset(("session_id", "source"))  # metadata of where it was said: the newest's will do for all


def wants_merge(value: object) -> bool:
    """Whether a group is to be merged, in JSON or in words."""
    return truth(value) or (isinstance(value, str) and value.strip().lower() == "merge")


class Merged(BaseModel):
    """The model's word on one group; read tolerantly."""

    group: Text = ""
    merge: Annotated[bool, BeforeValidator(wants_merge)] = False
    text: Text = ""


class MergedGroups(BaseModel):
    """The model's word on all groups; items that are none are left out."""

    groups: Annotated[list[Merged], BeforeValidator(objects)]


async def plan_merges(
    memories: Sequence[Memory],
    similarities: Mapping[tuple[str, str], float],
    llm: Llm | None = None,
    *,
    now: datetime,
    least_similarity: float = 0.8,
    most: int = 5,
    saved: bool = False,
    who: str = "consolidation",
) -> tuple[Change, ...]:
    """The changes that merge what says the same; applying them is the caller's, so not to apply is a dry run.

    The merged memory is added before its sources are retired; all changes of a merge share a group, and the sources
    name it in `superseded_by`. Pinned memories, turns as they were said and compaction summaries stay alone, and so do
    those whose metadata hold different values of a key.

    Args:
        memories: the visible memories of one scope.
        similarities: (id, id) in either order → cosine; pairs that are missing are not alike.
        llm: writes the merged text; without it nothing merges, for equal words are one memory already.
        now: when the plan is made.
        least_similarity: that every pair of a cluster must have, so that chains of neighbours never form one.
        most: memories in a cluster.
        saved: also what callers saved as it is; else that stays alone.
        who: stands in the history.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    if llm is None:
        return ()
    free = [memory for memory in memories if saved or not memory.explicit]
    size = sum(len(memory.content) for memory in free)
    groups = await run_in_thread(size, partial(clusters, free, similarities, least_similarity, most))
    named = {f"G{number}": group for number, group in enumerate(groups, 1)}
    shown = (
        (name, "\n".join((f"{name}:", *(f"  - {' '.join(escaped(memory.content).split())}" for memory in group))))
        for name, group in named.items()
    )
    texts = dict.fromkeys(named, "")  # "" where the model does not merge
    for batch in batches(shown):
        asked = filled(prompt("merge_groups"), groups="\n".join(batch.values()))
        answer = await llm.complete(asked, schema=MergedGroups)
        answered = {item.group.upper().strip("[] "): item for item in answer.groups}
        for name in batch:
            if name in answered and answered[name].merge:
                texts[name] = " ".join(unescaped(answered[name].text).split())

    def whole() -> list[tuple[Sequence[Memory], str]]:
        """The merges whose text keeps what every memory says."""
        merges = ((group, texts[name]) for name, group in named.items())
        return [(group, text) for group, text in merges if unites(text, [memory.content for memory in group])]

    merges = await run_in_thread(size, whole)
    return tuple(change for group, text in merges for change in _merge(group, text, now=now, who=who))


def clusters(
    memories: Sequence[Memory],
    similarities: Mapping[tuple[str, str], float],
    least_similarity: float = 0.8,
    most: int = 5,
) -> list[list[Memory]]:
    """Groups of 2 to `most` in which every pair is alike and mergeable (complete linkage), the most similar first."""
    place = {
        memory.id: number
        for number, memory in enumerate(memories)
        if memory.state == "active" and not (memory.verbatim or memory.pinned or memory.is_summary)
    }
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
    groups = sorted(set(group_of.values()), key=min)
    return [[memories[number] for number in sorted(group)] for group in groups]


def _mergeable(a: Memory, b: Memory) -> bool:
    """Return True if two memories may become one; of values of a slot none does."""
    if (a.type, a.category, a.origin, a.is_error) != (b.type, b.category, b.origin, b.is_error):
        return False
    if any(a.metadata[key] != b.metadata[key] for key in a.metadata.keys() & b.metadata.keys() - _WHENCE):
        return False  # their callers labelled them apart, and a merge would lose one label
    return slot_of(a) is None and slot_of(b) is None


def _merge(group: Sequence[Memory], text: str, *, now: datetime, who: str) -> list[Change]:
    """Return the changes of one merge: the merged memory first, then its sources."""
    name = new_id(now)
    why = f"{len(group)} memories said the same."
    newest = max(group, key=lambda memory: (said(memory), memory.id))
    oldest_first = sorted(group, key=lambda memory: (memory.created_at, memory.id))
    lasting = any(memory.expires_at is None for memory in group)
    # the newest with what the others have beyond it; it lives as long as the longest of them
    merged = replace(
        newest,
        content=text,
        topics=tuple(dict.fromkeys(topic for memory in group for topic in memory.topics)),
        tags=tuple(dict.fromkeys(tag for memory in group for tag in memory.tags)),
        importance=max(memory.importance for memory in group),
        event_ids=tuple(dict.fromkeys(event for memory in oldest_first for event in memory.event_ids)),
        metadata={key: value for memory in oldest_first for key, value in memory.metadata.items()},
        said_at=said(newest),
        happened_at=max((memory.happened_at for memory in group if memory.happened_at), default=None),
        expires_at=None if lasting else max(memory.expires_at for memory in group if memory.expires_at is not None),
        links=(),
        ttl_days=0 if lasting else max(memory.ttl_days or 0 for memory in group),
        updated_at=now,
    )
    added = replace(merged, id=new_id(now), created_at=now, revision=1, position=None, valid_from=now)
    how = partial(Change, who=who, why=why, group=name)
    return [
        how(kind="add", memory=added, event_ids=merged.event_ids),
        *(how(kind="merge", memory=retired(memory, added.id, now=now, valid_to=now)) for memory in group),
    ]
