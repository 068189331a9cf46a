"""What a batch comes to, before anything is written: pure decisions over the rows that it meets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Self, TypeAlias

from ..checks import checked_text, json_text
from ..errors import Conflict, InvalidInput, NotFound
from ..language import tokenizer
from ..records import SEARCHED, Change, Memory, Revision, Usage, Vector
from . import codec
from .postings import packed
from .spaces import checked_vector
from .values import Batch, Whole, checked_key

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_BRINGS_TEXT = frozenset({"add", "update", "supersede", "merge"})


def slot_of(memory: Memory) -> str | None:
    """Return the slot that a memory fills; a turn as it was said fills none."""
    return None if memory.verbatim else tokenizer.slot(memory.subject, memory.attribute)


def _packed_terms(content: str, author: str | None) -> bytes:
    return packed(tokenizer.index_terms(content, author))


class Texts:
    """Content hashes and index terms of memories: the longest work of a write, done once, before
    its transaction where it can be.
    """

    def __init__(self) -> None:
        self._identity = cache(tokenizer.identity)
        self._postings = cache(_packed_terms)

    def identity(self, memory: Memory) -> bytes:
        """Return the content hash of a memory."""
        return identity_of(memory, self._identity)

    def postings(self, memory: Memory) -> bytes:
        """Return a memory's index terms, packed."""
        return self._postings(memory.content, memory.author)


def identity_of(memory: Memory, identity: Callable[..., bytes] = tokenizer.identity) -> bytes:
    """Return the content hash of a memory."""
    events = tuple(memory.event_ids)
    return identity(memory.content, verbatim=memory.verbatim, event_ids=events)


def checked(batch: Batch, dimensions: int | None) -> Batch:
    """Return the batch with its vectors as stores keep them; refuse what cannot be stored before
    anything is.

    Raises:
        InvalidInput: an id, text, key or metadata that no store keeps, or a vector that does not
            fit.
    """
    if batch.vectors and batch.space_number is None:
        raise InvalidInput("Vectors need the number of their embedding space.")
    for change in batch.changes:
        _check_change(change)
    for session_id, event_id in batch.taken:
        _check_keys((session_id, event_id), "A taken event's session or id")
    vectors = {id: checked_vector(one, dimensions) for id, one in batch.vectors.items()}
    return replace(batch, vectors=vectors)


def prepared(batch: Batch, dimensions: int | None) -> tuple[Batch, Texts]:
    """Return the batch as `checked`, and its texts."""
    batch, texts = checked(batch, dimensions), Texts()
    for change in batch.changes:
        texts.identity(change.memory)
        if change.kind in ("add", "edit", "update", "merge"):
            texts.postings(change.memory)
    return batch, texts


def _check_change(change: Change) -> None:
    memory = change.memory
    if not codec.is_id(memory.id):
        raise InvalidInput(f"The memory's id {memory.id!r} is not a UUID.")
    texts = (memory.content, memory.author, memory.category, memory.subject, memory.attribute)
    for value in (*texts, *memory.topics, *memory.tags):
        if value is not None:
            checked_text(value, "A text of the memory")
    if memory.session_id is not None:
        _check_keys((memory.session_id,), "The session id")
    if memory.metadata and _NUL.search(json_text(dict(memory.metadata), "The metadata")):
        raise InvalidInput("The metadata holds a NUL character; remove it.")
    _check_keys((*memory.event_ids, *change.event_ids), "An event id")


def _check_keys(values: Sequence[str], what: str) -> None:
    for value in values:
        checked_key(checked_text(value, what), what)


def held_back(
    changes: Sequence[Change],
    stored: Mapping[str, Memory],
    stones: Set[tuple[str, str]],
    salt: bytes,
) -> frozenset[str]:
    """Return the ids of the memories whose changes a tombstone holds back, and of those that they
    would supersede.

    What would be merged into another text is held back with that text.
    """
    # Group → the source events of the stored memories that it merges: what is merged is there, and
    # comes from none.
    merging = {
        change.group for change in changes if change.kind == "merge" and change.group is not None
    }
    merged: dict[str, frozenset[str]] = {}
    for change in changes:
        former = stored.get(change.memory.id)
        if former is not None and change.group is not None and change.group in merging:
            merged[change.group] = merged.get(change.group, frozenset()) | frozenset(
                former.event_ids
            )
    held = {
        change.memory.id for change in changes if _is_held(change, stored, merged, stones, salt)
    }
    merges = {
        change.group for change in changes if change.kind == "merge" and change.memory.id in held
    }
    held |= {change.memory.id for change in changes if change.group in merges}
    return frozenset(
        held | {change.memory.id for change in changes if change.memory.superseded_by in held}
    )


def _is_held(
    change: Change,
    stored: Mapping[str, Memory],
    merged: Mapping[str, frozenset[str]],
    stones: Set[tuple[str, str]],
    salt: bytes,
) -> bool:
    """Return True if a tombstone blocks this change's new text or events."""
    if change.explicit or change.kind not in _BRINGS_TEXT:
        return False
    former = stored.get(change.memory.id)
    there = frozenset(former.event_ids if former else ())
    events = ({*change.memory.event_ids} - there).union(change.event_ids) - merged.get(
        change.group or "", frozenset()
    )
    if any(("event", event) in stones for event in events):
        return True
    said_before = former is not None and former.content == change.memory.content
    return not said_before and (
        ("text", codec.forgotten_key(salt, change.memory.session_id, change.memory.content))
        in stones
    )


Key: TypeAlias = tuple[str, bytes]
"""The state of a memory and its content hash."""


@dataclass(slots=True)
class Plan:
    """Rows that a batch writes.

    Attributes:
        batch: what is to be done.
        stored: the rows that it names, and those that say the same as one that it brings, as they
            are.
        held: the ids of the memories whose changes a tombstone holds back.
        positions: the next free one of each session that it adds to.
        standing: the rows that it writes, as they will be; `fresh` of them are new.
        given: the id that a change named → the id that now holds it.
        same: the state and the content hash of a row → its id.
    """

    batch: Batch
    stored: Mapping[str, Memory]
    held: frozenset[str]
    positions: dict[str, int]
    texts: Texts
    now: datetime
    same: dict[Key, str] = field(default_factory=dict[Key, str])
    standing: dict[str, Memory] = field(default_factory=dict[str, Memory])
    fresh: list[str] = field(default_factory=list[str])
    given: dict[str, str] = field(default_factory=dict[str, str])
    revisions: list[Revision] = field(default_factory=list[Revision])

    @classmethod
    def of(
        cls,
        batch: Batch,
        stored: Mapping[str, Memory],
        *,
        stones: Set[tuple[str, str]],
        salt: bytes,
        positions: Mapping[str, int] | None = None,
        texts: Texts,
        now: datetime,
    ) -> Self:
        """Plan a batch.

        Args:
            batch: what is to be done.
            stored: the rows that it meets.
            stones: the tombstones that may hold its changes back.
            salt: what keys those of texts.
            positions: the next free one of each session that it adds to; None: `stored` are all
                memories, and tell.
            texts: its prepared texts.
            now: the time.

        Raises:
            NotFound: it changes a memory that is not there.
            Conflict: it adds a memory under the id of another, or changes one that was changed
                since it was read, or a memory would become equal to another active one.
        """
        held = held_back(batch.changes, stored, stones, salt)
        if positions is None:
            numbered = [(one.session_id or "", one.position or 0) for one in stored.values()]
            positions = {session_id: place + 1 for session_id, place in sorted(numbered)}
        plan = cls(batch, stored, held, {**positions}, texts, now)
        live = [change for change in batch.changes if change.memory.id not in held]
        # What stops being active makes room for what says the same from now on.
        ended = {change.memory.id for change in live if change.memory.state != "active"}
        for memory in stored.values():
            if memory.state != "active" or memory.id not in ended:
                plan.same[memory.state, texts.identity(memory)] = memory.id
        for change in live:
            plan._take(change)
        for memory_id in batch.reinforced:
            plan._renew(memory_id)
        plan._close()
        return plan

    @property
    def ids(self) -> tuple[str | None, ...]:
        """Return the id that holds each change now; None: a tombstone held it back."""
        named = (change.memory.id for change in self.batch.changes)
        return tuple(None if id in self.held else self.given[id] for id in named)

    @property
    def vectors(self) -> dict[str, Vector]:
        """Return the batch's vectors by the ids of the memories that they are of now."""
        return {
            self.given.get(id, id): vector
            for id, vector in self.batch.vectors.items()
            if id not in self.held and (id in self.given or id in self.stored)
        }

    @property
    def reworded(self) -> list[str]:
        """Return the ids of stored memories that say something else now, so that no vector fits
        them.
        """
        return [
            id
            for id, memory in self.standing.items()
            if (old := self.stored.get(id)) is not None
            and (old.content, old.author) != (memory.content, memory.author)
        ]

    def written(self, wholes: Mapping[str, Whole]) -> dict[str, Whole]:
        """Return what the plan writes, by all that a scope holds; it shares nothing with the
        batch.
        """
        found: dict[str, Whole] = {}
        for id, memory in self.standing.items():
            former = wholes.get(id)
            usage = former.memory.usage if former else Usage()
            copy = replace(codec.from_snapshot(codec.to_snapshot(memory)), usage=usage)
            found[id] = Whole(copy, former.revisions if former else ())
        for one in self.revisions:
            whole = found[one.memory_id]
            found[one.memory_id] = replace(whole, revisions=(*whole.revisions, one))
        return found

    def _take(self, change: Change) -> None:
        """Add one change to the plan."""
        if change.kind != "add":
            self._replace(change)
            return
        added = change.memory
        if (there := self._there(change)) is not None:
            self.given[added.id] = there
            return
        if added.id in self.stored or added.id in self.standing:
            raise Conflict(f"The memory {added.id} already exists with other content.")
        if added.session_id is not None:
            position = self.positions.get(added.session_id, 0)
            self.positions[added.session_id] = position + 1
            added = replace(added, position=position)
        self.standing[added.id] = added
        self.fresh.append(added.id)
        self.given[added.id] = added.id
        if added.state in ("active", "quarantined"):
            self.same[added.state, self.texts.identity(added)] = added.id
        if change.group is not None:
            self._note(change, None)

    def _renew(self, memory_id: str) -> None:
        """Start the lifetime of a memory anew that was met again."""
        current = self._current(memory_id)
        if current is not None and current.state in SEARCHED:
            self.standing[memory_id] = codec.renewed(current, self.now)

    def _close(self) -> None:
        """Settle what only the whole batch shows: who superseded whom, and that active memories
        differ.
        """
        for memory in list(self.standing.values()):
            if memory.superseded_by in self.given:
                self.standing[memory.id] = replace(
                    memory, superseded_by=self.given[memory.superseded_by]
                )
            elif not self.given.keys().isdisjoint(memory.links):
                links = dict.fromkeys(self.given.get(link, link) for link in memory.links)
                self.standing[memory.id] = replace(
                    memory, links=tuple(one for one in links if one != memory.id)
                )
        seen = {key: id for key, id in self.same.items() if id not in self.standing}
        for memory in self.standing.values():
            if (
                memory.state == "active"
                and seen.setdefault(("active", self.texts.identity(memory)), memory.id) != memory.id
            ):
                raise Conflict(
                    f"Another memory already has the content that {memory.id} would get; forget "
                    "one of them."
                )

    def _there(self, change: Change) -> str | None:
        """Return the memory that says the same as an added one and stands for it, revived unless
        the added one may not do that.
        """
        added, identity = change.memory, self.texts.identity(change.memory)
        same = self.same.get(("active", identity))
        if added.state == "quarantined":  # nothing that is not confirmed changes what is there
            return same or self.same.get(("quarantined", identity))
        current = self._current(same)
        if same and current and added.state == "active":
            self.standing[same] = codec.revived(current, added, self.now)
            return same
        if same and current and added.state == "short_term":
            alive = current.pinned or current.expires_at is None or current.expires_at > self.now
            return same if alive else None
        brief = self.same.get(("short_term", identity)) if added.state == "active" else None
        current = self._current(brief)
        if brief and current and current.state == "short_term":
            self._note(replace(change, kind="promote", memory=current), current)
            lasting = codec.revived(current, added, self.now)
            self.standing[brief] = replace(lasting, state="active", revision=current.revision + 1)
            self.same["active", identity] = brief
            return brief
        return None

    def _current(self, memory_id: str | None) -> Memory | None:
        """Return a memory as the changes so far leave it."""
        return self.standing.get(memory_id or "") or self.stored.get(memory_id or "")

    def _replace(self, change: Change) -> None:
        memory = change.memory
        current = self._current(memory.id)
        if current is None:
            raise NotFound(f"There is no memory {memory.id!r}.")
        if current.revision != memory.revision - 1:
            raise Conflict(
                f"The memory {memory.id} was changed in the meantime; read it again and retry."
            )
        self._note(change, current)
        key = "active", self.texts.identity(memory)
        same = self.same.get(key)
        there = self._current(same)
        if (
            same
            and there
            and same != memory.id
            and (current.state, memory.state) == ("short_term", "active")
        ):
            # what is long-term and says the same, though it may have expired, is what it is
            # promoted into
            self.standing[same] = codec.revived(there, memory, self.now)
            self.standing[memory.id] = replace(
                memory, state="superseded", superseded_by=same, valid_to=self.now
            )
            self.given[memory.id] = same
            return
        self.standing[memory.id] = memory
        self.given[memory.id] = memory.id
        former = "active", self.texts.identity(current)
        if current.state == "active" and self.same.get(former) == memory.id:
            del self.same[former]
        if memory.state == "active":
            self.same.setdefault(key, memory.id)

    def _note(self, change: Change, before: Memory | None) -> None:
        revision = Revision(
            memory_id=change.memory.id,
            revision=before.revision if before else 0,
            kind=change.kind,
            before=before and replace(before, usage=Usage()),
            at=self.now,
            who=change.who,
            why=change.why,
            event_ids=change.event_ids,
            group=change.group,
        )
        self.revisions.append(revision)
