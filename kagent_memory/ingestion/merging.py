"""Memories become one: pairs that a model unites, and what stands for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..models.llm import Llm
from ..records import Change, Memory, new_id
from ..retrieval.similar import Near
from ..stores.planning import slot_of
from .comparing import WHO, may_merge, said, united_fields, unites
from .editing import retired
from .planner import UNITED, decide

MIN_SIMILARITY = 0.8
"""Cosine of two memories that may be one."""
# metadata of where it was said: the newest's will do for both
_WHENCE = frozenset(("session_id", "source"))


async def plan_merges(
    memories: Sequence[Memory], near: Near, llm: Llm, *, now: datetime, saved: bool = False
) -> list[Change]:
    """Return the changes that unite memories in pairs, as the model decides about new facts.

    The new memory is added before its two sources are retired; all changes of a merge share a
    group, and the sources name it in `superseded_by`.

    Args:
        memories: visible memories of one scope.
        near: index into `memories` → memories that are like it, with their cosine.
        llm: decides, and writes the sentence that says both.
        now: when the plan is made.
        saved: also what callers saved as it is; else that stays alone.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    pairs = _pairs(memories, near, saved=saved)
    shown = {number: [(older, 1.0)] for number, (_, older) in enumerate(pairs)}
    decided = await decide([newer for newer, _ in pairs], shown, llm)
    return [
        change
        for number, decision in decided.items()
        if decision.action == "UPDATE"
        and unites(text := decision.text or "", [memory.content for memory in pairs[number]])
        for change in joined(pairs[number], text, now=now, why=UNITED)
    ]


def _pairs(memories: Sequence[Memory], near: Near, *, saved: bool) -> list[tuple[Memory, Memory]]:
    """Return pairs of a newer and an older memory that are alike and may be one, the most similar
    first; each memory is in one pair at most.
    """
    alike = [
        (value, *sorted((memories[place], other), key=said, reverse=True))
        for place, some in near.items()
        for other, value in some
        if value >= MIN_SIMILARITY
    ]
    paired: set[str] = set()
    pairs: list[tuple[Memory, Memory]] = []
    for _, newer, older in sorted(alike, key=lambda one: -one[0]):
        may = may_merge(newer, saved=saved) and may_merge(older, saved=saved)
        if may and paired.isdisjoint((newer.id, older.id)) and _are_of_a_kind(newer, older):
            pairs.append((newer, older))
            paired |= {newer.id, older.id}
    return pairs


def _are_of_a_kind(a: Memory, b: Memory) -> bool:
    """Return True for two memories of one type and origin, that fill no slot and have no different
    labels, of which a merge would lose one.
    """
    kinds = [(one.type, one.category, one.origin, one.is_error, slot_of(one)) for one in (a, b)]
    common = a.metadata.keys() & b.metadata.keys() - _WHENCE
    is_labelled_alike = all(a.metadata[key] == b.metadata[key] for key in common)
    return kinds[0] == kinds[1] and slot_of(a) is None and is_labelled_alike


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
