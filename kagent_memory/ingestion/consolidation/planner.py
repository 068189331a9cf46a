"""New facts and what is near them become changes: a pure plan around one model call, in time linear in the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Literal, TypeAlias

from ...concurrency import run_in_thread
from ...language.guard import differences
from ...models.llm import Llm
from ...records import Change, Memory, new_id
from ..editing import retired
from .llm_decisions import Decision, decided
from .similarity import (
    covers,
    dispensable,
    identity_of,
    keeps,
    related,
    said,
    same_slot,
    says_the_same,
    slot_of,
    stays_as_saved,
)

_Kind: TypeAlias = Literal["add", "update", "supersede", "merge"]
Near: TypeAlias = Mapping[int, Sequence[tuple[Memory, float]]]
MORE_DETAIL = "The same was said with more detail."
LATER_VALUE = "A later value of the same attribute was said."
EARLIER_VALUE = "A value that was said later is known already."
SAID_AGAIN = "The same was said again."
OTHER_WORDS = "The model held that the same was said in other words."


@dataclass(frozen=True, slots=True)
class Plan:
    """How new facts enter a scope.

    Attributes:
        changes: in the order they must be applied; those of one decision share a group.
        reinforced: ids of memories that were met again.
        vetoed: how many decisions of the model were turned into plain additions or supersessions.
    """

    changes: tuple[Change, ...] = ()
    reinforced: tuple[str, ...] = ()
    vetoed: int = 0


async def plan(
    new: Sequence[Memory], neighbours: Near, *, llm: Llm | None = None, now: datetime, who: str = "consolidation"
) -> Plan:
    """`decisions`, and at once what they come to: see `settled`.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    asked = await decisions(new, neighbours, llm)
    return await run_in_thread(size_of(new, neighbours), partial(settled, new, neighbours, asked, now=now, who=who))


async def decisions(new: Sequence[Memory], neighbours: Near, llm: Llm | None) -> dict[int, Decision]:
    """What the model decides about all facts that rules do not settle, in one call; without a model nothing.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used.
    """
    if llm is None:
        return {}
    near = await run_in_thread(size_of(new, neighbours), partial(_open, new, neighbours))
    return await decided({number: new[number] for number in near}, near, llm) if near else {}


def settled(
    new: Sequence[Memory],
    neighbours: Near,
    asked: Mapping[int, Decision],
    *,
    now: datetime,
    who: str = "consolidation",
) -> Plan:
    """Decides for every new memory: add it, or reinforce, update or supersede one that is there.

    Equal words reinforce. A later value of the same attribute of the same subject supersedes the earlier, whichever was
    taken in first. All else is the model's to decide, and what it decides is checked: it may supersede only within a
    slot; nothing is united across a difference that the guard sees, without a shared word, or when a detail would be
    lost; what a caller saved or pinned keeps its words; what a tool said changes nothing that the user said. What then
    rests on the model's word alone is kept as history of the memory that it went into, so that `undo` brings it back.

    Args:
        new: the rows the facts would become (`lifecycle.to_memory`).
        neighbours: index into `new` → visible memories that may be the same, most similar first, with their cosine.
            Exact duplicates and those of the same slot must be among them to be seen.
        asked: index into `new` → what the model decided; a memory that it names counts as it is among the neighbours.
        now: when the plan is made.
        who: stands in the history of what is changed.
    """
    order = list(range(len(new)))  # as given, but for the values of one slot: the later finds the earlier one there
    slots: dict[str, list[int]] = {}
    for number, fact in enumerate(new):
        if not fact.verbatim and (slot := slot_of(fact)) is not None:
            slots.setdefault(slot, []).append(number)
    for numbers in slots.values():
        for place, number in zip(numbers, sorted(numbers, key=lambda number: said(new[number])), strict=True):
            order[place] = number
    draft = _Draft(now=now, who=who)
    for number in order:
        fact = new[number]
        draft.take(fact, _meetable(fact, neighbours.get(number, ())), asked.get(number))
    return Plan(tuple(draft.changes), tuple(draft.reinforced), draft.vetoed)


def size_of(new: Sequence[Memory], neighbours: Near) -> int:
    """About how many characters the plan has to read."""
    near = sum(len(memory.content) for some in neighbours.values() for memory, _ in some)
    return near + sum(len(fact.content) for fact in new)


def _open(new: Sequence[Memory], neighbours: Near) -> dict[int, list[Memory]]:
    """The facts that a model is asked about, by their number, with what may be the same."""
    near = {number: _meetable(new[number], some) for number, some in neighbours.items()}
    return {
        number: some
        for number, some in sorted(near.items())
        if some
        and new[number].state == "active"
        and not new[number].verbatim
        and not new[number].is_summary
        and all(identity_of(memory) != identity_of(new[number]) for memory in some)
    }


def _meetable(fact: Memory, near: Sequence[tuple[Memory, float]]) -> list[Memory]:
    """Turns as they were said are never changed: they meet only their exact like."""
    return [
        memory
        for memory, _ in sorted(near, key=lambda pair: -pair[1])
        if memory.state == "active" and (not memory.verbatim or identity_of(memory) == identity_of(fact))
    ]


def checked(fact: Memory, decision: Decision) -> Decision:
    """The decision, or the safe one in its place: nothing is united that differs, and no detail is lost."""
    memory = decision.memory
    if memory is None or decision.action == "ADD" or _outranked(fact, memory):
        return Decision("ADD")
    apart = Decision("SUPERSEDE", memory) if same_slot(fact, memory) else Decision("ADD")
    if decision.action == "SUPERSEDE":
        return apart
    if differences(fact.content, memory.content) or not related(fact, memory):
        return apart
    if decision.action == "UPDATE" and not stays_as_saved(memory):
        text = " ".join((decision.text or "").split())
        for told in (text, fact.content):
            if keeps(told, fact.content, memory.content):
                return Decision("UPDATE", memory, told)
    # a value that is put otherwise takes the former one's place; beside it, it would be a second one
    fits = covers(memory.content, fact.content) if apart.action == "SUPERSEDE" else dispensable(fact, memory)
    return Decision("NOOP", memory) if fits else apart


def _outranked(fact: Memory, memory: Memory) -> bool:
    """What a tool said changes nothing that somebody else said."""
    return fact.origin == "tool" and memory.origin != "tool" and identity_of(fact) != identity_of(memory)


@dataclass(slots=True)
class _Draft:
    """The plan in the making.

    Attributes:
        standing: the rows that it has changed or added so far, by their ids.
        added: the ids of those that it adds → where in `changes`.
        identities, slots: of the active ones among those that it adds → their ids.
    """

    now: datetime
    who: str
    changes: list[Change] = field(default_factory=list[Change])
    reinforced: dict[str, None] = field(default_factory=dict[str, None])
    standing: dict[str, Memory] = field(default_factory=dict[str, Memory])
    added: dict[str, int] = field(default_factory=dict[str, int])
    identities: dict[bytes, str] = field(default_factory=dict[bytes, str])
    slots: dict[str, str] = field(default_factory=dict[str, str])
    vetoed: int = 0

    def take(self, fact: Memory, near: Sequence[Memory], asked: Decision | None) -> None:
        """Adds the changes of one fact; one in quarantine changes nothing that is there."""
        if fact.state == "quarantined":
            self._change("add", fact, fact)
            return
        current = [self.standing.get(memory.id, memory) for memory in near]
        active = [memory for memory in current if memory.state == "active"]
        twin = self._twin(fact, active)
        if twin is not None:
            self._reinforce(twin, fact)
            return
        decision = self._decision(fact, [memory for memory in active if not memory.verbatim], asked)
        if decision.action == "UPDATE" and decision.memory is not None:
            # no update makes one memory the exact like of another; then that other one is what was met again
            wanted = replace(decision.memory, content=decision.text or decision.memory.content)
            twin = self._twin(wanted, [other for other in active if other.id != decision.memory.id])
            decision = Decision("NOOP", twin) if twin is not None and twin.id != decision.memory.id else decision
        memory = decision.memory
        if memory is None or decision.action == "ADD":
            self._change("add", fact, fact)
        elif decision.action == "NOOP":
            self._reinforce(memory, fact)
        elif decision.action == "UPDATE":
            self._update(memory, fact, decision.text or fact.content)
        elif said(fact) < said(memory):
            self._retire(fact, memory, fact, why=EARLIER_VALUE, until=memory.valid_from or said(memory))
        else:
            self._supersede(memory, fact)

    def _twin(self, fact: Memory, active: Sequence[Memory]) -> Memory | None:
        same = identity_of(fact)
        twin = next((memory for memory in active if identity_of(memory) == same), None)
        place = self.identities.get(same)
        return twin if twin is not None or place is None else self.standing[place]

    def _decision(self, fact: Memory, active: Sequence[Memory], asked: Decision | None) -> Decision:
        if fact.verbatim:
            return Decision("ADD")
        if asked is not None and asked.memory is not None and not fact.is_summary:
            memory = next((one for one in active if one.id == asked.memory.id), None)
            wanted = replace(asked, memory=memory) if memory is not None else self._by_rule(fact, ())
            safe = checked(fact, wanted)
            self.vetoed += safe.action != wanted.action
            return safe if safe.action != "ADD" else checked(fact, self._by_rule(fact, ()))
        # what the model saw beside the fact and left alone stays
        return checked(fact, self._by_rule(fact, active if asked is None or fact.is_summary else ()))

    def _by_rule(self, fact: Memory, active: Sequence[Memory]) -> Decision:
        """Without a model: a value of a slot meets the one that was said last."""
        slot = slot_of(fact)
        holders = [memory for memory in active if slot is not None and slot_of(memory) == slot]
        if slot is not None and slot in self.slots:
            holders.append(self.standing[self.slots[slot]])
        holders = [memory for memory in holders if not _outranked(fact, memory)]
        return Decision("SUPERSEDE", max(holders, key=said)) if holders else Decision("ADD")

    def _reinforce(self, memory: Memory, fact: Memory) -> None:
        """The memory says what the fact says; a fact that says it in other words, as the model holds, is kept too."""
        self.reinforced[memory.id] = None
        if not says_the_same(memory, fact):
            group = self._retire(fact, memory, fact, why=OTHER_WORDS)
            self._replace(replace(memory, said_at=max(said(memory), said(fact))), fact, why=OTHER_WORDS, group=group)
        elif slot_of(memory) is not None and said(fact) > said(memory):
            self._replace(replace(memory, said_at=said(fact)), fact, why=SAID_AGAIN)

    def _update(self, memory: Memory, fact: Memory, text: str) -> None:
        told_anew = says_the_same(memory, fact)
        group = new_id(self.now) if told_anew else self._retire(fact, memory, fact, why=MORE_DETAIL, kind="merge")
        renewed = max(filter(None, (memory.expires_at, fact.expires_at)), default=None)
        updated = replace(
            memory,
            content=text,
            topics=tuple(dict.fromkeys((*memory.topics, *fact.topics))),
            tags=tuple(dict.fromkeys((*memory.tags, *fact.tags))),
            importance=max(memory.importance, fact.importance),
            event_ids=tuple(dict.fromkeys((*memory.event_ids, *fact.event_ids))),
            metadata={**memory.metadata, **fact.metadata},
            happened_at=fact.happened_at or memory.happened_at,
            said_at=max(said(memory), said(fact)),
            expires_at=renewed if memory.expires_at and fact.expires_at else None,
        )
        self._replace(updated, fact, why=MORE_DETAIL, group=group)

    def _supersede(self, memory: Memory, fact: Memory) -> None:
        """The later value stands, the earlier one is history; what was said last counts, whatever time it is about."""
        since = fact.happened_at or fact.said_at or self.now
        began = memory.valid_from or memory.happened_at or memory.created_at
        old = retired(memory, fact.id, now=self.now, valid_to=since if since >= began else self.now)
        place = self.added.get(old.id)
        if place is None:
            group = new_id(self.now)
        else:  # what this plan adds is history from the start, and one decision undoes all values that came after it
            group = self.changes[place].group or new_id(self.now)
            self._reword(place, replace(old, revision=memory.revision), group)
        self._change("add", replace(fact, valid_from=since), fact, why=LATER_VALUE, group=group)
        if place is None:
            self._change("supersede", old, fact, why=LATER_VALUE, group=group)

    def _retire(
        self,
        fact: Memory,
        memory: Memory,
        source: Memory,
        *,
        why: str,
        kind: Literal["supersede", "merge"] = "supersede",
        until: datetime | None = None,
    ) -> str:
        """Keeps a fact as history of the memory that stands for it; gives the group of that decision."""
        group = new_id(self.now)
        since = fact.happened_at or fact.said_at or self.now
        self._change("add", fact, source)
        ends = until if until is not None and until >= since else self.now
        former = retired(fact, memory.id, now=self.now, valid_from=since, valid_to=ends)
        self._change(kind, former, source, why=why, group=group)
        del self.added[fact.id]
        return group

    def _replace(self, memory: Memory, fact: Memory, *, why: str, group: str | None = None) -> None:
        """A row as it is from now on; what this plan adds itself is added so from the start."""
        place = self.added.get(memory.id)
        if place is not None:
            self._reword(place, memory)
            return
        changed = replace(memory, updated_at=self.now, revision=memory.revision + 1)
        self._change("update", changed, fact, why=why, group=group)

    def _reword(self, place: int, memory: Memory, group: str | None = None) -> None:
        """What this plan adds is added as it is in the end: a store replaces only what it holds."""
        change = self.changes[place]
        self._forget(self.standing[memory.id])
        self.changes[place] = replace(change, memory=memory, group=group or change.group)
        self._stand(memory)

    def _change(self, kind: _Kind, memory: Memory, fact: Memory, *, why: str = "", group: str | None = None) -> None:
        if memory.id in self.standing:
            self._forget(self.standing[memory.id])
        if kind == "add":
            self.added[memory.id] = len(self.changes)
        change = Change(kind=kind, memory=memory, who=self.who, why=why, event_ids=fact.event_ids, group=group)
        self.changes.append(change)
        self._stand(memory)

    def _stand(self, memory: Memory) -> None:
        self.standing[memory.id] = memory
        if memory.state == "active":
            self.identities.setdefault(identity_of(memory), memory.id)
            if not memory.verbatim and (slot := slot_of(memory)) is not None and memory.id in self.added:
                self.slots[slot] = memory.id

    def _forget(self, memory: Memory) -> None:
        """What stood so far no longer does."""
        if self.identities.get(same := identity_of(memory)) == memory.id:
            del self.identities[same]
        if (slot := slot_of(memory)) is not None and self.slots.get(slot) == memory.id:
            del self.slots[slot]
