"""Memories that say the same become one: clusters that hold together, merged into a text that holds
all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import Any

from ...concurrency import run_in_thread
from ...models.llm import Llm
from ...models.prompts import batches, filled, prompt
from ...models.prompts.escaping import escaped, unescaped
from ...records import Change, Memory, new_id
from ..answers import MergedGroups
from ..editing import retired
from .similarity import WHO, may_merge, said, slot_of, united_fields, unites

MIN_SIMILARITY = 0.8
"""Cosine of every pair of a cluster, so that chains of neighbours never form one."""
MAX_CLUSTER = 5
# metadata of where it was said: the newest's will do for all
_WHENCE = frozenset(("session_id", "source"))


async def plan_merges(
    memories: Sequence[Memory],
    similarities: Mapping[tuple[str, str], float],
    llm: Llm | None = None,
    *,
    now: datetime,
    saved: bool = False,
) -> tuple[Change, ...]:
    """Return the changes that merge what says the same; the caller applies them or not.

    The merged memory is added before its sources are retired; all changes of a merge share a group,
    and the sources name it in `superseded_by`. Pinned memories, turns as they were said and
    compaction summaries stay alone, and so do those whose metadata hold different values of a key.

    Args:
        memories: the visible memories of one scope.
        similarities: (id, id) in either order → cosine; pairs that are missing are not alike.
        llm: writes the merged text; without it nothing merges, for equal words are one memory
            already.
        now: when the plan is made.
        saved: also what callers saved as it is; else that stays alone.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    if llm is None:
        return ()
    size = sum(len(memory.content) for memory in memories)
    groups = await run_in_thread(size, partial(clusters, memories, similarities, saved=saved))
    named = {f"G{number}": group for number, group in enumerate(groups, 1)}
    texts: dict[str, str] = {}
    for batch in batches((name, _lines(name, group)) for name, group in named.items()):
        asked = filled(prompt("merge_groups"), groups="\n".join(batch.values()))
        answer = await llm.complete(asked, schema=MergedGroups)
        for item in answer.groups:
            name = item.group.upper().strip("[] ")
            if item.merge and name in batch:
                texts[name] = " ".join(unescaped(item.text).split())

    def merges() -> tuple[Change, ...]:
        return tuple(
            change
            for name, text in texts.items()
            if unites(text, [memory.content for memory in named[name]])
            for change in joined(
                named[name], text, now=now, why=f"{len(named[name])} memories said the same."
            )
        )

    return await run_in_thread(size, merges)


def _lines(name: str, group: Sequence[Memory]) -> str:
    texts = (" ".join(escaped(memory.content).split()) for memory in group)
    return "\n".join((f"{name}:", *(f"  - {text}" for text in texts)))


def clusters(
    memories: Sequence[Memory],
    similarities: Mapping[tuple[str, str], float],
    *,
    saved: bool = False,
) -> list[list[Memory]]:
    """Return groups of 2 to 5 in which every pair is alike and mergeable, the most similar
    first.
    """
    free = {memory.id: memory for memory in memories if may_merge(memory, saved=saved)}
    linked = {
        frozenset(pair): value
        for pair, value in similarities.items()
        if value >= MIN_SIMILARITY
        and free.keys() >= set(pair)
        and pair[0] != pair[1]
        and _mergeable(*(free[id] for id in pair))
    }
    group_of = {id: frozenset((id,)) for id in free}
    for pair in sorted(linked, key=lambda pair: (-linked[pair], sorted(pair))):
        both = frozenset[str]().union(*(group_of[id] for id in pair))
        if len(both) <= MAX_CLUSTER and all(
            frozenset(link) in linked for link in combinations(both, 2)
        ):
            group_of |= dict.fromkeys(both, both)
    groups = sorted({group for group in group_of.values() if len(group) > 1}, key=min)
    return [[free[id] for id in sorted(group)] for group in groups]


def _mergeable(a: Memory, b: Memory) -> bool:
    """Return True if two memories may become one; of values of a slot none does."""
    if (a.type, a.category, a.origin, a.is_error) != (b.type, b.category, b.origin, b.is_error):
        return False
    if any(
        a.metadata[key] != b.metadata[key]
        for key in a.metadata.keys() & b.metadata.keys() - _WHENCE
    ):
        return False  # their callers labelled them apart, and a merge would lose one label
    return slot_of(a) is None and slot_of(b) is None


def joined(
    group: Sequence[Memory], text: str, *, now: datetime, why: str, **values: Any
) -> list[Change]:
    """Return the changes by which a new memory takes the place of several, which become its
    history.

    The new one is added first; all changes share a group, and the former ones name it in
    `superseded_by`.

    Args:
        group: the memories.
        text: what the new one says.
        now: when that is done.
        why: stands in the history.
        **values: fields of the new memory that are not those of the group's newest.
    """
    newest = max(group, key=lambda memory: (said(memory), memory.id))
    oldest_first = sorted(group, key=lambda memory: (memory.created_at, memory.id))
    lasting = any(memory.expires_at is None for memory in group)
    fields: dict[str, Any] = {
        **united_fields(oldest_first),
        "said_at": said(newest),
        "ttl_days": 0 if lasting else max(memory.ttl_days or 0 for memory in group),
        "valid_from": now,
        "created_at": now,
        "updated_at": now,
        "links": (),
        "revision": 1,
        "position": None,
    }
    name = new_id(now)
    added = replace(newest, id=new_id(now), content=text, **{**fields, **values})
    former = (retired(memory, added.id, now=now) for memory in group)
    return [
        Change(kind="add", memory=added, who=WHO, why=why, group=name, event_ids=added.event_ids),
        *(Change(kind="merge", memory=memory, who=WHO, why=why, group=name) for memory in former),
    ]
