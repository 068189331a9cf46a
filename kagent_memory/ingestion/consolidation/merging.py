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
from .similarity import WHO, said, slot_of, united_fields, unites

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
    free = [memory for memory in memories if saved or not memory.explicit]
    size = sum(len(memory.content) for memory in free)
    groups = await run_in_thread(size, partial(clusters, free, similarities))
    named = {f"G{number}": group for number, group in enumerate(groups, 1)}
    shown = (
        (
            name,
            "\n".join(
                (
                    f"{name}:",
                    *(f"  - {' '.join(escaped(memory.content).split())}" for memory in group),
                )
            ),
        )
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

    def merges() -> tuple[Change, ...]:
        return tuple(
            change
            for name, group in named.items()
            if unites(texts[name], [memory.content for memory in group])
            for change in joined(
                group, texts[name], now=now, why=f"{len(group)} memories said the same."
            )
        )

    return await run_in_thread(size, merges)


def clusters(
    memories: Sequence[Memory],
    similarities: Mapping[tuple[str, str], float],
) -> list[list[Memory]]:
    """Return groups of 2 to 5 in which every pair is alike and mergeable, the most similar
    first.
    """
    place = {
        memory.id: number
        for number, memory in enumerate(memories)
        if memory.state == "active" and not (memory.verbatim or memory.pinned or memory.is_summary)
    }
    alike = {
        frozenset((place[a], place[b])): value
        for (a, b), value in similarities.items()
        if value >= MIN_SIMILARITY and a != b and a in place and b in place
    }
    linked = {
        pair: value
        for pair, value in alike.items()
        if _mergeable(*(memories[number] for number in sorted(pair)))
    }
    group_of: dict[int, frozenset[int]] = {}
    for pair in sorted(linked, key=lambda pair: (-linked[pair], sorted(pair))):
        a, b = sorted(pair)
        ours, theirs = group_of.get(a, frozenset((a,))), group_of.get(b, frozenset((b,)))
        both = ours | theirs
        if (
            ours == theirs
            or len(both) > MAX_CLUSTER
            or any(frozenset(link) not in linked for link in combinations(both, 2))
        ):
            continue
        group_of |= dict.fromkeys(both, both)
    groups = sorted(set(group_of.values()), key=min)
    return [[memories[number] for number in sorted(group)] for group in groups]


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
    former = (retired(memory, added.id, now=now, valid_to=now) for memory in group)
    return [
        Change(kind="add", memory=added, who=WHO, why=why, group=name, event_ids=added.event_ids),
        *(Change(kind="merge", memory=memory, who=WHO, why=why, group=name) for memory in former),
    ]
