"""New facts and what is near them become changes: a pure plan around one model call, in time linear in the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Literal, TypeAlias

from ...concurrency import run_in_thread
from ...models.llm import Llm
from ...records import MAX_LINKS, Change, Memory, new_id
from ..editing import retired
from .llm_decisions import Decision, decided
from .similarity import identity_of, is_outranked, is_saved, said, slot_of, unites

_Kind: TypeAlias = Literal["add", "update", "supersede", "merge", "link"]
Near: TypeAlias = Mapping[int, Sequence[tuple[Memory, float]]]
MIN_REPLACED = 3
"""Memories that one job may always supersede; of a large scope a tenth."""
UNITED = "Both were united in one sentence."
LATER_VALUE = "It was replaced by what was said later."
EARLIER_VALUE = "It was said before what replaced it."
SAID_AGAIN = "The same was said again."
SAME = "The model found that both say the same."
BESIDE_SAVED = "It contradicts what was saved explicitly, which stays."


@dataclass(frozen=True, slots=True)
class Plan:
    """How new facts enter a scope.

    Attributes:
        changes: in the order they must be applied; those of one decision share a group.
        reinforced: ids of memories that were met again.
        vetoed: how many decisions of the model were not carried out as it made them.
        spared: how many of those would have superseded more memories than one job may.
    """

    changes: tuple[Change, ...] = ()
    reinforced: tuple[str, ...] = ()
    vetoed: int = 0
    spared: int = 0


async def plan(
    new: Sequence[Memory],
    neighbours: Near,
    *,
    llm: Llm | None = None,
    visible: int = 0,
    now: datetime,
    who: str = "consolidation",
) -> Plan:
    """Ask the model for its decisions and plan with them; see `decisions` and `settled`.

    Raises:
        ModelError: the model is unavailable or its answer cannot be used; nothing is planned.
    """
    asked = await decisions(new, neighbours, llm)
    work = partial(settled, new, neighbours, asked, visible=visible, now=now, who=who)
    return await run_in_thread(size_of(new, neighbours), work)


async def decisions(new: Sequence[Memory], neighbours: Near, llm: Llm | None) -> dict[int, Decision]:
    """Return what the model decides about all facts that rules do not settle, in one call.

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
    visible: int = 0,
    now: datetime,
    who: str = "consolidation",
) -> Plan:
    """Decide for every new memory: add it, or reinforce, link, update or supersede another one.

    Equal words reinforce. A later value of the same attribute of the same subject supersedes the
    earlier one, whichever was taken in first. All else is the model's to judge, and made harmless:
    what it holds to say the same is linked and stays; what it replaces becomes history that ends
    when the new statement was said; a text that unites two is believed only if it holds both. What
    a caller saved or pinned stays as it is, what a tool said changes nothing that others said, and
    one job supersedes a few memories at most.

    Args:
        new: the rows that the facts would become (`lifecycle.to_memory`).
        neighbours: index into `new` → visible memories that may be the same, most similar first,
            with their cosine. Exact duplicates and those of the same slot must be among them.
        asked: index into `new` → what the model decided; a memory that it names counts as it is
            among the neighbours.
        visible: how many memories of the scope readers see; a tenth of them may be superseded.
        now: when the plan is made.
        who: stands in the history of what is changed.
    """
    order = list(range(len(new)))  # as given, but values of one slot by the time they were said
    slots: dict[str, list[int]] = {}
    for number, fact in enumerate(new):
        if not fact.verbatim and (slot := slot_of(fact)) is not None:
            slots.setdefault(slot, []).append(number)
    for numbers in slots.values():
        by_time = sorted(numbers, key=lambda number: said(new[number]))
        for place, number in zip(numbers, by_time, strict=True):
            order[place] = number
    draft = _Draft(now=now, who=who, replaceable=max(MIN_REPLACED, visible // 10))
    for number in order:
        fact = new[number]
        draft.take(fact, _meetable(fact, neighbours.get(number, ())), asked.get(number))
    return Plan(tuple(draft.changes), tuple(draft.reinforced), draft.vetoed, draft.spared)


def size_of(new: Sequence[Memory], neighbours: Near) -> int:
    """About how many characters the plan has to read."""
    near = sum(len(memory.content) for some in neighbours.values() for memory, _ in some)
    return near + sum(len(fact.content) for fact in new)


def _open(new: Sequence[Memory], neighbours: Near) -> dict[int, list[Memory]]:
    """Return the facts that a model is asked about, by their number, with what may be the same."""
    asked: dict[int, list[Memory]] = {}
    for number, some in sorted(neighbours.items()):
        fact, near = new[number], _meetable(new[number], some)
        shown = [memory for memory in near if not (memory.verbatim or memory.is_summary)]
        is_plain = fact.state == "active" and not (fact.verbatim or fact.is_summary)
        if shown and is_plain and all(identity_of(memory) != identity_of(fact) for memory in near):
            asked[number] = shown
    return asked


def _meetable(fact: Memory, near: Sequence[tuple[Memory, float]]) -> list[Memory]:
    """Return the active memories near a fact; of turns as they were said only its exact like."""
    return [
        memory
        for memory, _ in sorted(near, key=lambda pair: -pair[1])
        if memory.state == "active" and (not memory.verbatim or identity_of(memory) == identity_of(fact))
    ]


def checked(fact: Memory, decision: Decision) -> Decision:
    """Return the decision, or a harmless one in its place.

    That is ADD for what a tool must not change, and NOOP (a link) for a united text that does not
    hold both.
    """
    memory = decision.memory
    if memory is None or decision.action == "ADD" or is_outranked(fact, memory):
        return Decision("ADD")
    if decision.action == "UPDATE":
        text = " ".join((decision.text or "").split())
        if is_saved(memory) or not unites(text, (memory.content, fact.content)):
            return Decision("NOOP", memory)
        return replace(decision, text=text)
    return decision


@dataclass(slots=True)
class _Draft:
    """The plan in the making.

    Attributes:
        standing: the rows that it has changed or added so far, by their ids.
        added: the ids of those that it adds → where in `changes`.
        identities, slots: of the active ones among those that it adds → their ids.
        replaceable: how many stored memories it may still supersede.
    """

    now: datetime
    who: str
    replaceable: int
    changes: list[Change] = field(default_factory=list[Change])
    reinforced: dict[str, None] = field(default_factory=dict[str, None])
    standing: dict[str, Memory] = field(default_factory=dict[str, Memory])
    added: dict[str, int] = field(default_factory=dict[str, int])
    identities: dict[bytes, str] = field(default_factory=dict[bytes, str])
    slots: dict[str, str] = field(default_factory=dict[str, str])
    vetoed: int = 0
    spared: int = 0

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
            # no update makes one memory the exact like of another
            wanted = replace(decision.memory, content=decision.text or decision.memory.content)
            others = [other for other in active if other.id != decision.memory.id]
            twin = self._twin(wanted, others)
            if twin is not None and twin.id != decision.memory.id:
                decision = Decision("NOOP", twin)
        self._carry_out(decision, fact)

    def _carry_out(self, decision: Decision, fact: Memory) -> None:
        memory = decision.memory
        if memory is None or decision.action == "ADD":
            self._change("add", fact, fact)
        elif decision.action == "NOOP":
            self._link(memory, fact, why=SAME)
        elif decision.action == "UPDATE":
            self._update(memory, fact, decision.text or fact.content)
        elif is_saved(memory):
            self._link(memory, replace(fact, valid_from=said(fact)), why=BESIDE_SAVED)
        elif not self._may_supersede(memory):
            self._change("add", fact, fact)
        elif said(fact) < said(memory):
            self._retire(fact, memory, why=EARLIER_VALUE, until=_began(memory))
        else:
            self._supersede(memory, fact)

    def _may_supersede(self, memory: Memory) -> bool:
        """Return False once the plan supersedes all that one job may; its own and summaries are free."""
        if memory.id in self.added or memory.is_summary:
            return True
        self.replaceable -= 1
        self.spared += self.replaceable < 0
        return self.replaceable >= 0

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
        holders = [memory for memory in holders if not is_outranked(fact, memory)]
        return Decision("SUPERSEDE", max(holders, key=said)) if holders else Decision("ADD")

    def _reinforce(self, memory: Memory, fact: Memory) -> None:
        """Take note that the memory was said again, in the same words."""
        self.reinforced[memory.id] = None
        if slot_of(memory) is not None and said(fact) > said(memory):
            self._replace(_said_until(memory, fact), fact, why=SAID_AGAIN)

    def _link(self, memory: Memory, fact: Memory, *, why: str) -> None:
        """Add the fact beside a memory that says the same, or that it must not replace."""
        self.reinforced[memory.id] = None
        if memory.id in self.added or len(memory.links) >= MAX_LINKS:
            self._change("add", fact, fact)
            return
        group = new_id(self.now)
        self._change("add", replace(fact, links=(memory.id,)), fact, why=why, group=group)
        linked = replace(
            memory,
            links=(*memory.links, fact.id),
            updated_at=self.now,
            revision=memory.revision + 1,
        )
        self._change("link", linked, fact, why=why, group=group)

    def _update(self, memory: Memory, fact: Memory, text: str) -> None:
        """Give the memory the text that holds both; the fact is kept as history of it."""
        group = self._retire(fact, memory, why=UNITED, kind="merge")
        renewed = max(filter(None, (memory.expires_at, fact.expires_at)), default=None)
        updated = replace(
            _said_until(memory, fact),
            content=text,
            topics=tuple(dict.fromkeys((*memory.topics, *fact.topics))),
            tags=tuple(dict.fromkeys((*memory.tags, *fact.tags))),
            importance=max(memory.importance, fact.importance),
            event_ids=tuple(dict.fromkeys((*memory.event_ids, *fact.event_ids))),
            metadata={**memory.metadata, **fact.metadata},
            happened_at=fact.happened_at or memory.happened_at,
            expires_at=renewed if memory.expires_at and fact.expires_at else None,
        )
        self._replace(updated, fact, why=UNITED, group=group)

    def _supersede(self, memory: Memory, fact: Memory) -> None:
        """Let the later statement stand; the earlier one is history that ends when it was said."""
        since = max(said(fact), _began(memory))
        old = retired(memory, fact.id, now=self.now, valid_from=_began(memory), valid_to=since)
        place = self.added.get(old.id)
        if place is None:
            group = new_id(self.now)
        else:  # what this plan adds is history from the start, and one undo takes all values back
            group = (not memory.links and self.changes[place].group) or new_id(self.now)
            self._reword(place, replace(old, revision=memory.revision), group)
        self._change("add", replace(fact, valid_from=since), fact, why=LATER_VALUE, group=group)
        if place is None:
            self._change("supersede", old, fact, why=LATER_VALUE, group=group)

    def _retire(
        self,
        fact: Memory,
        memory: Memory,
        *,
        why: str,
        kind: Literal["supersede", "merge"] = "supersede",
        until: datetime | None = None,
    ) -> str:
        """Keep a fact as history of the memory that stands for it; return the decision's group."""
        group = new_id(self.now)
        since = said(fact)
        self._change("add", fact, fact)
        ends = max(since, until or self.now)
        former = retired(fact, memory.id, now=self.now, valid_from=since, valid_to=ends)
        self._change(kind, former, fact, why=why, group=group)
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


def _began(memory: Memory) -> datetime:
    """Return since when a memory has been valid."""
    return memory.valid_from or said(memory)


def _said_until(memory: Memory, fact: Memory) -> Memory:
    """Return the memory as said last when the fact was; it has been valid since it was said first."""
    return replace(memory, said_at=max(said(memory), said(fact)), valid_from=_began(memory))
