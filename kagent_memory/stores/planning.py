"""Plan of a batch before anything is written: pure decisions over the rows that it meets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from itertools import chain

from ..checks import checked_key, checked_text, json_text
from ..errors import Conflict, InvalidInput, NotFound
from ..language import tokenizer
from ..records import SEARCHED, Change, Memory, Revision, Usage
from . import codec
from .decisions import is_visible
from .spaces import checked_vectors
from .values import Batch

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_BRINGS_TEXT = frozenset({"add", "update", "supersede", "merge"})


def slot_of(memory: Memory) -> str | None:
    """Return the slot that a memory fills; a kept turn fills none."""
    return None if memory.verbatim else tokenizer.slot(memory.subject, memory.attribute)


def said(memory: Memory) -> datetime:
    """Return when a memory was said, or when it was added where that is unknown."""
    return memory.said_at or memory.created_at


def valid_since(memory: Memory) -> datetime:
    """Return since when a memory has been valid."""
    return memory.valid_from or said(memory)


def is_saved(memory: Memory) -> bool:
    """Return True if only an explicit call may change a memory: a caller saved or pinned it."""
    return memory.explicit or memory.pinned


def was_to_replace(older: Memory, newer: Memory) -> bool:
    """Return True if a model would have put the newer of two linked memories in the place of the
    older one, which was saved.
    """
    return is_saved(older) and newer.valid_from is not None


def identity_of(memory: Memory) -> bytes:
    """Return the content hash of a memory."""
    return codec.Texts().identity(memory)


def checked(batch: Batch, dimensions: int | None) -> Batch:
    """Check a batch, and return it with its vectors as stores keep them.

    Raises:
        InvalidInput: an id, text, key, metadata or vector is invalid.
    """
    if batch.vectors and batch.space_number is None:
        raise InvalidInput("Vectors need the number of their embedding space.")
    for change in batch.changes:
        _check_change(change)
    for key in chain.from_iterable(batch.taken):
        checked_key(key, "A taken event's session or id")
    vectors = checked_vectors([*batch.vectors.values()], dimensions)
    return replace(batch, vectors=dict(zip(batch.vectors, vectors, strict=True)))


def prepared(batch: Batch, dimensions: int | None, *, written: bool = True) -> Batch:
    """Check a batch and compute its content hashes, and index terms if it will be `written`."""
    batch = checked(batch, dimensions)
    for change in batch.changes:
        batch.texts.identity(change.memory)
        if written and change.kind in ("add", "edit", "update", "merge"):
            batch.texts.postings(change.memory)
    return batch


def _check_change(change: Change) -> None:
    memory = change.memory
    if not codec.is_id(memory.id):
        raise InvalidInput(f"The memory's id {memory.id!r} is not a UUID.")
    texts = (memory.content, memory.author, memory.category, memory.subject, memory.attribute)
    for value in (*texts, *memory.topics, *memory.tags):
        if value is not None:
            checked_text(value, "A text of the memory")
    if memory.session_id is not None:
        checked_key(memory.session_id, "The session id")
    if memory.metadata and _NUL.search(json_text(dict(memory.metadata), "The metadata")):
        raise InvalidInput("The metadata holds a NUL character; remove it.")
    for event_id in (*memory.event_ids, *change.event_ids):
        checked_key(event_id, "An event id")


def held_back(
    changes: Sequence[Change],
    stored: Mapping[str, Memory],
    stones: Set[tuple[str, str]],
    salt: bytes,
) -> frozenset[str]:
    """Return the ids of memories whose changes a tombstone blocks, and of those that they would
    supersede. All changes of a merge are blocked together.
    """
    if not stones:
        return frozenset()
    # group → the events of the stored memories that it merges, which block nothing
    merged: dict[str | None, set[str]] = {
        change.group: set() for change in changes if change.kind == "merge" and change.group
    }
    for change in changes:
        if change.group in merged and (former := stored.get(change.memory.id)):
            merged[change.group].update(former.event_ids)

    def is_held(change: Change) -> bool:
        memory, former = change.memory, stored.get(change.memory.id)
        if change.explicit or change.kind not in _BRINGS_TEXT:
            return False
        events = {*memory.event_ids} - {*(former.event_ids if former else ())}
        events |= {*change.event_ids}
        events -= merged.get(change.group, set())
        if any(("event", event) in stones for event in events):
            return True
        text = "text", codec.forgotten_key(salt, memory.session_id, memory.content)
        return (former is None or former.content != memory.content) and text in stones

    ids = {change.memory.id for change in changes if is_held(change)}
    merges = {
        change.group for change in changes if change.kind == "merge" and change.memory.id in ids
    }
    ids |= {change.memory.id for change in changes if change.group in merges}
    return frozenset(
        ids | {change.memory.id for change in changes if change.memory.superseded_by in ids}
    )


class Plan:
    """The rows that a batch writes.

    Args:
        batch: the batch.
        stored: the stored memories that it names or whose content equals an added one.
        stones: the tombstones that may block its changes.
        salt: the key of the tombstones of texts.
        positions: the next free position of each session; 0 for others.
        now: the time.

    Attributes:
        ids: for each change the id that holds it now; None: a tombstone blocked it.
        standing: the memories to write.
        fresh: the ids of the new ones.
        reworded: the ids of stored memories whose text changes, so that their vectors do not fit.
        revisions: the revisions to write.
        vectors: the vectors to write, by the ids of the memories that hold them now.

    Raises:
        NotFound: a changed memory does not exist.
        Conflict: an added memory has the id of another, a changed one was changed since it was
            read, or one would equal another active memory.
    """

    def __init__(
        self,
        batch: Batch,
        stored: Mapping[str, Memory],
        *,
        stones: Set[tuple[str, str]],
        salt: bytes,
        positions: Mapping[str, int],
        now: datetime,
    ) -> None:
        self._stored, self._texts, self._now = stored, batch.texts, now
        self._positions = {**positions}
        self.standing: dict[str, Memory] = {}
        self.fresh: list[str] = []
        self.revisions: list[Revision] = []
        self._holders: dict[str, str] = {}  # the id that a change named → that which holds it now
        refused = held_back(batch.changes, stored, stones, salt)
        live = [change for change in batch.changes if change.memory.id not in refused]
        # a memory that ceases to be active leaves its content to others
        ended = {change.memory.id for change in live if change.memory.state != "active"}
        self._same = {
            (memory.state, batch.texts.identity(memory)): memory.id
            for memory in stored.values()
            if memory.state != "active" or memory.id not in ended
        }
        for change in live:
            memory = change.memory
            self._holders[memory.id] = (
                self._add(change) if change.kind == "add" else self._replace(change)
            )
        for memory_id in batch.reinforced:
            current = self._current(memory_id)
            if current and current.state in SEARCHED:
                self.standing[memory_id] = codec.renewed(current, now)
        self._rename()
        self._check_distinct()
        self.ids = tuple(self._holders.get(change.memory.id) for change in batch.changes)
        self.vectors = {
            self._holders.get(id, id): vector
            for id, vector in batch.vectors.items()
            if id not in refused and (id in self._holders or id in stored)
        }
        self.reworded = [
            id
            for id, memory in self.standing.items()
            if (old := stored.get(id))
            and (old.content, old.author) != (memory.content, memory.author)
        ]

    def _add(self, change: Change) -> str:
        """Plan a new memory; return the id that holds it."""
        added = change.memory
        if holder := self._equal_to(change):
            return holder
        if self._current(added.id):
            if added.state == "source":  # an import brought the turn, whose id follows from it
                return added.id
            raise Conflict(f"The memory {added.id} already exists with other content.")
        if added.session_id is not None:
            position = self._positions.get(added.session_id, 0)
            self._positions[added.session_id] = position + 1
            added = replace(added, position=position)
        self.standing[added.id] = added
        self.fresh.append(added.id)
        if added.state in ("active", "quarantined"):
            self._same[added.state, self._texts.identity(added)] = added.id
        if change.group is not None:
            self._note(change, None)
        return added.id

    def _equal_to(self, change: Change) -> str | None:
        """Return the id of an equal memory that holds an added one, revived if allowed."""
        added, identity = change.memory, self._texts.identity(change.memory)
        same = self._same.get(("active", identity))
        if added.state == "quarantined":  # it changes nothing before it is confirmed
            return same or self._same.get(("quarantined", identity))
        current = self._current(same)
        if same and current and added.state == "active":
            self.standing[same] = codec.revived(current, added, self._now)
            return same
        if same and current and added.state == "short_term":
            return same if is_visible(current, self._now, superseded=True) else None
        brief = self._same.get(("short_term", identity)) if added.state == "active" else None
        current = self._current(brief)
        if brief and current and current.state == "short_term":
            self._note(replace(change, kind="promote", memory=current), current)
            lasting = codec.revived(current, added, self._now)
            self.standing[brief] = replace(lasting, state="active", revision=current.revision + 1)
            self._same["active", identity] = brief
            return brief
        return None

    def _current(self, memory_id: str | None) -> Memory | None:
        """Return a memory as the changes so far leave it."""
        return self.standing.get(memory_id or "") or self._stored.get(memory_id or "")

    def _replace(self, change: Change) -> str:
        """Plan the change of a stored memory; return the id that holds it."""
        memory = change.memory
        current = self._current(memory.id)
        if not current:
            raise NotFound(f"There is no memory {memory.id!r}.")
        if current.revision != memory.revision - 1:
            raise Conflict(
                f"The memory {memory.id} was changed in the meantime; read it again and retry."
            )
        self._note(change, current)
        key = "active", self._texts.identity(memory)
        same = self._same.get(key)
        equal = self._current(same)
        is_promoted = (current.state, memory.state) == ("short_term", "active")
        if same and equal and same != memory.id and is_promoted:
            # promoted into the equal long-term memory, even if that has expired
            self.standing[same] = codec.revived(equal, memory, self._now)
            self.standing[memory.id] = replace(
                memory, state="superseded", superseded_by=same, valid_to=self._now
            )
            return same
        self.standing[memory.id] = memory
        former = "active", self._texts.identity(current)
        if current.state == "active" and self._same.get(former) == memory.id:
            del self._same[former]
        if memory.state == "active":
            self._same.setdefault(key, memory.id)
        return memory.id

    def _rename(self) -> None:
        """Replace ids in successors and links by the ids that hold them now."""
        holders = self._holders
        for memory in list(self.standing.values()):
            if memory.superseded_by in holders:
                self.standing[memory.id] = replace(
                    memory, superseded_by=holders[memory.superseded_by]
                )
            elif not holders.keys().isdisjoint(memory.links):
                links = dict.fromkeys(holders.get(link, link) for link in memory.links)
                links.pop(memory.id, None)
                self.standing[memory.id] = replace(memory, links=tuple(links))

    def _check_distinct(self) -> None:
        """Check that active memories differ."""
        seen = {key: id for key, id in self._same.items() if id not in self.standing}
        for memory in self.standing.values():
            key = memory.state, self._texts.identity(memory)
            if memory.state == "active" and seen.setdefault(key, memory.id) != memory.id:
                raise Conflict(
                    f"Another memory already has the content that {memory.id} would get; forget "
                    "one of them."
                )

    def _note(self, change: Change, before: Memory | None) -> None:
        self.revisions.append(
            Revision(
                memory_id=change.memory.id,
                revision=before.revision if before else 0,
                kind=change.kind,
                before=before and replace(before, usage=Usage()),
                at=self._now,
                who=change.who,
                why=change.why,
                event_ids=change.event_ids,
                group=change.group,
            )
        )
